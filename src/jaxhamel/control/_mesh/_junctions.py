"""The times at which a limited control reaches or leaves a bound without a jump: its junctions.

A polynomial has no kink. In an interval with a junction it leaves the bound between the collocation points; with a node at
the junction, each interval lies on one side of it. Where the limit is inactive, the distance from the bound is a smooth
function of time, and its zero is the junction. An error δ in the time of the node changes this function by terms of second
order, so that each mesh with nodes at the zeros of the one before squares the error.
"""

import itertools
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._certificate._violation import binding
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState

MOST_POINTS = 3  # points of the polynomial for the distance from a bound
NEARBY = 2.0  # how far from its two points a junction may lie, as a multiple of their distance


class _Side(NamedTuple):
    """One bound of one row of the limits, at all collocation points: shares of the duration, distances, whether it binds."""

    times: Float[np.ndarray, "N s"]
    distance: Float[np.ndarray, "N s"]
    binds: Bool[np.ndarray, "N s"]


def junctions_of(
    transcription: Transcription, state: SearchState, parts: Parts | None
) -> list[float]:
    """The junctions of all limits whose function depends on the control, as shares of the duration, in their order.

    None with Radau points: the last point of an interval is its node, and a bound that holds there changes the motion by
    terms of first order in the error δ, so that the nodes do not come closer to the junction.
    """
    if not transcription.limits or parts is None or transcription.rule.points[-1] == 1.0:
        return []
    return sorted(time for side in _sides(transcription, state, parts) for time in _on(side))


def _sides(transcription: Transcription, state: SearchState, parts: Parts) -> list[_Side]:
    """Both bounds of all limits whose function depends on the control and that are no equations."""
    shares = np.asarray(transcription.shares, float)
    times = shares[:-1, None] + np.diff(shares)[:, None] * np.asarray(transcription.rule.points)
    slack, shape = np.asarray(state.w.slack, float), state.w.slack.shape
    lower, upper = (
        np.broadcast_to(np.asarray(x, float), shape)
        for x in (transcription.lower, transcription.upper)
    )
    binds = binding(transcription, state.w, state.duals)
    found = []
    for r in rows_by_control(transcription, parts):
        if np.all(lower[..., r] < upper[..., r]):
            for distance in (slack - lower, upper - slack):
                near = distance[..., r] < 0.5 * (upper - lower)[..., r]
                found.append(_Side(times, distance[..., r], binds[..., r] & near))
    return found


def rows_by_control(transcription: Transcription, parts: Parts) -> list[int]:
    """The rows of the limits whose function depends on the control."""
    d, m = transcription.size, transcription.n_controls
    by_control = np.asarray(parts.points.jacobian)[:, :, d:, d : d + m]
    return np.flatnonzero(np.any(by_control != 0.0, axis=(0, 1, 3))).tolist()


def _on(side: _Side) -> list[float]:
    """The junctions of one bound."""
    binds, times, distance = (x.ravel() for x in (side.binds, side.times, side.distance))
    found = []
    for k in np.flatnonzero(binds[1:] != binds[:-1]):
        inactive = range(k, -1, -1) if binds[k + 1] else range(k + 1, len(binds))
        points = _smooth_points(binds, inactive, side.binds.shape[1])
        if len(points) > 1:
            room = NEARBY * (times[k + 1] - times[k])
            between = times[k] - room, times[k + 1] + room
            found += _zero(times[points], distance[points], *between)
    return found


def _smooth_points(binds: Bool[np.ndarray, " K"], inactive: range, s: int) -> list[int]:
    """The nearest inactive points that lie in one interval.

    They are those of the interval with the first one if no point of it is active, or if the next one has active points;
    otherwise those of the next interval.
    """
    run = list(itertools.takewhile(lambda k: not binds[k], inactive))
    own, *later = (list(ks) for _, ks in itertools.groupby(run, lambda k: k // s))
    following = later[0] if later else []
    whole = following if len(own) < s and len(following) == s else own
    return whole[:MOST_POINTS]


def _zero(times, distances, first: float, last: float) -> list[float]:
    """The zero between `first` and `last` of the polynomial through the distances, if there is one."""
    centre, length = times[0], abs(times[-1] - times[0])
    at = (times - centre) / length
    roots = np.roots(np.polyfit(at, distances, len(at) - 1))
    real = centre + length * np.real(roots[np.abs(np.imag(roots)) < 1e-9])
    inside = real[(real >= first) & (real <= last)]
    middle = (first + last) / 2
    return [float(inside[np.argmin(np.abs(inside - middle))])] if inside.size else []
