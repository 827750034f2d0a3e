"""Motions along bounds of controls and of states, whose arcs meet: where one ends another begins.

In least time a force at its bound accelerates the motion until its speed is at a limit, and jumps there; the motion reaches
the limit with a slope. Or a control jumps from bound to bound, or leaves its bound where another one reaches its own. Where
the control that keeps a state on its limit reaches its own bound, the motion leaves the limit smoothly. A limit of order 2,
such as that of a speed where the jerk is the control, has arcs, too, and is touched at one time where all controls are on
their bounds. Arcs that a motion reaches smoothly are found otherwise (`_arc_search`).

The arcs are read from a solution whose mesh need not have nodes at their ends.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._boundary_arcs import (
    BoundaryArc,
    controls_of,
    on_bound,
    orders,
    point_times,
    runs,
    sides_of,
)
from jaxhamel.control._mesh._missing_arcs import with_missing, with_pulses

# The longest part of a motion between two arcs that meet, in intervals: points next to a jump are on neither bound.
LONGEST_GAP = 2
# An arc counts as beginning at the first time if no other arc and at most this number of points come before it. The same
# holds for arcs that end at the last time.
AT_EDGE = 1
# The least number of points of an arc of a control that is not at an end of the motion.
SHORTEST = 2

# A control reaches its bound without a jump if its mean distance from it, at as many points before as an interval has, is
# at most this share of the largest distance.
CLOSE = 0.1


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

    Arcs that are too short for the mesh are among them (`_missing_arcs`), and the touch points of limits of order 2.

    An empty list if arcs do not meet, or if controls only switch at nodes of the mesh.
    """
    by_row = orders(transcription, parts)
    found = [x for row, order in enumerate(by_row) for x in _runs(transcription, state, row, order)]
    longest = LONGEST_GAP * len(transcription.rule.points)
    touches = [x for x in found if _touches(x, found, transcription)]
    found = _joined([x for x in found if x not in touches], longest)
    found = [x for x in found if _is_long(x, transcription)]
    driven_by = controls_of(transcription, parts)
    meeting = _meeting(found, point_times(transcription).ravel(), longest, driven_by)
    if meeting is None:
        return []
    arcs = [
        BoundaryArc(x.row, x.order, x.is_upper, meeting[k, False], meeting[k, True])
        for k, x in enumerate(found)
    ]
    arcs = with_pulses(arcs, transcription, state)
    if not touches and all(x.order == 0 for x in arcs) and len(arcs) <= len(found):
        return []
    arcs = [x._replace(is_smooth=_begins_smoothly(x, arcs, transcription, state)) for x in arcs]
    arcs = with_missing(arcs, transcription, state, parts)
    return arcs + [_touch_point(x, transcription, state) for x in touches]


def _touches(run: _Run, found: list[_Run], transcription: Transcription) -> bool:
    """Whether a limit of order 2 is on its bound at one time only: no control is free to keep it there."""
    if run.order < 2:
        return False
    around = [x for x in found if x.order == 0 and x.first <= run.first and run.last <= x.last]
    return len({x.row for x in around}) >= transcription.n_controls


def _touch_point(run: _Run, transcription: Transcription, state: SearchState) -> BoundaryArc:
    """The touch point of a run, at the mean of its points' times, weighted with their multipliers."""
    side = dict(sides_of(transcription, state, run.row))[run.is_upper]
    on = slice(run.first, run.last + 1)
    time = float(np.average(side.times[on], weights=np.maximum(side.multipliers[on], 0.0)))
    return BoundaryArc(run.row, run.order, run.is_upper, time, time)


def _runs(transcription: Transcription, state: SearchState, row: int, order: int) -> list[_Run]:
    """The runs of points on both bounds of one row; of a control only those that are long enough for an arc."""
    found = [
        _Run(row, order, is_upper, *ends)
        for is_upper, side in sides_of(transcription, state, row)
        for ends in runs(on_bound(side, beside=True))
    ]
    return [x for x in found if order > 0 or _is_long(x, transcription)]


def _is_long(run: _Run, transcription: Transcription) -> bool:
    """Whether the points of a run may be those of an arc; one of order 2, or at an end of the motion, may be short."""
    last_point = transcription.lower.shape[0] * transcription.lower.shape[1] - 1
    least = SHORTEST if run.order == 0 else len(transcription.rule.points)
    at_end = run.first == 0 or run.last == last_point
    return run.order == 2 or at_end or run.last - run.first + 1 >= least


def _joined(found: list[_Run], longest: int) -> list[_Run]:
    """The runs, of which two on the same bound are one if at most `longest` points and no other run are between them.

    With Gauss points a control that keeps a state on its bound swings, and a few points of the state are beside the bound.
    """
    joined: list[_Run] = []
    for run in sorted(found, key=lambda x: (x.row, x.is_upper, x.first)):
        before = joined[-1] if joined else None
        if before is not None and _are_one(before, run, found, longest):
            joined[-1] = before._replace(last=run.last)
        else:
            joined.append(run)
    return joined


def _are_one(before: _Run, run: _Run, found: list[_Run], longest: int) -> bool:
    """Whether two runs are on the same bound, with at most `longest` points and no other run between them."""
    if run.order == 0 or before[:3] != run[:3] or run.first - before.last > longest:
        return False
    return not any(before.last < x.last and x.first < run.first for x in found)


def _meeting(
    found: list[_Run],
    times: Float[np.ndarray, " K"],
    longest: int,
    driven_by: list[set[int]] | None = None,
) -> dict[tuple[int, bool], float] | None:
    """The time of each end of each run, by (number of the run, whether it is its last time); None if one end is not known.

    An end and the beginning closest to it meet halfway between their points, if at most `longest` points are between them.

    **Arguments:** `driven_by`: the controls that drive each row; the rows of two arcs that meet have one in common.
    """
    first = [x.first <= AT_EDGE and all(y.last >= x.first for y in found) for x in found]
    edge = len(times) - 1 - AT_EDGE
    last = [x.last >= edge and all(y.first <= x.last for y in found) for x in found]
    known = {(k, False): 0.0 for k, is_first in enumerate(first) if is_first}
    known |= {(k, True): 1.0 for k, is_last in enumerate(last) if is_last}
    pairs = itertools.permutations(range(len(found)), 2)
    for i, j in sorted(pairs, key=lambda p: abs(found[p[1]].first - found[p[0]].last)):
        end, begin = found[i].last, found[j].first
        free = (i, True) not in known and (j, False) not in known
        one = driven_by is None or driven_by[found[i].row] & driven_by[found[j].row]
        if free and one and abs(begin - end) <= longest:
            known[i, True] = known[j, False] = float(times[end] + times[begin]) / 2
    return known if len(known) == 2 * len(found) else None


def _begins_smoothly(
    arc: BoundaryArc, arcs: list[BoundaryArc], transcription: Transcription, state: SearchState
) -> bool:
    """Whether `arc`, of a control, begins where an arc of a state ends along which the control comes close to its bound.

    This motion leaves the limit of the state smoothly: the control that keeps the state on its bound reaches its own.
    """
    if arc.order > 0 or not any(x.order > 0 and x.end == arc.begin for x in arcs):
        return False
    side = dict(sides_of(transcription, state, arc.row))[arc.is_upper]
    before = side.distances[side.times < arc.begin][-len(transcription.rule.points) :]
    return bool(np.mean(before) < CLOSE * np.max(side.distances))
