"""The matrices of the second-order condition: the Hessian, the conditions and the active limits in the controls.

The equations of motion give the nodes as functions of the controls v = (c, p), so that the Hessian, the conditions at the
ends and the active limits are dense matrices in v. Controls are scaled by the square root of the quadrature weights: the
eigenvalues are then those of the second variation per ∫|δc|² dt, whatever the mesh.

Where the motion is unstable, the nodes grow so much with the controls that rounding hides the curvature. There v is the
change of the controls beside a feedback K δx that stabilises the motion, and the eigenvalues are per ∫|δc − K δx|² dt. Their
signs are the same.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._violation import binding
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._condensation import Shapes, condense, eliminate
from jaxhamel.control._interior_point._derivatives import Parts, Residuals
from jaxhamel.control._interior_point._stage_equations import blocks_of
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._scaling._sizes import size_of

Dense = Float[np.ndarray, "a b"]
ALIKE = 1e-4  # least ratio of two controls' mean curvatures with which both keep their units
TOGETHER = 32  # intervals whose terms are added by one product (docs/performance.md#reduced-hessian-of-many-intervals)
MOST_GROWTH = 1e3  # largest derivative of a node by the scaled controls; its square times the rounding error must be small


class ReducedMatrices(NamedTuple):
    """The matrices of the second-order condition in v, the scaled controls and parameters.

    - `H`: the Hessian; `terms`: the sums of the absolute values of the terms of its entries, by which rounding is judged.
    - `D`: the rows of conditions and active limits; `barrier`: the Hessian of the barrier of the other limits.
    - `controls`, `nodes`: the controls and the nodes by v; `integrals`: ∫_0^t v / T at all points, times the roots of the
      quadrature weights.
    """

    H: Dense
    terms: Dense
    D: Dense
    barrier: Dense
    controls: Dense
    nodes: Dense
    integrals: Dense

    @property
    def largest_term(self) -> float:
        """The largest entry of `terms`."""
        return float(np.max(self.terms))


def reduced_matrices(
    transcription: Transcription, state: SearchState, parts: Parts
) -> ReducedMatrices:
    """The matrices at an iterate, with products in double precision: their rounding is that of the given derivatives."""
    H, A, D, G = (np.asarray(x, float) for x in _blocks(transcription, state, parts))
    shapes, active = Shapes.of(transcription), _active(transcription, state)
    scale = _scale(transcription, state)
    v = len(scale)
    total, terms, barrier, rows = (np.zeros((k, v)) for k in (v, v, v, D.shape[1]))
    limits, controls, nodes = [], [], []
    of_barrier, at_ends = _barrier_curvature(transcription, state)
    of_barrier = np.where(active, 0.0, of_barrier)[..., None]
    for i, o in _together(_in_controls(A, _gains(A, scale, shapes), scale, shapes)):
        # The nodes and controls of these intervals do not depend on later controls.
        used = np.r_[: i.stop * shapes.c, v - shapes.p : v]
        at, own = np.ix_(used, used), o[..., used]
        of_limits = G[i] @ own
        total[at] += _product(own, H[i] @ own)
        terms[at] += _product(np.abs(own), np.abs(H[i]) @ np.abs(own))
        barrier[at] += _product(of_limits, of_barrier[i] * of_limits)
        rows += np.sum(D[i] @ o, axis=0)
        limits.append(np.zeros((np.sum(active[i]), v)))
        limits[-1][:, used] = of_limits[active[i]]
        controls.append(o[:, shapes.d : shapes.d + shapes.c].reshape(-1, v))
        nodes.append(o[:, : shapes.d].reshape(-1, v))
    nodes.append(A[-1] @ o[-1])
    binds = _active_bounds(transcription, state)
    ends = np.arange(v - len(binds), v)
    barrier[ends, ends] += np.where(binds, 0.0, at_ends) * scale[ends] ** 2
    D = np.concatenate([rows, *limits, np.eye(v)[ends[binds]]])
    by_v = np.concatenate(controls), np.concatenate(nodes), _integrals(transcription, state)
    return ReducedMatrices(total, terms, D, barrier, *by_v)


def _together(
    each: Iterator[Dense],
) -> Iterator[tuple[slice, Float[np.ndarray, "k a v"]]]:
    """(numbers of the intervals, their matrices) for at most `TOGETHER` intervals at a time."""
    first = 0
    while some := list(islice(each, TOGETHER)):
        yield slice(first, first + len(some)), np.stack(some)
        first += len(some)


def _product(a: Float[np.ndarray, "k a v"], b: Float[np.ndarray, "k a v"]) -> Dense:
    """Σ_k a_kᵀ b_k."""
    return a.reshape(-1, a.shape[-1]).T @ b.reshape(-1, b.shape[-1])


def with_like_controls(found: ReducedMatrices, count: int) -> ReducedMatrices:
    """The matrices with v in other units if the curvatures by the controls, of which there are `count`, differ by more than
    `ALIKE`: all have the same mean curvature then.

    A torque that does no work in the motion has no size of its own. In its unit the curvature may be 1e-13 of another one's,
    and it would count as zero. A curvature that is zero up to rounding keeps its unit.
    """
    of_controls = found.controls.shape[0]
    by_control = (np.diag(x)[:of_controls].reshape(-1, count) for x in (found.H, found.terms))
    curvature, terms = (np.abs(np.mean(x, axis=0)) for x in by_control)
    known = curvature > 1e3 * float(np.finfo(float).eps) * terms
    largest = np.max(curvature, initial=0.0, where=known)
    if not np.any(known & (curvature < ALIKE * largest)):
        return found
    units = np.sqrt(np.divide(largest, curvature, out=np.ones(count), where=known))
    S = np.ones(len(found.H))
    S[:of_controls] = np.tile(units, of_controls // count)
    both, columns = S[:, None] * S[None], S[None]
    return found._replace(
        H=found.H * both,
        terms=found.terms * both,
        D=found.D * columns,
        barrier=found.barrier * both,
        controls=found.controls * columns,
        nodes=found.nodes * columns,
    )


def _integrals(transcription: Transcription, state: SearchState) -> Dense:
    """The derivative of √b_k ∫_0^{t_k} δc dt / T by v, for the points k with quadrature weights b_k; of p itself."""
    rule, m, p = transcription.rule, transcription.n_controls, state.w.p.shape[0]
    lengths, weights = np.diff(np.asarray(transcription.shares, float)), np.asarray(rule.weights)
    inside = np.linalg.inv(np.asarray(rule.derivative)[:, 1:])
    shares = lengths[:, None] * weights
    before = np.tril(np.ones((len(lengths),) * 2), -1)[:, None, :, None] * shares
    own = np.eye(len(lengths))[:, None, :, None] * (lengths[:, None, None] * inside)[:, :, None]
    roots = np.sqrt(shares.ravel())
    at_points = roots[:, None] * (before + own).reshape(shares.size, -1) / roots
    of_controls = np.kron(at_points, np.eye(m))
    count = len(of_controls)
    parts = [[of_controls, np.zeros((count, p))], [np.zeros((p, count)), np.eye(p)]]
    return np.block(parts)


def _in_controls(A, gains, scale: Float[np.ndarray, " v"], shapes: Shapes) -> Iterator[Dense]:
    """For each interval, the derivative of (its first node, its controls, p) by v, where δc_i = K_i δx_i + scale v_i."""
    S = np.zeros((shapes.d, len(scale)), A.dtype)
    for i, K in enumerate(gains):
        o = np.zeros((shapes.all, len(scale)), A.dtype)
        own = np.arange(i * shapes.c, (i + 1) * shapes.c)
        o[: shapes.d] = S
        o[shapes.d : shapes.d + shapes.c] = K @ S
        o[shapes.d + np.arange(shapes.c), own] += scale[own]
        if shapes.p:
            o[-shapes.p :, -shapes.p :] = np.diag(scale[-shapes.p :])
        yield o
        S = A[i] @ o


def _gains(A, scale: Float[np.ndarray, " v"], shapes: Shapes) -> Float[np.ndarray, "N c d"]:
    """The feedback K: for an unstable motion of the linear–quadratic regulator with unit weights, otherwise zero."""
    N, d, c = len(A), shapes.d, shapes.c
    none = np.zeros((N, c, d), A.dtype)
    sizes = (np.max(np.abs(o[:d]), initial=0.0) for o in _in_controls(A, none, scale, shapes))
    if not c or max(sizes) < MOST_GROWTH:
        return none
    P, gains = np.eye(d, dtype=A.dtype), []
    for i in reversed(range(N)):
        x, by_c = A[i][:, :d], A[i][:, d : d + c]
        weight = np.diag(1 / scale[i * c : (i + 1) * c] ** 2)
        K = -np.linalg.solve(weight + by_c.T @ P @ by_c, by_c.T @ P @ x)
        P = np.mean(np.diag(weight)) * np.eye(d, dtype=A.dtype) + x.T @ P @ (x + by_c @ K)
        P = (P + P.T) / 2
        gains.insert(0, K)
    return np.stack(gains)


def _scale(transcription: Transcription, state: SearchState) -> Float[np.ndarray, " v"]:
    """The scale of each entry of v: 1/√(quadrature weight) for controls, 1 for parameters; times their sizes."""
    weights = np.repeat(np.asarray(transcription.rule.weights), transcription.n_controls)
    lengths = np.diff(np.asarray(transcription.shares)) * float(transcription.span(state.w.p))
    controls = 1 / np.sqrt(lengths[:, None] * weights[None])
    controls = controls.reshape(state.w.c.shape) * np.asarray(size_of(transcription.sizes, "c"))
    parameters = np.ones(state.w.p.shape[0]) * np.asarray(size_of(transcription.sizes, "p"))
    return np.append(controls.ravel(), parameters)


def _active(transcription: Transcription, state: SearchState):
    """For each limit and point, `(N, M r)`, whether it binds."""
    return binding(transcription, state.w, state.duals).reshape(state.w.slack.shape[0], -1)


def _barrier_curvature(transcription: Transcription, state: SearchState) -> tuple[Dense, Any]:
    """The curvature m/s of the barrier, with the multiplier m of a bound and the distance s from it.

    **Returns:** (for the limits at the points of each interval, `(N, M r)`; for the bounds of the parameters, `(p,)`).
    """
    t, w, duals = transcription, state.w, state.duals
    limits = _curvature(duals.low, t.lower, w.slack) + _curvature(duals.high, w.slack, t.upper)
    bounds = _curvature(duals.p_low, t.p_lower, w.p) + _curvature(duals.p_high, w.p, t.p_upper)
    return limits.reshape(limits.shape[0], -1), bounds


def _curvature(multiplier, low, high) -> Float[np.ndarray, "..."]:
    m = np.asarray(multiplier, float)
    s = np.asarray(np.asarray(high) - np.asarray(low), float)
    return np.divide(m, s, out=np.zeros_like(m), where=s > 0)


def _active_bounds(transcription: Transcription, state: SearchState) -> Bool[np.ndarray, " p"]:
    """For each parameter, whether one of its bounds binds."""
    p, duals = np.asarray(state.w.p), state.duals
    size = np.asarray(size_of(transcription.sizes, "p")) ** 2  # see `binding`
    return (np.asarray(duals.p_low) * size > p - np.asarray(transcription.p_lower)) | (
        np.asarray(duals.p_high) * size > np.asarray(transcription.p_upper) - p
    )


@compiled_with(QUICK)
def _blocks(transcription: Transcription, state: SearchState, parts: Parts):
    """(H, A, D, gradients of all limits) of each interval, without the barrier."""
    zeros = Residuals(
        jnp.zeros_like(state.w.X),
        jnp.zeros_like(parts.ends.value),
        jnp.zeros_like(state.duals.conditions),
        jnp.zeros_like(state.w.slack),
    )
    blocks = blocks_of(transcription, state.w)
    eliminated = eliminate(transcription, blocks, parts.points, parts.starts, zeros.stages)
    condensed = condense(transcription, parts, zeros, eliminated)
    return condensed.H, condensed.A, condensed.D, condensed.G
