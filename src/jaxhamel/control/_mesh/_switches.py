"""Finds the times at which a limited quantity switches from one bound to the other, and meshes with nodes at these times.

A polynomial cannot switch within an interval. In an optimal collocation, values between the bounds have the integral of the
best step function, up to errors of higher order. Each collocation point τ_j represents a cell as long as its quadrature
weight b_j h. Of the cells between the last one at the lower bound and the first one at the upper bound, the part
(1 − φ_j), φ = (value − lower)/(upper − lower), belongs to the lower bound, so that the switch is at

    t = end of these cells − Σ_j φ_j b_j h .

Where the cost is strictly convex in the control, the control is continuous: it crosses from bound to bound in the time
that the switching function S = ∂J/∂(∫φ dt) takes to change by R = ∂S/∂φ. Such a crossing is a switch only where it is
short beside the cells that it occupies; a longer one has two junctions in place of the switch (`_junctions`).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from jaxhamel.control._certificate._violation import binding
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Parts
from jaxhamel.control._interior_point._state import SearchState

LONGEST = 2.0  # the largest number of intervals' worth of points that a switch may take
# A control that takes at least this share of the length of the cells to cross from one bound to the other has no switch:
# it does not jump. A steeper crossing first gets a node in its middle, so that the cells there become shorter.
CROSSING = 0.3
SAMPLES = 20  # places in each cell at which the switching function is evaluated


class Switch(NamedTuple):
    """A switch of a limited quantity between its bounds.

    - `share`: its time, as a share of the duration; `row`: the row of the limits.
    - `before`, `after`: the numbers of the last point at one bound and of the first one at the other.
    - `excess`: the cost that would be saved by a control with this switch, to first order, in the cost's unit.
    """

    share: float
    row: int
    before: int
    after: int
    excess: float


class _Row(NamedTuple):
    """One row of the limits along all cells: φ, ends of the cells, S = ∂J/∂(∫φ dt), R = ∂S/∂φ, all times as shares."""

    index: int
    phi: Float[np.ndarray, " K"]
    edges: Float[np.ndarray, " K+1"]
    slopes: Float[np.ndarray, " K"]
    curvatures: Float[np.ndarray, " K"]

    @property
    def centres(self) -> Float[np.ndarray, " K"]:
        return (self.edges[1:] + self.edges[:-1]) / 2


def switches_of(
    transcription: Transcription, state: SearchState, parts: Parts | None
) -> list[Switch]:
    """The switches of all limits with two bounds whose function depends on the control, in the order of their times."""
    if not transcription.limits or parts is None:
        return []
    longest = int(LONGEST * len(transcription.rule.points))
    near = float(np.finfo(state.w.slack.dtype).eps) ** (1 / 3)
    rows = _rows(transcription, state, parts)
    found = [switch for row in rows for switch in _switches_of_row(row, near, longest)]
    on_arc = _binds_a_state(transcription, state, parts)
    return sorted(x for x in found if not np.any(on_arc[x.before + 1 : x.after]))


def _binds_a_state(
    transcription: Transcription, state: SearchState, parts: Parts
) -> Bool[np.ndarray, " K"]:
    """Whether a limit of the state binds at each point: it then determines the control, which does not switch there."""
    binds = binding(transcription, state.w, state.duals)
    binds[..., rows_by_control(transcription, parts)] = False
    return np.any(binds, axis=2).ravel()


def _rows(transcription: Transcription, state: SearchState, parts: Parts) -> list[_Row]:
    lower, upper = (
        np.broadcast_to(np.asarray(x, float), state.w.slack.shape)
        for x in (transcription.lower, transcription.upper)
    )
    slack, multipliers = (np.asarray(x, float) for x in (state.w.slack, state.duals.limits))
    lengths = np.diff(np.asarray(transcription.shares, float))
    weights = (lengths[:, None] * np.asarray(transcription.rule.weights)).ravel()
    edges = np.append(0.0, np.cumsum(weights))
    found = []
    for r in _rows_with_two_bounds(transcription, lower, upper, parts):
        low, width = lower[..., r].ravel(), (upper - lower)[..., r].ravel()
        phi = (slack[..., r].ravel() - low) / width
        slopes = -multipliers[..., r].ravel() * width / weights
        curvatures = curvatures_of(transcription, parts, r) * width**2 / weights
        found.append(_Row(r, phi, edges, slopes, curvatures))
    return found


def curvatures_of(transcription: Transcription, parts: Parts, row: int) -> Float[np.ndarray, " K"]:
    """The least curvature of the Lagrangian at each point along controls that change the row's function by 1,

    min { δᵀ R δ : a·δ = 1 } = 1 / (aᵀ R⁻¹ a) ,  0 where R is not positive along one of them.
    """
    d, m = transcription.size, transcription.n_controls
    own = slice(d, d + m)
    hessian = np.asarray(parts.points.hessian, float)[:, :, own, own].reshape(-1, m, m)
    gradient = np.asarray(parts.points.jacobian, float)[:, :, d + row, own].reshape(-1, m)
    values, vectors = np.linalg.eigh(hessian)
    least = 1e-12 * np.max(np.abs(values), axis=1, keepdims=True) + np.finfo(float).tiny
    along = np.einsum("kji,kj->ki", vectors, gradient)
    total = np.sum(along * (along / np.maximum(values, least)), axis=1)
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0.0)


def rows_by_control(transcription: Transcription, parts: Parts) -> list[int]:
    """The rows of the limits whose function depends on the control."""
    d, m = transcription.size, transcription.n_controls
    by_control = np.asarray(parts.points.jacobian)[:, :, d:, d : d + m]
    return np.flatnonzero(np.any(by_control != 0.0, axis=(0, 1, 3))).tolist()


def _rows_with_two_bounds(transcription: Transcription, lower, upper, parts: Parts) -> list[int]:
    """The rows of the limits that are bounded on both sides and whose function depends on the control."""
    bounded = np.all(np.isfinite(lower) & np.isfinite(upper) & (lower < upper), axis=(0, 1))
    return [r for r in rows_by_control(transcription, parts) if bounded[r]]


def _switches_of_row(row: _Row, near: float, longest: int) -> list[Switch]:
    """The switches of one row; `near`: the distance of φ from a bound within which it is there."""
    at_bound = np.flatnonzero((row.phi < near) | (row.phi > 1 - near))
    rises = np.diff(row.phi[at_bound] > 0.5).astype(int)
    pairs = zip(at_bound[:-1], at_bound[1:], rises, strict=True)
    near_by = [(int(a), int(b)) for a, b, one in pairs if one and b - a - 1 <= longest]
    return [_switch(row, a, b) for a, b in near_by if not _is_crossing(row, a, b)]


def _is_crossing(row: _Row, before: int, after: int) -> bool:
    """Whether the values between two cells at different bounds are those of a continuous control.

    Between the two S changes by ΔS at the bounds and by R in the crossing, in proportion to time.
    """
    if after - before < 3:  # one value between the bounds shows no slope
        return False
    rise = float(np.mean(row.curvatures[before : after + 1]))
    between = row.centres[after] - row.centres[before]
    change = abs(row.slopes[after] - row.slopes[before])
    duration = between * rise / (rise + change) if rise > 0.0 else 0.0
    return duration >= CROSSING * (row.edges[after] - row.edges[before + 1])


def _switch(row: _Row, before: int, after: int) -> Switch:
    """The switch between two cells, which are at different bounds."""
    upwards = row.phi[after] > row.phi[before]
    inner = slice(before + 1, after)
    begin, end = row.edges[before + 1], row.edges[after]
    at_upper = float(np.sum(row.phi[inner] * np.diff(row.edges)[inner]))
    share = end - at_upper if upwards else begin + at_upper
    excess = _excess(row, before, after, float(share), upwards)
    return Switch(float(share), row.index, before, after, excess)


def _excess(row: _Row, before: int, after: int, share: float, upwards: bool) -> float:
    """∫ S (φ − step) dt between the cells `before` and `after`, S being linear between the cells' centres."""
    total = 0.0
    for k in range(before + 1, after):
        width = row.edges[k + 1] - row.edges[k]
        at = row.edges[k] + width * (np.arange(SAMPLES) + 0.5) / SAMPLES
        step = (at > share) == upwards
        total += width * float(
            np.mean(np.interp(at, row.centres, row.slopes) * (row.phi[k] - step))
        )
    return total


CLOSEST = 1e-6  # switches at a smaller distance, as a share of the duration, have one node


def with_nodes_at(
    shares: Float[np.ndarray, " N+1"], times: list[float]
) -> Float[np.ndarray, " N+1"] | None:
    """The mesh with its nearest nodes moved to `times`, and the nodes between these in their old proportions.

    **Returns:** None if there are not enough nodes.
    """
    inner: list[float] = []
    for time in sorted(times):
        if min(time, 1.0 - time) > CLOSEST and (not inner or time - inner[-1] > CLOSEST):
            inner.append(time)
    count = len(shares) - 1
    if len(inner) >= count:
        return None
    nodes = [0]
    for k, time in enumerate(inner):
        last = count - len(inner) + k
        nodes.append(int(np.clip(np.argmin(np.abs(shares - time)), nodes[-1] + 1, last)))
    return np.interp(shares, shares[[*nodes, -1]], [0.0, *inner, 1.0])
