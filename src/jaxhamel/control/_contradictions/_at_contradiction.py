"""Changes of a search that would end with a contradiction: it looks for a lesser sum of violations first.

The sum found may be too large for two reasons. The elastic problem asks for limits at the points only, so that a motion may
exceed those of the state between them. And it adds the weighted cost, so that a motion with larger violations may be the
cheaper one.
"""

from typing import cast

import numpy as np

from jaxhamel.control._certificate._endings import (
    SMALL,
    measured_violations,
    sizes_of_constraints,
)
from jaxhamel.control._collocation._adaptive_search import AdaptiveSearch
from jaxhamel.control._collocation._before_solution import begin_elastic
from jaxhamel.control._collocation._elastic import Elastic, original
from jaxhamel.control._collocation._tightening import resumed_in_bounds
from jaxhamel.control._contradictions._crossings import (
    BETTER,
    Contradiction,
    asked_violations,
    lesser,
)
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import first_state
from jaxhamel.control._scaling._cost_unit import in_unit

LIGHTER = 2.0**7  # the factor by which the weight of the cost falls each time
MOST_WEIGHTS = 3  # the largest number of smaller weights
ITERATIONS = 60  # the largest number of iterations of a search for a lesser sum


def goes_back(search: AdaptiveSearch) -> bool:
    """Goes back to the least contradiction if the search for a lesser one comes to no end, or to one that is no better;
    returns whether it still goes on.

    All violations between the points count then: without the weight of the cost a motion may jump over a limit.
    """
    own = search.lesser_sum.elastic
    if own is None or search.elastic is not own:
        return False
    assert search.contradiction is not None
    if search.has_elastic_end():
        fails = _sum_of_all(search) >= (1 - BETTER) * search.contradiction.total
    else:
        many = len(search.rows) - search.since
        fails = int(search.state.stuck) >= STUCK or many >= ITERATIONS
    if fails:
        search.take_contradiction()
    return not search.has_elastic_end()


def _sum_of_all(search: AdaptiveSearch) -> float:
    """The sum of all violations at the solution of the elastic problem, each divided by the size of its constraint."""
    assert search.elastic is not None
    found, _ = measured_violations(search.transcription, search.elastic, search.state.w)
    return float(np.sum(found / sizes_of_constraints(search.transcription, found)))


def asks_beside_points(search: AdaptiveSearch) -> bool:
    """Continues with the elastic problem whose limits hold beside the points, too, if the least contradiction has a motion
    that exceeds a limit between the points alone; returns whether it does."""
    found = _least(search)
    if found is None or search.has_crossed or not _is_exceeded_between(found):
        return False
    search.take_contradiction()
    w = original(search.transcription, search.state.w)
    search.state = first_state(search.transcription, w, search.barrier)
    search.has_crossed, search.elastic = True, None
    begin_elastic(search)
    search.lesser_sum.elastic = search.elastic
    return True


def _is_exceeded_between(found: Contradiction) -> bool:
    """Whether a limit counts as violated that holds at the points."""
    at = found.transcription, found.elastic
    asked = asked_violations(*at, found.state)
    counts = measured_violations(*at, found.state.w)[1]
    return bool(np.any(counts & (asked < SMALL * np.max(asked))))


def weighs_cost_less(search: AdaptiveSearch) -> bool:
    """Continues from the least contradiction with a smaller weight of the cost while this lowers the sum of violations;
    returns whether it does."""
    found, own = _least(search), search.lesser_sum
    if found is None:
        return False
    fell = found.total < (1 - BETTER) * own.total_before
    if not fell or own.weights >= MOST_WEIGHTS:
        return False
    own.weights, own.total_before = own.weights + 1, found.total
    search.take_contradiction()
    lighter = cast(Elastic, in_unit(found.elastic, LIGHTER))
    search.elastic = own.elastic = lighter
    search.go_on(resumed_in_bounds(lighter, found.state))
    return True


def _least(search: AdaptiveSearch) -> Contradiction | None:
    """The least contradiction of a search that stands at one; otherwise None."""
    if not search.has_elastic_end():
        return None
    found = search.found_contradiction()
    if found is not None:
        search.contradiction = lesser(search.contradiction, found)
    return None if found is None else search.contradiction
