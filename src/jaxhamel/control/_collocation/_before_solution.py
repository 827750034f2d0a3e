"""Changes of a search that has found no solution yet: bent guesses, a new start on a coarse mesh, the elastic problem.

Each function takes the search after its last iterations, changes it if need be, and returns whether it has changed it.
"""

import numpy as np

from jaxhamel.control._collocation._adaptive_search import MOST_BENDS, AdaptiveSearch
from jaxhamel.control._collocation._elastic import (
    elastic_start,
    original,
)
from jaxhamel.control._collocation._new_start import (
    PATIENCE,
    coarser,
    creeps,
    moved_by_own_control,
    new_start,
)
from jaxhamel.control._collocation._start import (
    bent,
)
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import first_state
from jaxhamel.control._mesh._transfer import carried_over

# the share of the conditions' residuals that a step must leave, to first order, for these to contradict one another
CONTRADICTORY = 0.1


def bends_at_once(search: AdaptiveSearch) -> bool:
    """Starts the search anew, from a bent guess, if the linearised conditions contradict one another at its start;
    returns whether it does.

    The first step then tells nothing of the way to feasible points, and a search from there would creep.
    """
    fresh, search.fresh = search.fresh, False
    if not fresh or search.bends >= MOST_BENDS or float(search.state.missed) < CONTRADICTORY:
        return False
    _start_bent(search)
    return True


def starts_anew(search: AdaptiveSearch) -> bool:
    """Starts the search anew if all its latest steps were short; returns whether it does."""
    rows, tolerance = search.rows[search.since :], float(search.tolerance)
    if not search.may_start_anew or search.elastic is not None or not creeps(rows, tolerance):
        return False
    search.may_start_anew = False
    coarse = coarser(search.problem, search.transcription)
    if coarse is not search.transcription:
        search.fine = search.transcription, search.state
    search.transcription = search.tight = coarse
    search.go_on(new_start(search.problem, coarse, search.barrier))
    return True


def leaves_coarse_mesh(search: AdaptiveSearch) -> bool:
    """Returns from the coarse mesh to the method's mesh if the search has ended there; returns whether it does.

    The search continues from the solution on the coarse mesh or, if there is none, with the elastic problem.
    """
    failed = int(search.state.stuck) >= STUCK or len(search.rows) - search.since >= PATIENCE
    if search.fine is None or not (bool(search.state.done) or failed):
        return False
    coarse, (fine, before) = search.transcription, search.fine
    search.transcription, search.tight, search.fine = fine, fine, None
    if bool(search.state.done):
        search.go_on(carried_over(coarse, search.state, fine))
    else:
        search.go_on(before)
        _begin_elastic(search)
    return True


def bends(search: AdaptiveSearch) -> bool:
    """Starts the search anew, from a bent guess, if it ends at an infeasible point; returns whether it does.

    At a straight guess the gradients of conditions may vanish, so that a feasible problem seems infeasible:
    displacements across the planes of wheels, and turns of a body by its parts, are of second order in the control.
    Displacements of third order have no gradient at straight states either: the second time the states are those of the
    motion under the bent control.
    """
    ended = bool(search.state.done) or int(search.state.stuck) >= STUCK
    if search.bends >= MOST_BENDS or search.elastic is None or not ended or search.is_feasible():
        return False
    _start_bent(search)
    return True


def relaxes(search: AdaptiveSearch) -> bool:
    """Continues with the elastic problem if the search does not come closer to feasible points; returns whether it does."""
    own = search.elastic is None and search.fine is None
    if not (own and search.is_hopeless() and search.restorations < 2):
        return False
    _begin_elastic(search)
    return True


def returns_from_elastic(search: AdaptiveSearch) -> bool:
    """Continues with the problem itself from a feasible solution of the elastic problem; returns whether it does."""
    if search.elastic is None or not bool(search.state.done) or not search.is_feasible():
        return False
    w = original(search.transcription, search.state.w)
    search.elastic, search.tight = None, search.transcription
    search.go_on(first_state(search.transcription, w, search.barrier))
    return True


def _begin_elastic(search: AdaptiveSearch) -> None:
    search.before_elastic = search.state
    search.elastic, w = elastic_start(search.transcription, search.state.w)
    search.go_on(first_state(search.elastic, w, search.barrier))
    search.restorations += 1


def _start_bent(search: AdaptiveSearch) -> None:
    """Starts the search anew from a bent guess, the second time with the states of the motion under its controls."""
    w = bent(search.transcription, search.first)
    if search.bends:
        moved = moved_by_own_control(search.transcription, search.problem, w)
        w = moved if np.all(np.isfinite(moved.X)) else w
    search.bends, search.elastic, search.restorations = search.bends + 1, None, 0
    search.fresh, search.tight = True, search.transcription
    search.go_on(first_state(search.transcription, w, search.barrier))
