"""The Newton direction of the barrier problem, and the multipliers that belong to it.

The linearised limits, with multipliers m, and the linearised conditions at both ends, with multipliers y, are

    G o + excess − change of slack = ε (m − m_last) ,   D o + e = ε (y − y_last) ,

o being the increments of an interval (`_condensation`). The proximal terms on the right vanish as the multipliers converge.
They are there because a limit that binds has a barrier of curvature Σ up to 1e14, beside which the curvature of the cost is
lost in rounding, and because dependent conditions do not determine their multipliers. Iterative refinement takes the
residuals from the equations above, so that Σ is added to the Hessian H in the factored matrix only.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._charts._start_nodes import StartDerivatives, turning_of
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._condensation import (
    Condensed,
    Eliminated,
    Shapes,
    condense,
    eliminate,
    lengths_of,
    maps,
    start_map,
)
from jaxhamel.control._interior_point._derivatives import (
    Derivatives,
    Duals,
    Parts,
    Residuals,
)
from jaxhamel.control._interior_point._riccati import Increments, correction, factor
from jaxhamel.control._interior_point._stage_equations import (
    StageBlock,
    adjoint_solution,
    blocks_of,
)


class Direction(NamedTuple):
    """A step and the multipliers after it.

    - `delta`: increments of the nodes `(N+1, d)`; `X`, `c`, `p`, `slack`: increments of the other unknowns.
    - `duals`: the multipliers after a full step; `slope`: the derivative of the barrier function along the step;
      `curvature`: the second derivative of the Lagrangian along it; `convex`: whether all pivots were positive.
    - `missed`: the share of the conditions' residuals that a full step leaves, to first order; above 0 if the linearised
      conditions contradict one another.
    """

    delta: Float[Array, "N+1 d"]
    X: Float[Array, "N s d"]
    c: Float[Array, "N s m"]
    p: Float[Array, " p"]
    slack: Float[Array, "N s r"]
    duals: Duals
    slope: Scalar
    curvature: Scalar
    convex: Bool[Array, ""]
    missed: Scalar


def no_direction(w: CollocationPoint, duals: Duals) -> Direction:
    """A direction of zeros, with the shapes of the result of `direction`."""
    like = w.x, w.X, w.c, w.p, w.slack, duals
    x, X, c, p, slack, of_duals = jax.tree.map(jnp.zeros_like, like)
    zero, no = jnp.zeros((), w.X.dtype), jnp.asarray(False)
    return Direction(x, X, c, p, slack, of_duals, zero, zero, no, zero)


SOLUTIONS = 3  # linear solutions for one direction: the first, and two refinements


class Barrier(NamedTuple):
    """The slope a and the curvature Σ of each limit's barrier, so that its multiplier is m = a + Σ (G o + excess)."""

    slope: Float[Array, "N s r"]
    curvature: Float[Array, "N s r"]


def proximity(dtype) -> float:
    """ε of the proximal terms: (rounding unit)^0.6, but at most 1e-6.

    In single precision the power is 7e-5, with which large multipliers converge too slowly
    (docs/performance.md#single-precision).
    """
    return min(float(jnp.finfo(dtype).eps) ** 0.6, 1e-6)


def barrier_of(
    transcription: Transcription, w: CollocationPoint, duals: Duals, mu: Scalar
) -> Barrier:
    """The slope and curvature of each limit's barrier with the proximal term, which adds ε to 1/Σ.

    For an equation along the path (lower = upper) 1/Σ is 0, so that its curvature becomes 1/ε.
    """
    equal = transcription.lower == transcription.upper
    below, above = w.slack - transcription.lower, transcription.upper - w.slack
    below, above = (jnp.where(equal, 1.0, x) for x in (below, above))
    epsilon = proximity(w.slack.dtype)
    slope = -mu / below + mu / above
    curvature = jax.lax.stop_gradient(duals.low / below + duals.high / above)  # see `_neighbour`
    share = 1.0 / (1.0 + epsilon * curvature)
    return Barrier(
        jnp.where(equal, duals.limits, share * (slope + epsilon * curvature * duals.limits)),
        jnp.where(equal, 1.0 / epsilon, share * curvature),
    )


