"""The times at which a limited control reaches or leaves a bound: its junctions; likewise those at which a state reaches or
leaves its bound with a slope, as a speed does under a limited force.

A polynomial has no kink. In an interval with a junction it leaves the bound between the collocation points; with a node at
the junction, each interval lies on one side of it. Where the limit is inactive, the distance from the bound is a smooth
function of time, and its zero is the junction. An error δ in the time of the node changes this function by terms of second
order, so that each mesh with nodes at the zeros of the one before squares the error.

Where the cost and the rates are linear in the control, it jumps from the bound onto a singular arc. There the multiplier of
the bound, the switching function S, comes to zero together with its rate: S = (t − t₁)² g(t), g > 0. The junction t₁ is the
zero of √S.

Source: Kelley, Kopp and Moyer 1967 (singular arcs of order 1).
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._certificate._violation import binding
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._mesh._switches import Switch, curvatures_of, rows_by_control

# A state reaches its bound with a slope if the tangent there, drawn back over the points of its polynomial, has at least
# this share of the polynomial's change. Otherwise the zero is double: a boundary arc begins smoothly (`_boundary_arcs`).
SLOPE = 0.3
NEARBY = 2.0  # how far from its two points a junction may lie, as a multiple of their distance
# A control jumps off its bound if its way to the next values, against the curvature of the Hamiltonian, takes at most this
# share of the time in which the switching function grew along the nearest points on the bound.
JUMP = 1e-3
BEYOND = 1e-4  # the share of its largest distance by which a control at a node must be beyond its bound to have a junction
FARTHEST = 2.0  # how far from the points on the bound, as a multiple of their distance, a singular arc may begin


class _Side(NamedTuple):
    """The lower or the upper bound of one limit, at all collocation points.

    - `row`: the number of the limit; `by_control`: whether it depends on the control.
    - `times`: those of the points, as shares of the duration; `distance`: from the bound; `binds`: whether it is active.
    - `multiplier`: that of the bound, per share of the duration; `curvature`: the least one of the Hamiltonian along
      controls that change the limit's function, likewise, and zero for a limit of the state.
    """

    row: int
    by_control: bool
    times: Float[np.ndarray, "N s"]
    distance: Float[np.ndarray, "N s"]
    binds: Bool[np.ndarray, "N s"]
    multiplier: Float[np.ndarray, "N s"]
    curvature: Float[np.ndarray, "N s"]


def junctions_of(
    transcription: Transcription,
    state: SearchState,
    parts: Parts | None,
    switches: Sequence[Switch] = (),
) -> list[float]:
    """The junctions of all limits, as shares of the duration, in their order.

    At a switch the control jumps, so that points at which it leaves one bound for the other are no junctions.

    None with Radau points: the last point of an interval is its node, and a bound that holds there changes the motion by
    terms of first order in the error δ, so that the nodes do not come closer to the junction.
    """
    if not transcription.limits or parts is None or transcription.rule.points[-1] == 1.0:
        return []
    sides = _sides(transcription, state, parts)
    nodes = np.asarray(transcription.shares, float)
    found = [time for side in sides for time in _of_bound(side, switches)]
    return sorted(found + [time for side in sides for time in _beyond_first_points(side, nodes)])


def excess_at_nodes(transcription: Transcription, state: SearchState, parts: Parts | None) -> float:
    """Σ H d³ / (6 ḋ): the change of the cost, to second order, by junctions between the last point on a bound and a node.

    The control is on its bound as far as the node, and jumps off it there by a distance d, which then grows by ḋ. Where H,
    the curvature of the Hamiltonian, is positive, the optimal control is continuous: it leaves the bound by d/ḋ earlier.
    """
    if not transcription.limits or parts is None or transcription.rule.points[-1] == 1.0:
        return 0.0
    nodes = np.asarray(transcription.shares, float)
    sides = [side for side in _sides(transcription, state, parts) if side.by_control]
    return sum((_excess_at_nodes(side, nodes) for side in sides), 0.0)


def _excess_at_nodes(side: _Side, nodes: Float[np.ndarray, " N+1"]) -> float:
    """The same for one bound."""
    on, off, total = np.all(side.binds, axis=1), ~np.any(side.binds, axis=1), 0.0
    lengths, count = np.diff(nodes), side.times.shape[1]
    for i, node in enumerate(nodes[1:-1]):
        for arc, free, last in ((i, i + 1, -1), (i + 1, i, 0)):
            if on[arc] and off[free]:
                x = (side.times[free] - node) / lengths[free]
                polynomial = np.polyfit(x, side.distance[free], count - 1)
                gap, rise = polynomial[-1], abs(np.polyval(np.polyder(polynomial), 0.0))
                rise /= lengths[free]
                if 0.0 < gap < rise * NEARBY * abs(side.times[arc, last] - node):
                    total += float(np.mean(side.curvature[free])) * gap**3 / (6 * rise)
    return total


def _sides(transcription: Transcription, state: SearchState, parts: Parts) -> list[_Side]:
    """Both bounds of all limits that are no equations."""
    shares = np.asarray(transcription.shares, float)
    times = shares[:-1, None] + np.diff(shares)[:, None] * np.asarray(transcription.rule.points)
    slack, shape = np.asarray(state.w.slack, float), state.w.slack.shape
    lower, upper = (
        np.broadcast_to(np.asarray(x, float), shape)
        for x in (transcription.lower, transcription.upper)
    )
    binds = binding(transcription, state.w, state.duals)
    found = []
    by_control = rows_by_control(transcription, parts)
    weights = np.diff(shares)[:, None] * np.asarray(transcription.rule.weights)
    multiplier = np.abs(np.asarray(state.duals.limits, float)) / weights[..., None]
    for r in range(shape[-1]):
        if np.all(lower[..., r] < upper[..., r]):
            curvature = np.zeros_like(weights)
            if r in by_control:
                curvature = curvatures_of(transcription, parts, r).reshape(weights.shape) / weights
            for distance, z in (
                (slack - lower, state.duals.low),
                (upper - slack, state.duals.high),
            ):
                near = distance[..., r] < 0.5 * (upper - lower)[..., r]
                here = _all_binding(binds[..., r] & near, distance[..., r], np.asarray(z)[..., r])
                at = times, distance[..., r], here
                found.append(_Side(r, r in by_control, *at, multiplier[..., r], curvature))
    return found


def _all_binding(binds: Bool[np.ndarray, "N s"], distance, z) -> Bool[np.ndarray, "N s"]:
    """`binds`, and the points with smaller multipliers z: as a share of its largest one, z is larger than the distance is.

    Where z comes to zero at a junction, the barrier keeps points on the bound at distances that are larger than z.
    """
    if not np.any(binds):
        return binds
    return binds | (z * np.max(distance) > distance * np.max(z))


def _of_bound(side: _Side, switches: Sequence[Switch]) -> list[float]:
    """The junctions of one bound."""
    jumps = [x for x in switches if x.row == side.row]
    binds = side.binds.ravel()
    ends = np.flatnonzero(binds[1:] != binds[:-1]).tolist()
    ends = [k for k in ends if not any(x.before <= k < x.after for x in jumps)]
    return [time for k in ends for time in _between(side, k)]


def _beyond_first_points(side: _Side, nodes: Float[np.ndarray, " N+1"]) -> list[float]:
    """The junctions between a node and the point next to it, of controls that are on their bound at no point nearby.

    Such a control is on its bound for a shorter time than that between the node and the point, and its polynomial is beyond
    the bound at the node. On singular arcs, where polynomials swing from bound to bound, it has no such junctions.
    """
    if not side.by_control or not np.all(np.isfinite(side.distance)):
        return []
    if np.min(side.curvature) * np.max(side.distance) <= JUMP * np.max(side.multiplier):
        return []
    binds, found = side.binds, []
    for i, (begin, end) in enumerate(itertools.pairwise(nodes)):
        beside = (i > 0 and binds[i - 1, -1], i + 1 < len(binds) and binds[i + 1, 0])
        if np.any(binds[i]):
            continue
        for node, k, is_known in ((begin, 0, beside[0]), (end, -1, beside[1])):
            x, distance = side.times[i] - node, side.distance[i]
            polynomial = np.polyfit(x / (end - begin), distance, len(x) - 1)
            if not is_known and polynomial[-1] < -BEYOND * np.max(np.abs(distance)):
                found += _zero(side.times[i], distance, *sorted((node, side.times[i, k])))
    return found


def _between(side: _Side, k: int) -> list[float]:
    """The junction between the points k and k + 1, of which one is on the bound; empty if none is found."""
    binds, times, distance = (x.ravel() for x in (side.binds, side.times, side.distance))
    before, after = range(k, -1, -1), range(k + 1, len(binds))
    inactive, active = (before, after) if binds[k + 1] else (after, before)
    jump = _onto_singular_arc(side, inactive, active) if side.by_control else None
    if jump is not None:
        return jump
    middle = [float(times[k] + times[k + 1]) / 2] if side.by_control else []
    room = NEARBY * (times[k + 1] - times[k])
    slope = 0.0 if side.by_control else SLOPE
    for points in _smooth_points(binds, inactive, side.binds.shape[1]):
        at = times[points], distance[points]
        found = _zero(*at, times[k] - room, times[k + 1] + room, slope) if len(points) > 1 else []
        if found or not side.by_control:
            return found
    return middle  # until its interval has more points


def _onto_singular_arc(side: _Side, inactive: range, active: range) -> list[float] | None:
    """The junction at which the control jumps from the points `active` onto a singular arc; None if it does not jump there.

    The junction is the zero of a polynomial through the values of √S (see the module) at the nearest points on the bound,
    as many points as an interval has. Fewer points on the bound in a row have no junction, unless the motion begins or ends
    with them: they belong to the singular arc. Without a node at the junction, the values on that arc swing, and some of
    them reach the bound.
    """
    s = side.binds.shape[1]
    times, distance, binds, multiplier, curvature = (np.ravel(x) for x in side[2:])
    near = list(itertools.takewhile(lambda k: binds[k], active))[:s]
    free = [k for k in inactive[:s] if not binds[k]]
    rise = float(np.max(distance[free]) * np.max(curvature[free]))
    if rise > JUMP * float(np.ptp(multiplier[near])):
        return None
    at_end = len(near) > 1 and (near[-1] in (0, len(binds) - 1))
    if len(near) < s and not at_end:
        return []
    room = sorted([times[near[0]], times[near[0]] + FARTHEST * (times[near[0]] - times[near[-1]])])
    points = times[near], np.sqrt(multiplier[near])
    return _zero(*points, *room) or _zero(*points, *room, degree=1) or None


def _smooth_points(binds: Bool[np.ndarray, " K"], inactive: range, s: int) -> list[list[int]]:
    """The nearest inactive points that lie in one interval, and others to take if these show no junction.

    They are those of the interval with the first one if no point of it is active, or if the next one has active points;
    otherwise those of the next interval. All points of an interval are taken, because the polynomial through fewer points is
    another one than that of the control, and crosses the bound elsewhere. If there is another junction between both
    intervals, only the points of the first one belong to the way to the bound.
    """
    run = list(itertools.takewhile(lambda k: not binds[k], inactive))
    own, *later = (list(ks) for _, ks in itertools.groupby(run, lambda k: k // s))
    following = later[0] if later else []
    return [following, own] if len(own) < s and len(following) == s else [own]


def _zero(
    times, distances, first: float, last: float, slope: float = 0.0, degree: int | None = None
) -> list[float]:
    """The zero between `first` and `last` of the polynomial through the distances, if there is one.

    **Arguments:** `slope`: the least change along the tangent at the zero, as a share of the polynomial's own; `degree`:
    that of a polynomial close to the distances; None: of the one through them.
    """
    centre, length = times[0], abs(times[-1] - times[0])
    degree = len(times) - 1 if degree is None else degree
    polynomial = np.polyfit((times - centre) / length, distances, degree)
    roots = np.roots(polynomial)
    real = np.real(roots[np.abs(np.imag(roots)) < 1e-9])
    at = centre + length * real
    inside = real[(at >= first) & (at <= last)]
    if not inside.size:
        return []
    middle = ((first + last) / 2 - centre) / length
    root = inside[np.argmin(np.abs(inside - middle))]
    rise = abs(np.polyval(np.polyder(polynomial), root))
    return [float(centre + length * root)] if rise >= slope * np.ptp(distances) else []
