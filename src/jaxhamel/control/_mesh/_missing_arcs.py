"""Arcs of a control that are too short for the mesh: between two points they leave no trace.

A limit of a state of order 1 is reached by a motion, not by a jump: before its arc a control is at the bound that drives the
state towards its own. Under a large voltage the current of a motor takes a few milliseconds from one bound to the other. If
the arc before is another one, the short arc is missing between them, and likewise at the end of a motion, where the state
is not on its bound.
"""

import numpy as np
from jaxtyping import Bool

from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._boundary_arcs import BoundaryArc, Side, sides_of
from jaxhamel.control._mesh._switches import rows_by_control

# A state counts as off its bound at the first or the last point if its distance is more than this share of the largest one.
CLOSE = 0.1


def with_missing(
    arcs: list[BoundaryArc], transcription: Transcription, state: SearchState, parts: Parts
) -> list[BoundaryArc]:
    """Returns `arcs` together with the arcs of a control that are too short for the mesh to show.

    Only a problem in which one row of the limits depends on the controls gets such arcs: with more, it is not known which
    control drives the state to its bound.

    **Arguments:** `arcs`: each ends where another one begins, or with the motion.
    """
    rows = rows_by_control(transcription, parts)
    if len(rows) != 1:
        return arcs
    found = list(arcs)
    for arc in sorted((x for x in arcs if x.order > 0), key=lambda x: x.begin):
        side = dict(sides_of(transcription, state, arc.row))[arc.is_upper]
        on = (side.times > arc.begin) & (side.times < arc.end)
        rises = _effect(transcription, parts, rows[0], arc.row, on) > 0.0
        found = _with_one_before(found, arc, side, (rows[0], rises == arc.is_upper))
        found = _with_one_at_end(found, arc, side, (rows[0], rises != arc.is_upper))
    return found


def _effect(
    transcription: Transcription, parts: Parts, by: int, row: int, on: Bool[np.ndarray, " K"]
) -> float:
    """A number with the sign of the change of the rate of `row`, a function of the state, where the row `by` grows.

    The controls change along the gradient of `by`; the result is the mean over the points `on`.
    """
    d, m = transcription.size, transcription.n_controls
    jacobian = np.asarray(parts.points.jacobian, float)
    jacobian = jacobian.reshape(len(on), *jacobian.shape[2:])[on]
    of_rate = np.einsum("kd,kdm->km", jacobian[:, d + row, :d], jacobian[:, :d, d : d + m])
    return float(np.mean(np.sum(of_rate * jacobian[:, d + by, d : d + m], axis=1)))


def _with_one_before(
    arcs: list[BoundaryArc], arc: BoundaryArc, side: Side, wanted: tuple[int, bool]
) -> list[BoundaryArc]:
    """Adds an arc of a control that ends where `arc`, of a state, begins, unless there is one.

    **Arguments:** `wanted`: the row of the added arc, and whether it is on the upper bound of this row.
    """
    before = [x for x in arcs if x.end == arc.begin]
    if any(x[:3] == (wanted[0], 0, wanted[1]) for x in before):
        return arcs
    first = int(np.searchsorted(side.times, arc.begin))
    if before:
        room = (side.times[first] - side.times[first - 1]) / 4
        begin, end = arc.begin - room, arc.begin + room
    elif arc.begin == 0.0 and _is_off(side, 0):
        begin, end = 0.0, float(side.times[0])
    else:
        return arcs
    short = BoundaryArc(wanted[0], 0, wanted[1], float(begin), float(end))
    moved = [x._replace(end=short.begin) if x in before else x for x in arcs]
    return [*(x._replace(begin=short.end) if x == arc else x for x in moved), short]


def _with_one_at_end(
    arcs: list[BoundaryArc], arc: BoundaryArc, side: Side, wanted: tuple[int, bool]
) -> list[BoundaryArc]:
    """Adds an arc of a control at the end of the motion if `arc`, of a state, lasts to the last interval but the state is
    not on its bound at the last point. `wanted` is as in `_with_one_before`."""
    if arc.end < 1.0 or not _is_off(side, -1):
        return arcs
    begin = float(side.times[-1])
    short = BoundaryArc(wanted[0], 0, wanted[1], begin, 1.0)

    def same(x):
        return x[:3] == arc[:3] and x.end == arc.end

    return [*(x._replace(end=begin) if same(x) else x for x in arcs), short]


def _is_off(side: Side, k: int) -> bool:
    """Whether the point k is off its bound."""
    return float(side.distances[k]) > CLOSE * float(np.max(side.distances))