def with_bounds(
    transcription: Transcription,
    condensed: Condensed,
    w: CollocationPoint,
    duals: Duals,
    mu: Scalar,
) -> Condensed:
    """Adds the barrier of the parameters' bounds to the condensed problem."""
    shapes = Shapes.of(transcription)
    if not shapes.p:
        return condensed
    below, above = w.p - transcription.p_lower, transcription.p_upper - w.p
    z = shapes.d + shapes.c
    curvature = jnp.diag(jax.lax.stop_gradient(duals.p_low / below + duals.p_high / above))
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
    """The direction that removes given residuals: those of the iterate or those of a second-order correction.

    `shift`: the regularisation, added to the curvature of every unknown; `penalty`: the weight of |D o + e|²/2, which makes
    pivots positive and does not change the solution.
    """
    barrier = barrier_of(transcription, w, duals, mu)
    blocks = blocks_of(transcription, w)
    eliminated = eliminate(transcription, blocks, parts.points, parts.starts, residuals.stages)
    condensed = condense(transcription, parts, residuals, eliminated)
    condensed = with_bounds(transcription, condensed, w, duals, mu)
    raised = shift * jax.vmap(jnp.diag)(lengths_of(transcription))
    condensed = condensed._replace(H=condensed.H + raised)
    found, convex = _solve(transcription, condensed, barrier, duals.conditions, penalty)
    return _recover(
        transcription, w, duals, parts, residuals, mu, barrier, blocks, eliminated, condensed, found, convex
    )  # fmt: skip


def _solve(
    transcription: Transcription, condensed: Condensed, barrier: Barrier, conditions, penalty
) -> tuple[Increments, Bool[Array, ""]]:
    """(solution of the condensed problem, whether it is convex); `conditions`: the last multipliers of the conditions."""
    shapes, N = Shapes.of(transcription), condensed.G.shape[0]
    slope, curvature = (x.reshape(N, -1) for x in barrier)
    G, D = condensed.G, condensed.D
    stiff = condensed.H + jnp.einsum("ila,il,ilb->iab", G, curvature, G)
    stiff = condensed._replace(H=stiff + penalty * jnp.einsum("iba,ibc->iac", D, D))
    factored = factor(stiff, shapes)

    def refined(found: Increments, _):
        g, b, e = _equation_residuals(condensed, shapes, slope, curvature, found)
        g = g + penalty * jnp.einsum("iba,b->ia", D, e)
        more = correction(stiff, shapes, factored, g, b, e)
        return jax.tree.map(jnp.add, found, more), None

    o, costates = jnp.zeros_like(condensed.g), jnp.zeros((N + 1, shapes.d), condensed.g.dtype)
    found, _ = jax.lax.scan(refined, Increments(o, costates, conditions), None, SOLUTIONS)
    return found, factored.convex


def _equation_residuals(condensed: Condensed, shapes: Shapes, slope, curvature, found: Increments):
    """The residuals of stationarity `(N, o)`, of the dynamics `(N, d)` and of the conditions `(b,)`."""
    o, costates, y = found
    d = shapes.d
    m = slope + curvature * (jnp.einsum("ilo,io->il", condensed.G, o) + condensed.excess)
    g = condensed.g + jnp.einsum("iab,ib->ia", condensed.H, o)
    g = g + jnp.einsum("ilo,il->io", condensed.G, m) + jnp.einsum("ibo,b->io", condensed.D, y)
    g = g + jnp.einsum("ido,id->io", condensed.A, costates[1:])
    g = g.at[:, :d].add(-costates[:-1])
    end = jnp.einsum("ido,io->id", condensed.A, o) + condensed.b
    following = jnp.concatenate([o[1:, :d], end[-1:]])
    e = jnp.einsum("ibo,io->b", condensed.D, o) + condensed.e
    return g, end - following, e


