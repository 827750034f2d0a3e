"""Boundary arcs and touch points: where a limit of the state holds with equality, for some time or at one time.

At both ends of an arc, and at a touch point, the optimal control or one of its derivatives jumps, and the multiplier of the
limit may be an impulse. A collocation has neither within an interval; with nodes at these times it has both.

The order of a limit is the number of derivatives by time after which the control appears in it, 0 for a limit of the
control. A limit of order 0 or 1 has arcs, one of a higher order has touch points, too. An impulse acts at a node, so that
limits of order 2 and more need points at the nodes (Radau).

Source: Bryson, Denham and Dreyfus 1963; Hartl, Sethi and Vickson 1995.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._certificate._violation import binding
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState, resumed

# A limit whose distance is below this share of its largest distance is on its bound between two points where it binds: the
# multiplier may be zero along an arc.
ON_BOUND = 1e-3
# A control counts as on its bound at the node where its arc begins if its distance from the bound is at most this multiple
# of the rounding error.
ROUNDED = 1e7
# An arc that begins or ends at a smaller share from the first or last time does so there.
AT_EDGE = 1e-4


class BoundaryArc(NamedTuple):
    """The times, as shares of the duration, between which a row of the limits is on its bound; equal for a touch point.

    `order`: the order of the limit, where 2 stands for all higher ones, too; `inward`: the distance by which its bound is
    moved inwards on the arc, so that the limit holds between the points, too; `is_smooth`: whether a control reaches its
    bound without a jump at the time `begin`.
    """

    row: int
    order: int
    is_upper: bool
    begin: float
    end: float
    inward: float = 0.0
    is_smooth: bool = False

    @property
    def ends(self) -> tuple[float, float]:
        """(begin, end)."""
        return self.begin, self.end

    def intervals(self, transcription: Transcription) -> slice:
        """The numbers of the intervals of the arc, if the mesh has nodes at its ends."""
        nodes = np.asarray(transcription.shares, float)
        first, last = (int(np.argmin(np.abs(nodes - time))) for time in self.ends)
        return slice(first, last)

    def bound(self, transcription: Transcription) -> Float[np.ndarray, "N s"]:
        """The bound of the arc at all points."""
        if self.is_upper:
            return np.asarray(transcription.upper)[..., self.row] - self.inward
        return np.asarray(transcription.lower)[..., self.row] + self.inward

    @property
    def touches(self) -> bool:
        """Whether the limit holds with equality at one time only."""
        return self.begin == self.end


class Side(NamedTuple):
    """One bound of one row at all points, in their order: times, distances from the bound, multipliers, whether it binds."""

    times: Float[np.ndarray, " K"]
    distances: Float[np.ndarray, " K"]
    multipliers: Float[np.ndarray, " K"]
    binds: Bool[np.ndarray, " K"]


def arcs_of(transcription: Transcription, state: SearchState, parts: Parts) -> list[BoundaryArc]:
    """The boundary arcs and touch points of all limits of the state that the points of the transcription can follow.

    Their times are right up to the distance of two points. With Gauss points kinks of the control are junctions
    (`_junctions`), and limits of order 2 and more have no arcs.
    """
    has_nodes = transcription.rule.points[-1] == 1.0
    count = len(transcription.rule.points)
    found = []
    by_row = orders(transcription, parts)
    for row, order in enumerate(by_row):
        if order == 1 or has_nodes:
            for is_upper, side in sides_of(transcription, state, row):
                longest_touch = count if order == 2 else 0
                times = _arcs_on(side, longest_touch)
                found += [BoundaryArc(row, order, is_upper, *ends) for ends in times]
    return found


def needs_points_at_nodes(transcription: Transcription, state: SearchState, parts: Parts) -> bool:
    """Whether a limit of order 2 or more binds, and the last point of an interval is not its node."""
    if not transcription.limits or transcription.rule.points[-1] == 1.0:
        return False
    rows = [row for row, order in enumerate(orders(transcription, parts)) if order == 2]
    sides = [side for row in rows for _, side in sides_of(transcription, state, row)]
    return any(_arcs_on(side, 0) for side in sides)


def orders(transcription: Transcription, parts: Parts) -> list[int]:
    """The order of each row of the limits: 0, if it depends on the control; 1; or 2, which stands for all higher ones."""
    zeroth, first = (np.any(x, axis=1) for x in _effects(transcription, parts))
    return np.where(zeroth, 0, np.where(first, 1, 2)).tolist()


def controls_of(transcription: Transcription, parts: Parts) -> list[set[int]]:
    """The numbers of the controls that drive each row of the limits, together with those that drive the same rows.

    A control drives a row that depends on it, or whose rate does; all controls drive rows of higher orders. Rows that no
    chain of controls connects, such as those of two axes of a table, have no control in common.
    """
    zeroth, first = _effects(transcription, parts)
    which = np.where(np.any(zeroth, axis=1)[:, None], zeroth, first)
    which = np.where(np.any(which, axis=1)[:, None], which, True)
    found = [set(np.flatnonzero(row).tolist()) for row in which]
    for _ in found:
        found = [set().union(*(other for other in found if other & own)) for own in found]
    return found


def _effects(
    transcription: Transcription, parts: Parts
) -> tuple[Bool[np.ndarray, "r m"], Bool[np.ndarray, "r m"]]:
    """Whether each row of the limits, and whether its rate, depends on each control."""
    d, m = transcription.size, transcription.n_controls
    jacobian = np.asarray(parts.points.jacobian, float)
    rates, rows = jacobian[:, :, :d], jacobian[:, :, d:]
    by_control = np.max(np.abs(rows[..., d : d + m]), axis=(0, 1), initial=0.0)
    of_rate = np.einsum("ijrd,ijdm->ijrm", rows[..., :d], rates[..., d : d + m])
    size = np.einsum("ijrd,ijdm->ijrm", np.abs(rows[..., :d]), np.abs(rates[..., d : d + m]))
    rounding = 1e3 * float(jnp.finfo(parts.points.jacobian.dtype).eps) * np.max(size, initial=0.0)
    return by_control > 0.0, np.max(np.abs(of_rate), axis=(0, 1), initial=0.0) > rounding


def sides_of(transcription: Transcription, state: SearchState, row: int) -> list[tuple[bool, Side]]:
    """The finite bounds of one row, each with whether it is the upper one; none of an equation."""
    slack, duals = np.asarray(state.w.slack, float)[..., row], state.duals
    lower, upper = (
        np.asarray(x, float)[..., row] for x in (transcription.lower, transcription.upper)
    )
    if np.any(lower == upper):
        return []
    times = point_times(transcription).ravel()
    binds = binding(transcription, state.w, duals)[..., row].ravel()
    found = []
    for is_upper, distance, z in (
        (False, slack - lower, duals.low),
        (True, upper - slack, duals.high),
    ):
        if np.all(np.isfinite(distance)):
            z = np.asarray(z, float)[..., row].ravel()
            distance = distance.ravel()
            here = binds & (distance < 0.5 * np.max(distance)) & (z > 0.0)
            found.append((is_upper, Side(times, distance, z, here)))
    return found


def point_times(transcription: Transcription) -> Float[np.ndarray, "N s"]:
    """The times of the collocation points, as shares of the duration."""
    shares = np.asarray(transcription.shares, float)
    return shares[:-1, None] + np.diff(shares)[:, None] * np.asarray(transcription.rule.points)


def _arcs_on(side: Side, longest_touch: int) -> list[tuple[float, float]]:
    """(begin, end) of the arcs on one bound; a run of at most `longest_touch` points is a touch point.

    A touch point is at the mean of the points' times, weighted with their multipliers: so an impulse between two points is
    represented.
    """
    found = []
    for first, last in runs(on_bound(side)):
        these = slice(first, last + 1)
        if last - first < longest_touch:
            weights = np.maximum(side.multipliers[these], 0.0)
            time = float(np.average(side.times[these], weights=weights))
            found.append((time, time))
        else:
            found.append(_ends_of_arc(side, first, last))
    return [x for x in found if x[1] > AT_EDGE and x[0] < 1.0 - AT_EDGE]


def _ends_of_arc(side: Side, first: int, last: int) -> tuple[float, float]:
    """The times of the points `first` and `last`, or those of their neighbours' midpoints if the two are one point."""
    times = np.concatenate([[0.0], side.times, [1.0]])
    if first == last:
        begin, end = (
            (times[first] + times[first + 1]) / 2,
            (times[first + 1] + times[first + 2]) / 2,
        )
    else:
        begin, end = side.times[first], side.times[last]
    begin = 0.0 if first == 0 else float(begin)
    return begin, 1.0 if last == len(side.times) - 1 else float(end)


