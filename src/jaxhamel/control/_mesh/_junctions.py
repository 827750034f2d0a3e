"""The times at which a limited control reaches or leaves a bound without a jump: its junctions; likewise those at which a
state reaches or leaves its bound with a slope, as a speed does under a limited force.

A polynomial has no kink. In an interval with a junction it leaves the bound between the collocation points; with a node at
the junction, each interval lies on one side of it. Where the limit is inactive, the distance from the bound is a smooth
function of time, and its zero is the junction. An error δ in the time of the node changes this function by terms of second
order, so that each mesh with nodes at the zeros of the one before squares the error.
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
from jaxhamel.control._mesh._switches import Switch, rows_by_control

# A state reaches its bound with a slope if the tangent there, drawn back over the points of its polynomial, has at least
# this share of the polynomial's change. Otherwise the zero is double: a boundary arc begins smoothly (`_boundary_arcs`).
SLOPE = 0.3
NEARBY = 2.0  # how far from its two points a junction may lie, as a multiple of their distance


class _Side(NamedTuple):
    """One bound of one row of the limits, at all collocation points: shares of the duration, distances, whether it binds."""

    row: int
    by_control: bool
    times: Float[np.ndarray, "N s"]
    distance: Float[np.ndarray, "N s"]
    binds: Bool[np.ndarray, "N s"]


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
    return sorted(time for side in sides for time in _on(side, switches))


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
    for r in range(shape[-1]):
        if np.all(lower[..., r] < upper[..., r]):
            for distance in (slack - lower, upper - slack):
                near = distance[..., r] < 0.5 * (upper - lower)[..., r]
                here = binds[..., r] & near
                found.append(_Side(r, r in by_control, times, distance[..., r], here))
    return found


def _on(side: _Side, switches: Sequence[Switch]) -> list[float]:
    """The junctions of one bound."""
    jumps = [x for x in switches if x.row == side.row]
    binds, times, distance = (x.ravel() for x in (side.binds, side.times, side.distance))
    found = []
    for k in np.flatnonzero(binds[1:] != binds[:-1]):
        if any(x.before <= k < x.after for x in jumps):
            continue
        inactive = range(k, -1, -1) if binds[k + 1] else range(k + 1, len(binds))
        points = _smooth_points(binds, inactive, side.binds.shape[1])
        if len(points) == 1 and side.by_control:
            found.append(float(times[k] + times[k + 1]) / 2)  # until its interval has more points
        elif len(points) > 1:
            room = NEARBY * (times[k + 1] - times[k])
            between = times[k] - room, times[k + 1] + room
            slope = 0.0 if side.by_control else SLOPE
            found += _zero(times[points], distance[points], *between, slope)
    return found


def _smooth_points(binds: Bool[np.ndarray, " K"], inactive: range, s: int) -> list[int]:
    """The nearest inactive points that lie in one interval.

    They are those of the interval with the first one if no point of it is active, or if the next one has active points;
    otherwise those of the next interval. All points of an interval are taken, because the polynomial through fewer points is
    another one than that of the control, and crosses the bound elsewhere.
    """
    run = list(itertools.takewhile(lambda k: not binds[k], inactive))
    own, *later = (list(ks) for _, ks in itertools.groupby(run, lambda k: k // s))
    following = later[0] if later else []
    return following if len(own) < s and len(following) == s else own


def _zero(times, distances, first: float, last: float, slope: float) -> list[float]:
    """The zero between `first` and `last` of the polynomial through the distances, if there is one.

    **Arguments:** `slope`: the least change along the tangent at the zero, as a share of the polynomial's own.
    """
    centre, length = times[0], abs(times[-1] - times[0])
    polynomial = np.polyfit((times - centre) / length, distances, len(times) - 1)
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