def _recover(
    transcription: Transcription,
    w: CollocationPoint,
    duals: Duals,
    parts: Parts,
    residuals: Residuals,
    mu,
    barrier: Barrier,
    blocks: tuple[StageBlock, ...],
    eliminated: Eliminated,
    condensed: Condensed,
    found: Increments,
    convex,
) -> Direction:
    """The direction of all unknowns, and all multipliers, from the increments of nodes, controls and parameters."""
    shapes = Shapes.of(transcription)
    d, z = shapes.d, shapes.d + shapes.c
    p = found.o[0, z:]
    last_delta = condensed.A[-1] @ found.o[-1] + condensed.b[-1]
    delta = jnp.concatenate([found.o[:, :d], last_delta[None]])
    last = parts.last
    y_last = jnp.concatenate([last_delta, found.o[-1, d:]])
    y = found.conditions[parts.first.value.shape[0] :]
    costate = last.gradient + last.hessian @ y_last + last.jacobian.T @ y
    costates = jnp.concatenate([found.costates[:-1], costate[None, :d]])
    changes = jnp.einsum("ilo,io->il", condensed.G, found.o) + condensed.excess
    changes = changes.reshape(w.slack.shape)
    limits = barrier.slope + barrier.curvature * changes
    o = found.o.at[0].set(start_map(transcription) @ found.o[0])
    delta = delta.at[0].set(o[0, :d])

    def one(*given):
        return _recover_interval(transcription, blocks, *given)

    given = parts.points, parts.ends, parts.starts, limits, o, costates[1:]
    X, mus, slopes = jax.vmap(one)(eliminated, *given)
    equal = transcription.lower == transcription.upper
    epsilon = proximity(w.slack.dtype)
    slack = jnp.where(equal, 0.0, changes - epsilon * (limits - duals.limits))
    low, high = _bounds_after(transcription, w, duals, mu, slack)
    p_low, p_high = _parameter_bounds_after(transcription, w, duals, mu, p)
    new = Duals(costates, mus, found.conditions, limits, low, high, p_low, p_high)
    slope = jnp.sum(slopes) + jnp.dot(last.gradient, y_last)
    slope = slope + jnp.dot(parts.first.gradient, found.o[0, d:])
    slope = slope + _barrier_slope(transcription, w, mu, slack, p)
    across = _multipliers_times_residuals(new, residuals)
    c = found.o[:, d:z].reshape(w.c.shape)
    missed = _share_missed(condensed, found)
    return Direction(delta, X, c, p, slack, new, slope, across - slope, convex, missed)


def _share_missed(condensed: Condensed, found: Increments) -> Scalar:
    """The share of the conditions' residuals e that is left after the step; 0 if they are within rounding."""
    left = jnp.einsum("ibo,io->b", condensed.D, found.o) + condensed.e
    most, before = (jnp.max(jnp.abs(x), initial=0.0) for x in (left, condensed.e))
    clear = before > float(jnp.finfo(before.dtype).eps) ** 0.5
    return jnp.where(clear, most / jnp.where(clear, before, 1.0), 0.0)


def _recover_interval(
    transcription,
    blocks,
    eliminated,
    points: Derivatives,
    end: Derivatives,
    start: StartDerivatives,
    limits,
    o,
    costate,
):
    """(increments of the stages X, their multipliers μ, slope of the cost) of one interval."""
    d, T = transcription.size, turning_of(transcription)
    (Y, y), (Y_end, y_end) = maps(transcription, eliminated, start)
    y, y_end = Y @ o + y, Y_end @ o + y_end
    pull = points.gradient + jnp.einsum("jyz,jz->jy", points.hessian, y)
    pull = pull + jnp.einsum("jry,jr->jy", points.jacobian[:, d:], limits)
    pull = pull.at[:, T].add((o[T] @ start.hessian[:, len(T) :]).reshape(len(pull), len(T)))
    pull_end = end.gradient + end.hessian @ y_end + end.jacobian.T @ costate
    total = pull[:, :d] + transcription.constants("end")[1:, None] * pull_end[None]
    derivative = np.asarray(transcription.rule.derivative)[:, 1:]
    mu = -adjoint_solution(blocks, derivative, eliminated.stages, total)
    steps = (eliminated.Z @ o + eliminated.z)[1:]
    return steps, mu, jnp.sum(points.gradient * y)


def _bounds_after(transcription, w: CollocationPoint, duals: Duals, mu, slack):
    """The multipliers of the slacks' bounds after a full step."""
    below, above = w.slack - transcription.lower, transcription.upper - w.slack
    equal = transcription.lower == transcription.upper
    below, above = (jnp.where(equal, jnp.inf, x) for x in (below, above))
    return (mu - duals.low * slack) / below, (mu + duals.high * slack) / above