def on_bound(side: Side, beside: bool = False) -> Bool[np.ndarray, " K"]:
    """Whether the limit is on its bound at each point: it binds there, or lies close between two points where it binds.

    `beside`: close points beside those where it binds count, too, since at a jump the multiplier comes to zero.
    """
    on = side.binds.copy()
    for first, last in runs(side.binds | (side.distances < ON_BOUND * np.max(side.distances))):
        inside = first + np.flatnonzero(side.binds[first : last + 1])
        if inside.size:
            begin, end = (first, last) if beside else (inside[0], inside[-1])
            on[begin : end + 1] = True
    return on


def runs(flags: Bool[np.ndarray, " K"]) -> list[tuple[int, int]]:
    """(first, last) index of each run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    return [(int(a), int(b) - 1) for a, b in edges.reshape(-1, 2)]


def on_bounds(transcription: Transcription, arcs: list[BoundaryArc]) -> Transcription:
    """The transcription whose limits hold with equality on the arcs, and do not act in the intervals beside them.

    The mesh has nodes at the ends of the arcs. A limit is imposed at the points of its arcs only, so that the solution may
    violate it beside an arc of the wrong length: the solution shows whether the times of the arcs are right.
    """
    lower, upper = (np.array(x) for x in (transcription.lower, transcription.upper))
    intervals = [arc.intervals(transcription) for arc in arcs]
    for arc, on in zip(arcs, intervals, strict=True):
        beside = slice(max(on.start - 1, 0), on.stop + 1)
        lower[beside, :, arc.row], upper[beside, :, arc.row] = -np.inf, np.inf
    for arc in arcs:
        at = _places(transcription, arc)
        lower[at, arc.row] = upper[at, arc.row] = arc.bound(transcription)[at]
    return bounded_by(transcription, lower, upper)


def moved_inwards(transcription: Transcription, arcs: list[BoundaryArc]) -> Transcription:
    """The transcription with the bounds of the arcs, moved inwards, at their points."""
    lower, upper = (np.array(x) for x in (transcription.lower, transcription.upper))
    for arc in arcs:
        at = _places(transcription, arc)
        (upper if arc.is_upper else lower)[at, arc.row] = arc.bound(transcription)[at]
    return bounded_by(transcription, lower, upper)


def _places(transcription: Transcription, arc: BoundaryArc) -> Bool[np.ndarray, "N s"]:
    """Marks the points at which the limit is imposed as an equation: all points in the intervals of the arc.

    The node at which the arc begins is marked, too, if the arc belongs to a limit of the state, or to a limit of a control
    that reaches its bound there without a jump.
    """
    on, found = arc.intervals(transcription), np.zeros(transcription.lower.shape[:2], bool)
    found[on] = True
    at_node = arc.order > 0 or arc.is_smooth
    if at_node and on.start > 0 and transcription.rule.points[-1] == 1.0:
        found[on.start - 1, -1] = True
    return found


def bounded_by(transcription: Transcription, lower, upper) -> Transcription:
    bounds = tuple(jnp.asarray(x, transcription.lower.dtype) for x in (lower, upper))
    return eqx.tree_at(lambda t: (t.lower, t.upper), transcription, bounds)


class WithLimits(NamedTuple):
    """A solution on the bounds of arcs as one of the problem with its own limits.

    - `bounds`: the transcription with the problem's limits; the bounds of `wrong` are equations still.
    - `wrong`: whether the multiplier of an equation has another sign than that of the bound which it replaces.
    """

    bounds: Transcription
    state: SearchState
    wrong: Bool[np.ndarray, "N s r"]


def as_limits(own: Transcription, searched: Transcription, state: SearchState) -> WithLimits | None:
    """A solution of `searched`, the transcription of `on_bounds`, as one of the problem with its own limits.

    The multiplier y of an equation becomes that of the bound which it replaces. A solution with the barrier is less exact:
    where y is 0 along an arc, the barrier keeps a distance of √μ from the bound.

    **Returns:** None if a limit is violated beside the arcs.
    """
    eps = float(jnp.finfo(state.mu.dtype).eps)
    least = eps**0.75  # the multiplier of a limit that binds, where y is 0
    lower, upper, given_lower, given_upper = (
        np.asarray(x) for x in (own.lower, own.upper, searched.lower, searched.upper)
    )
    y, slack = (np.array(x) for x in (state.duals.limits, state.w.slack))
    on_arc = (given_lower == given_upper) & (lower < upper)
    sign = np.where(given_upper == upper, 1.0, -1.0)
    wrong = on_arc & (sign * y < -(eps**0.6))
    acts = np.isfinite(given_lower) | np.isfinite(given_upper)
    free = ~on_arc & (lower < upper)
    multipliers = []
    for one, bound, z in ((-1.0, lower, state.duals.low), (1.0, upper, state.duals.high)):
        here = on_arc & (sign == one) & ~wrong
        touches = free & (np.abs(slack - bound) <= ROUNDED * eps)
        at = bound[here | touches]
        slack[here | touches] = at - one * 8 * eps * np.maximum(1.0, np.abs(at))
        other = np.where(acts & ~on_arc, np.asarray(z), 0.0)
        multipliers.append(np.where(here, np.maximum(one * y, least), other))
    bounds = [np.where(wrong, given_upper, x) for x in (lower, upper)]
    if np.any(((slack <= lower) | (slack >= upper)) & (bounds[0] < bounds[1])):
        return None
    slack, low, high, *bounds = (
        jnp.asarray(x, state.mu.dtype) for x in (slack, *multipliers, *bounds)
    )
    duals = state.duals._replace(low=low, high=high)
    state = resumed(state._replace(w=state.w._replace(slack=slack), duals=duals))
    return WithLimits(eqx.tree_at(lambda t: (t.lower, t.upper), own, tuple(bounds)), state, wrong)


def without(
    equations: Bool[np.ndarray, "N s r"], searched: Transcription, state: SearchState
) -> tuple[Transcription, SearchState]:
    """(`searched` without these equations, the state from which its search starts)."""
    bounds = (
        jnp.where(equations, -jnp.inf, searched.lower),
        jnp.where(equations, jnp.inf, searched.upper),
    )
    fewer = eqx.tree_at(lambda t: (t.lower, t.upper), searched, bounds)
    duals = state.duals._replace(limits=jnp.where(equations, 0.0, state.duals.limits))
    return fewer, resumed(state._replace(duals=duals))
