"""The Newton direction of the barrier problem, and the multipliers that belong to it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._condensation import (
    Barrier,
    Condensed,
    Eliminated,
    Shapes,
    condense,
    eliminate,
    maps,
    regularised,
)
from jaxhamel.control._interior_point._derivatives import (
    Derivatives,
    Duals,
    Parts,
    Residuals,
    places_of,
)
from jaxhamel.control._interior_point._riccati import Solution, solve


class Direction(NamedTuple):
    """A step and the multipliers after it.

    - `delta`: of the nodes `(N+1, d)`; `X`, `c`, `p`, `slack`: of the other unknowns.
    - `duals`: the multipliers after a full step; `slope`: of the barrier function along the step; `curvature`: of the
      Lagrangian along it; `convex`: whether the pivots were positive.
    """

    delta: Float[Array, "N+1 d"]
    X: Float[Array, "N s d"]
    c: Float[Array, "N s m"]
    p: Float[Array, " p"]
    slack: Float[Array, "N M r"]
    duals: Duals
    slope: Scalar
    curvature: Scalar
    convex: Bool[Array, ""]


def proximity(dtype) -> float:
    """The weight of an equation along the path, whose multiplier is corrected at each iteration, is one over this."""
    return float(jnp.finfo(dtype).eps) ** 0.5


def barrier_of(
    transcription: Transcription, w: CollocationPoint, duals: Duals, mu: Scalar
) -> Barrier:
    """Slopes and curvatures of the limits' barrier functions."""
    equal = transcription.lower == transcription.upper
    below, above = w.slack - transcription.lower, transcription.upper - w.slack
    below, above = (jnp.where(equal, 1.0, x) for x in (below, above))
    slope = -mu / below + mu / above
    curvature = duals.low / below + duals.high / above
    return Barrier(
        jnp.where(equal, duals.limits, slope),
        jnp.where(equal, 1.0 / proximity(w.slack.dtype), curvature),
    )


def with_bounds(
    transcription: Transcription,
    condensed: Condensed,
    w: CollocationPoint,
    duals: Duals,
    mu: Scalar,
) -> Condensed:
    """With the barrier of the end time's bounds."""
    shapes = Shapes.of(transcription)
    if not shapes.p:
        return condensed
    below, above = w.p - transcription.p_lower, transcription.p_upper - w.p
    z = shapes.d + shapes.c
    curvature = jnp.diag(duals.p_low / below + duals.p_high / above)
    return condensed._replace(
        H=condensed.H.at[0, z:, z:].add(curvature),
        g=condensed.g.at[0, z:].add(-mu / below + mu / above),
    )


def direction(
    transcription: Transcription,
    w: CollocationPoint,
    duals: Duals,
    parts: Parts,
    residuals: Residuals,
    mu: Scalar,
    shift: Scalar,
    penalty: Scalar,
) -> Direction:
    """The direction for given residuals (those of the iterate, or of a second-order correction)."""
    barrier = barrier_of(transcription, w, duals, mu)
    eliminated = eliminate(transcription, parts.stages, residuals.stages)
    condensed = condense(transcription, parts, residuals, barrier, eliminated)
    condensed = with_bounds(transcription, condensed, w, duals, mu)
    shapes = Shapes.of(transcription)
    found = solve(regularised(transcription, condensed, shift, penalty), shapes)
    return _recover(
        transcription, w, duals, parts, residuals, mu, barrier, eliminated, condensed, found
    )


def _recover(
    transcription: Transcription,
    w: CollocationPoint,
    duals: Duals,
    parts: Parts,
    residuals: Residuals,
    mu,
    barrier: Barrier,
    eliminated: Eliminated,
    condensed: Condensed,
    found: Solution,
) -> Direction:
    """All unknowns and multipliers from the nodes, controls and parameters."""
    shapes = Shapes.of(transcription)
    d, z = shapes.d, shapes.d + shapes.c
    p = found.o[0, z:]
    last_delta = condensed.A[-1] @ found.o[-1] + condensed.b[-1]
    delta = jnp.concatenate([found.o[:, :d], last_delta[None]])
    last = parts.last
    y_last = jnp.concatenate([last_delta, found.o[-1, d:]])
    y = found.conditions[parts.first.value.shape[0] :]
    costate = last.gradient + last.hessian @ y_last + last.jacobian.T @ y
    costates = jnp.concatenate([found.costates, costate[None, :d]])
    one = lambda *given: _recover_interval(transcription, *given)  # noqa: E731
    X, mus, limits, moved, slopes = jax.vmap(one)(
        eliminated, parts.stages, parts.limits, parts.ends, barrier, residuals.limits, found.o,
        costates[1:],
    )  # fmt: skip
    equal = transcription.lower == transcription.upper
    slack = jnp.where(equal, 0.0, moved)
    low, high = _bounds_after(transcription, w, duals, mu, slack)
    p_low, p_high = _end_time_after(transcription, w, duals, mu, p)
    new = Duals(costates, mus, found.conditions, limits, low, high, p_low, p_high)
    slope = jnp.sum(slopes) + jnp.dot(last.gradient, y_last)
    slope = slope + _barrier_slope(transcription, w, mu, slack, p)
    across = _across(new, residuals)
    c = found.o[:, d:z].reshape(w.c.shape)
    return Direction(delta, X, c, p, slack, new, slope, across - slope, found.convex)


