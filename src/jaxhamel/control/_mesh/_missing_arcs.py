"""Arcs of a control that are too short for the mesh: they lie between two points, or among a few points beside the bounds.

A limit of a state of order 1 is reached by a motion, not by a jump: before its arc a control is at the bound that drives the
state towards its own. Under a large voltage the current of a motor takes a few milliseconds from one bound to the other. If
the arc before is another one, the short arc is missing between them, and likewise at the end of a motion, where the state
is not on its bound. Or a force changes its sign for a moment: the mesh shows two arcs on one bound, and points between them
where the force is less.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._boundary_arcs import (
    ON_BOUND,
    BoundaryArc,
    Side,
    runs,
    sides_of,
)
from jaxhamel.control._mesh._switches import rows_by_control

# A state counts as off its bound at the first or the last time if its distance is more than this share of the largest one.
CLOSE = 0.1
# A control that leaves its bound for a shorter time, as a share of the quadrature weight of a point, does not count.
SHORTEST_PULSE = 0.05


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
    found, at_ends = list(arcs), _limits_at_ends(transcription, state.w)
    for arc in sorted((x for x in arcs if x.order == 1), key=lambda x: x.begin):
        side = dict(sides_of(transcription, state, arc.row))[arc.is_upper]
        on = (side.times > arc.begin) & (side.times < arc.end)
        if not np.any(on):
            continue
        effect = _effect(transcription, parts, rows[0], arc.row, on)
        bounds = arc.bound(transcription)[[0, -1], [0, -1]]
        away = [float(abs(x[arc.row] - b)) for x, b in zip(at_ends, bounds, strict=True)]
        before = BoundaryArc(rows[0], 0, (effect > 0.0) == arc.is_upper, 0.0, 1.0)
        after = before._replace(is_upper=not before.is_upper)
        jumps = [_jump(transcription, state, x, on) for x in (before, after)]
        speeds = [max(abs(effect) * x, float(np.finfo(float).tiny)) for x in jumps]
        found = _with_one_before(found, arc, side, before, away[0], speeds[0])
        found = _with_one_at_end(found, arc, side, after, away[1], speeds[1])
    return found


def _jump(
    transcription: Transcription, state: SearchState, to: BoundaryArc, on: Bool[np.ndarray, " K"]
) -> float:
    """The mean distance of a control from the bound of the arc `to`, over the points `on`: the size of its jump there."""
    value = np.asarray(state.w.slack, float)[..., to.row]
    return float(np.mean(np.abs(value - to.bound(transcription)).ravel()[on]))


def _limits_at_ends(
    transcription: Transcription, w: CollocationPoint
) -> tuple[Float[np.ndarray, " r"], Float[np.ndarray, " r"]]:
    """The values of the limits at the first and at the last node."""
    intervals = transcription.intervals(w)

    def at(k: int, share: float, X):
        interval = jax.tree.map(lambda x: x[k], intervals)
        y = jnp.concatenate([X, w.c[k, k], w.p])
        return np.asarray(transcription.limit(interval, jnp.asarray(share, y.dtype), y), float)

    last = jnp.concatenate([w.x[-2][None], w.X[-1]])
    return at(0, 0.0, w.x[0]), at(-1, 1.0, transcription.constants("end") @ last)


def with_pulses(
    arcs: list[BoundaryArc], transcription: Transcription, state: SearchState
) -> list[BoundaryArc]:
    """Returns `arcs` in which no arc of a control meets another one on the same bound.

    Where two meet, the control leaves its bound between them and is at its other bound for a time that its mean value
    shows. If this time is too short, or without another bound, the two are one arc.
    """
    found: list[BoundaryArc] = []
    for arc in sorted(arcs, key=lambda x: (x.row, x.begin)):
        before = found[-1] if found else None
        if before is None or arc.order > 0 or before[:3] != arc[:3] or before.end != arc.begin:
            found.append(arc)
            continue
        ends = _pulse(before.end, arc, transcription, state)
        if ends is None:
            found[-1] = before._replace(end=arc.end)
        else:
            pulse = BoundaryArc(arc.row, 0, not arc.is_upper, *ends)
            found[-1:] = [before._replace(end=ends[0]), pulse, arc._replace(begin=ends[1])]
    return found


def _pulse(
    time: float, arc: BoundaryArc, transcription: Transcription, state: SearchState
) -> tuple[float, float] | None:
    """The times (begin, end), about `time`, between which the control of `arc` is at its other bound; None if it is not."""
    sides = dict(sides_of(transcription, state, arc.row))
    if len(sides) < 2:
        return None
    side, other = sides[arc.is_upper], sides[not arc.is_upper]
    lengths = np.diff(np.asarray(transcription.shares, float))
    weights = np.outer(lengths, np.asarray(transcription.rule.weights, float)).ravel()
    close = side.distances < ON_BOUND * np.max(side.distances)
    gaps = [slice(a, b + 1) for a, b in runs(~(close | side.binds))]
    near = min(gaps, key=lambda x: abs(np.mean(side.times[x]) - time), default=slice(0, 0))
    area = (weights * side.distances)[near]
    width = float(np.sum(area) / np.max(side.distances + other.distances))
    if not np.any(area) or width < SHORTEST_PULSE * float(np.max(weights[near])):
        return None
    middle = float(np.average(side.times[near], weights=area))
    return middle - width / 2, middle + width / 2


def _effect(
    transcription: Transcription, parts: Parts, by: int, row: int, on: Bool[np.ndarray, " K"]
) -> float:
    """The change of the rate of `row`, a function of the state, by that of the row `by`; rates are per duration.

    The controls change along the gradient of `by`; the result is the mean over the points `on`.
    """
    d, m = transcription.size, transcription.n_controls
    jacobian = np.asarray(parts.points.jacobian, float)
    jacobian = jacobian.reshape(len(on), *jacobian.shape[2:])[on]
    of_rate = np.einsum("kd,kdm->km", jacobian[:, d + row, :d], jacobian[:, :d, d : d + m])
    gradient = jacobian[:, d + by, d : d + m]
    lengths = np.repeat(
        np.diff(np.asarray(transcription.shares, float)), len(transcription.rule.points)
    )[on]
    squares = np.sum(gradient**2, axis=1)
    by_row = np.sum(of_rate * gradient, axis=1) / np.where(squares > 0.0, squares, 1.0)
    return float(np.mean(by_row / lengths))


def _with_one_before(
    arcs: list[BoundaryArc],
    arc: BoundaryArc,
    side: Side,
    wanted: BoundaryArc,
    away: float,
    speed: float,
) -> list[BoundaryArc]:
    """Adds an arc of a control that ends where `arc`, of a state, begins, unless there is one.

    **Arguments:** `wanted`: the row of the added arc, and whether it is on the upper bound of this row; `away`: the distance
    of the state from its bound at the first time; `speed`: that with which the control of `wanted` moves the state.
    """
    before = [x for x in arcs if x.end == arc.begin]
    if any(x.order > 0 and x.row != arc.row for x in before):
        return arcs  # the control that keeps another state on its limit moves this state to its bound, without a short arc
    if any(x[:3] == wanted[:3] for x in before):
        return arcs
    first = int(np.searchsorted(side.times, arc.begin))
    if before:
        room = float(side.times[first] - side.times[first - 1]) / 4
        room = min(room, float(side.distances[first - 1]) / speed / 2)
        begin, end = arc.begin - room, arc.begin + room
    elif arc.begin == 0.0 and away > CLOSE * np.max(side.distances):
        begin, end = 0.0, min(float(side.times[0]), away / speed)
    else:
        return arcs
    short = wanted._replace(begin=begin, end=end)
    moved = [x._replace(end=short.begin) if x in before else x for x in arcs]
    return [*(x._replace(begin=short.end) if x == arc else x for x in moved), short]


def _with_one_at_end(
    arcs: list[BoundaryArc],
    arc: BoundaryArc,
    side: Side,
    wanted: BoundaryArc,
    away: float,
    speed: float,
) -> list[BoundaryArc]:
    """Adds a short arc of a control at the end of the motion if the motion must end with the state off the bound of `arc`.

    `arc` lasts to the last interval; the other arguments are as in `_with_one_before`.
    """
    if arc.end < 1.0 or away <= CLOSE * np.max(side.distances):
        return arcs
    begin = max(float(side.times[-1]), 1.0 - away / speed)
    short = wanted._replace(begin=begin, end=1.0)

    def same(x):
        return x[:3] == arc[:3] and x.end == arc.end

    return [*(x._replace(end=begin) if same(x) else x for x in arcs), short]
