"""Motions along bounds of controls and of states, whose arcs meet: where one ends another begins.

In least time a force at its bound accelerates the motion until its speed is at a limit, and jumps there; the motion reaches
the limit with a slope. Or a control jumps from bound to bound, or leaves its bound where another one reaches its own. Where
a control is continuous as the motion reaches or leaves a limit of a state, it does so smoothly instead (`_arc_search`).

The arcs are read from a solution whose mesh need not have nodes at their ends.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._boundary_arcs import (
    ON_BOUND,
    BoundaryArc,
    orders,
    point_times,
    runs,
    sides_of,
)

# The longest part of a motion between two arcs that meet, in intervals: points next to a jump are on neither bound.
LONGEST_GAP = 2
AT_EDGE = 1  # an arc begins with the motion if this number of points, or fewer, come before it; likewise at its end
SHORTEST = (
    2  # the least number of points of an arc of a control that is not at an end of the motion
)


class _Run(NamedTuple):
    """Points `first` to `last` on one bound of a row of limits."""

    row: int
    order: int
    is_upper: bool
    first: int
    last: int


def meeting_arcs(
    transcription: Transcription, state: SearchState, parts: Parts
) -> list[BoundaryArc]:
    """All arcs of a solution, if they meet: inside the motion, each arc ends where another one begins.

    An empty list otherwise, or if no limit of a state of order 1 binds, or if one of a higher order does.
    """
    by_row = orders(transcription, parts)
    found = [x for row, order in enumerate(by_row) for x in _runs(transcription, state, row, order)]
    highest = max((x.order for x in found), default=0)
    times = point_times(transcription).ravel()
    meeting = _meeting(found, times, LONGEST_GAP * len(transcription.rule.points))
    if highest != 1 or meeting is None:
        return []
    return [
        BoundaryArc(x.row, x.order, x.is_upper, meeting[k, False], meeting[k, True])
        for k, x in enumerate(found)
    ]


def _runs(transcription: Transcription, state: SearchState, row: int, order: int) -> list[_Run]:
    """The runs of points on both bounds of one row."""
    found, least = [], SHORTEST if order == 0 else len(transcription.rule.points)
    for is_upper, side in sides_of(transcription, state, row):
        last_point = len(side.binds) - 1
        for first, last in runs(_on(side.binds, side.distances)):
            if last - first + 1 >= least or first == 0 or last == last_point:
                found.append(_Run(row, order, is_upper, first, last))
    return found


def _meeting(
    found: list[_Run], times: Float[np.ndarray, " K"], longest: int
) -> dict[tuple[int, bool], float] | None:
    """The time of each end of each run, by (number of the run, whether it is its last time); None if one end is not known.

    An end and the beginning closest to it meet halfway between their points, if at most `longest` points are between them.
    """
    known = {(k, False): 0.0 for k, x in enumerate(found) if x.first <= AT_EDGE}
    known |= {(k, True): 1.0 for k, x in enumerate(found) if x.last >= len(times) - 1 - AT_EDGE}
    pairs = itertools.permutations(range(len(found)), 2)
    for i, j in sorted(pairs, key=lambda p: abs(found[p[1]].first - found[p[0]].last)):
        last, first = found[i].last, found[j].first
        free = (i, True) not in known and (j, False) not in known
        if free and abs(first - last) <= longest:
            known[i, True] = known[j, False] = float(times[last] + times[first]) / 2
    return known if len(known) == 2 * len(found) else None


def _on(
    binds: Bool[np.ndarray, " K"], distances: Float[np.ndarray, " K"]
) -> Bool[np.ndarray, " K"]:
    """The points that bind, and those beside them that are close to the bound: at a jump the multiplier comes to zero."""
    on = binds.copy()
    for first, last in runs(binds | (distances < ON_BOUND * np.max(distances))):
        on[first : last + 1] = np.any(binds[first : last + 1])
    return on