def _recover_interval(
    transcription,
    eliminated,
    stages: Derivatives,
    limits: Derivatives,
    end: Derivatives,
    barrier,
    excess,
    o,
    costate,
):
    """(X, μ, multipliers of limits, change of their functions, slope of the cost) of one interval."""
    d, s = transcription.size, len(transcription.rule.points)
    at = maps(transcription, eliminated)
    (Y, y), (Y_end, y_end), (Y_limit, y_limit) = at.stages, at.end, at.limits
    y, y_end, y_limit = Y @ o + y, Y_end @ o + y_end, Y_limit @ o + y_limit
    pull = stages.gradient + jnp.einsum("jyz,jz->jy", stages.hessian, y)
    pull_end = end.hessian @ y_end + end.jacobian.T @ costate
    moved = excess + jnp.einsum("jry,jy->jr", limits.jacobian, y_limit)
    multipliers = barrier.slope + barrier.curvature * moved
    pull_limit = jnp.einsum("jyz,jz->jy", limits.hessian, y_limit)
    pull_limit = pull_limit + jnp.einsum("jry,jr->jy", limits.jacobian, multipliers)
    weights = places_of(transcription).X[:, 1:]
    X = slice(d)
    total = pull[:, X] + transcription.constants("end")[1:, None] * pull_end[None, X]
    total = total + weights.T @ pull_limit[:, X]
    mu = -(eliminated.inverse.T @ total.ravel()).reshape(s, d)
    steps = (eliminated.Z @ o + eliminated.z)[1:]
    return steps, mu, multipliers, moved, jnp.sum(stages.gradient * y)


def _bounds_after(transcription, w: CollocationPoint, duals: Duals, mu, slack):
    """Multipliers of the slacks' bounds after the step."""
    below, above = w.slack - transcription.lower, transcription.upper - w.slack
    equal = transcription.lower == transcription.upper
    below, above = (jnp.where(equal, jnp.inf, x) for x in (below, above))
    return (mu - duals.low * slack) / below, (mu + duals.high * slack) / above


def _end_time_after(transcription, w: CollocationPoint, duals: Duals, mu, p):
    below, above = w.p - transcription.p_lower, transcription.p_upper - w.p
    return (mu - duals.p_low * p) / below, (mu + duals.p_high * p) / above


def _barrier_slope(transcription, w: CollocationPoint, mu, slack, p) -> Scalar:
    equal = transcription.lower == transcription.upper
    below, above = w.slack - transcription.lower, transcription.upper - w.slack
    below, above = (jnp.where(equal, jnp.inf, x) for x in (below, above))
    of_p = -1 / (w.p - transcription.p_lower) + 1 / (transcription.p_upper - w.p)
    return mu * (jnp.sum(slack * (1 / above - 1 / below)) + jnp.sum(p * of_p))


def _across(duals: Duals, residuals: Residuals) -> Scalar:
    """The multipliers times the residuals."""
    pairs = (
        (duals.stages, residuals.stages),
        (duals.costates[1:], residuals.gaps),
        (duals.conditions, residuals.conditions),
        (duals.limits, residuals.limits),
    )
    return sum((jnp.sum(a * b) for a, b in pairs), jnp.zeros((), residuals.gaps.dtype))


# --- how far from a stationary point ---------------------------------------------------------------


def stationarity(transcription: Transcription, parts: Parts, duals: Duals) -> Scalar:
    """The largest entry of the Lagrangian's gradient by the nodes, stages, controls and end time."""
    d, m = transcription.size, transcription.n_controls
    one = lambda *given: _gradient(transcription, *given)  # noqa: E731
    delta, X, c, p = jax.vmap(one)(
        parts.stages, parts.limits, parts.ends, duals.stages, duals.limits, duals.costates[1:]
    )
    rows = parts.first.value.shape[0]
    first = parts.first.jacobian.T @ duals.conditions[:rows]
    last = parts.last.gradient + parts.last.jacobian.T @ duals.conditions[rows:]
    s = len(transcription.rule.points)
    c = c.at[0].add(first[: s * m].reshape(s, m)).at[-1].add(last[d : d + s * m].reshape(s, m))
    p = jnp.sum(p, axis=0) + first[s * m :] + last[d + s * m :] - duals.p_low + duals.p_high
    nodes = jnp.concatenate([delta[1:], last[None, :d]]) - duals.costates[1:]
    every = jnp.concatenate([x.ravel() for x in (nodes, X, c, p)])
    return jnp.max(jnp.abs(every))


def _gradient(
    transcription,
    stages: Derivatives,
    limits: Derivatives,
    end: Derivatives,
    mu,
    multipliers,
    costate,
):
    """∂L by δ_i, X, c and p of one interval."""
    d, m = transcription.size, transcription.n_controls
    derivative, weights = transcription.constants("derivative"), places_of(transcription)
    pull = stages.gradient - jnp.einsum("jfy,jf->jy", stages.jacobian, mu)
    pull_limit = jnp.einsum("jry,jr->jy", limits.jacobian, multipliers)
    pull_end = end.jacobian.T @ costate
    all_X = jnp.concatenate([jnp.zeros_like(pull[:1, :d]), pull[:, :d]])
    all_X = all_X + derivative.T @ mu
    all_X = all_X + transcription.constants("end")[:, None] * pull_end[None]
    all_X = all_X + weights.X.T @ pull_limit[:, :d]
    c = slice(d, d + m)
    p = jnp.sum(pull[:, d + m :], axis=0) + jnp.sum(pull_limit[:, d + m :], axis=0)
    controls = pull[:, c] + weights.c.T @ pull_limit[:, c]
    return all_X[0], all_X[1:], controls, p