def _parameter_bounds_after(transcription, w: CollocationPoint, duals: Duals, mu, p):
    """The multipliers of the parameters' bounds after a full step."""
    below, above = w.p - transcription.p_lower, transcription.p_upper - w.p
    return (mu - duals.p_low * p) / below, (mu + duals.p_high * p) / above


def _barrier_slope(transcription, w: CollocationPoint, mu, slack, p) -> Scalar:
    """The derivative of the barrier terms along a step with the increments `slack` and `p`."""
    equal = transcription.lower == transcription.upper
    below, above = w.slack - transcription.lower, transcription.upper - w.slack
    below, above = (jnp.where(equal, jnp.inf, x) for x in (below, above))
    of_p = -1 / (w.p - transcription.p_lower) + 1 / (transcription.p_upper - w.p)
    return mu * (jnp.sum(slack * (1 / above - 1 / below)) + jnp.sum(p * of_p))


def _multipliers_times_residuals(duals: Duals, residuals: Residuals) -> Scalar:
    """Σ multipliers · residuals over all equations."""
    pairs = (
        (duals.stages, residuals.stages),
        (duals.costates[1:], residuals.gaps),
        (duals.conditions, residuals.conditions),
        (duals.limits, residuals.limits),
    )
    return sum((jnp.sum(a * b) for a, b in pairs), jnp.zeros((), residuals.gaps.dtype))


# --- the distance from a stationary point ----------------------------------------------------------


def stationarity(transcription: Transcription, parts: Parts, duals: Duals) -> Scalar:
    """The largest absolute entry of the Lagrangian's gradient by the nodes, stages, controls and parameters."""
    d, m = transcription.size, transcription.n_controls

    def one(*given):
        return _gradient(transcription, *given)

    delta, X, c, p = jax.vmap(one)(
        parts.points, parts.ends, parts.starts, duals.stages, duals.limits, duals.costates[1:]
    )
    rows = parts.first.value.shape[0]
    first = parts.first.gradient + parts.first.jacobian.T @ duals.conditions[:rows]
    last = parts.last.gradient + parts.last.jacobian.T @ duals.conditions[rows:]
    s = len(transcription.rule.points)
    c = c.at[0].add(first[: s * m].reshape(s, m)).at[-1].add(last[d : d + s * m].reshape(s, m))
    p = jnp.sum(p, axis=0) + first[s * m :] + last[d + s * m :] - duals.p_low + duals.p_high
    nodes = jnp.concatenate([delta[1:], last[None, :d]]) - duals.costates[1:]
    node = int(transcription.free_time) + np.arange(len(transcription.free_start))
    p = p.at[node].add(delta[0, np.asarray(transcription.free_start, int)])
    every = jnp.concatenate([x.ravel() for x in (nodes, X, c, p)])
    return jnp.max(jnp.abs(every))


def _gradient(
    transcription,
    points: Derivatives,
    end: Derivatives,
    start: StartDerivatives,
    mu,
    limits,
    costate,
):
    """The gradient of the Lagrangian, (∂L/∂δ_i, ∂L/∂X, ∂L/∂c, ∂L/∂p), of one interval."""
    d, m = transcription.size, transcription.n_controls
    multipliers = jnp.concatenate([-mu, limits], axis=1)
    pull = points.gradient + jnp.einsum("jfy,jf->jy", points.jacobian, multipliers)
    pull_end = end.jacobian.T @ costate
    all_X = jnp.concatenate([jnp.zeros_like(pull[:1, :d]), pull[:, :d]])
    all_X = all_X + transcription.constants("derivative").T @ mu
    all_X = all_X + transcription.constants("end")[:, None] * pull_end[None]
    covectors = jnp.concatenate([mu, pull_end[None]])[:, turning_of(transcription)]
    of_start = jnp.einsum("ja,jab->b", covectors, start.jacobian)
    delta = all_X[0].at[turning_of(transcription)].add(of_start)
    return delta, all_X[1:], pull[:, d : d + m], jnp.sum(pull[:, d + m :], axis=0)
