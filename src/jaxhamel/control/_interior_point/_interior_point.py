"""A primal–dual interior-point method with a line search on the ℓ1 merit function.

    min J(w) − μ Σ log(s − lower) − μ Σ log(upper − s)   subject to   residuals(w, s) = 0 ,   μ → 0 .

Wächter and Biegler 2006 (IPOPT) give the update of μ, the step to the boundary, the correction of the inertia and the
second-order correction; the merit function J + ν |residuals|_1 is that of Waltz et al. 2006.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxhamel._compiled import compiled
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Transcription,
    rebased,
)
from jaxhamel.control._interior_point._derivatives import (
    Duals,
    Parts,
    Residuals,
    evaluate,
    parts_of,
    values_of,
)
from jaxhamel.control._interior_point._direction import Direction, direction, stationarity

LOGGED = 32  # iterations in one call
LARGEST_SHIFT = 1e12
NARROWEST = 1e-10  # the shortest step of the line search
STUCK = 5  # such steps in a row end the search


class Errors(NamedTuple):
    """Stationarity, violation and complementarity, scaled as by IPOPT."""

    stationarity: Scalar
    violation: Scalar
    complementarity: Scalar

    def largest(self) -> Scalar:
        """The largest."""
        return jnp.max(jnp.stack(self))


class SearchState(NamedTuple):
    """The state of the method between two iterations.

    - `mu`: of the barrier; `weight`: ν of the merit function; `shift`: the last that the inertia needed.
    - `cost`, `errors`: of the iterate; `done`: converged; `stuck`: steps in a row that were the shortest; `near`: iterations
      in a row within ten times the tolerance; `floor`: the least shift.
    """

    w: CollocationPoint
    duals: Duals
    mu: Scalar
    weight: Scalar
    shift: Scalar
    cost: Scalar
    errors: Errors
    done: Bool[Array, ""]
    stuck: Int[Array, ""]
    near: Int[Array, ""]
    floor: Scalar


class HistoryRow(NamedTuple):
    """One iteration in the history."""

    cost: Scalar
    gradient_norm: Scalar
    violation: Scalar
    barrier: Scalar
    step: Scalar


NEWTON, CORRECTED, SHORTER = 0, 1, 2  # kinds of attempts


class Attempt(NamedTuple):
    """An attempt at a step.

    - `kind`: a Newton direction, one with a second-order correction, or a shorter step along the first.
    - `shift`: the regularisation; `residuals`: those that the direction removes.
    - `move`, `alpha`: direction and length; `kept`, `kept_alpha`: those without correction.
    - `w`: the new iterate; `weight`: ν; `over`: accepted or given up.
    """

    kind: Int[Array, ""]
    shift: Scalar
    residuals: Residuals
    move: Direction
    alpha: Scalar
    kept: Direction
    kept_alpha: Scalar
    w: CollocationPoint
    weight: Scalar
    over: Bool[Array, ""]


def moved(w: CollocationPoint, move: Direction, alpha: Scalar) -> CollocationPoint:
    """The iterate after a step of length α."""
    return CollocationPoint(
        w.q,
        w.x + alpha * move.delta,
        w.X + alpha * move.X,
        w.c + alpha * move.c,
        w.p + alpha * move.p,
        w.slack + alpha * move.slack,
    )


def barrier_function(transcription: Transcription, w: CollocationPoint) -> Scalar:
    """−Σ log of the distances from finite bounds."""
    equal = transcription.lower == transcription.upper
    gaps = (
        jnp.where(equal, 1.0, w.slack - transcription.lower),
        jnp.where(equal, 1.0, transcription.upper - w.slack),
        w.p - transcription.p_lower,
        transcription.p_upper - w.p,
    )
    logs = [jnp.sum(jnp.where(jnp.isfinite(x), jnp.log(x), 0.0)) for x in gaps]
    return -sum(logs, jnp.zeros((), w.X.dtype))


def errors_of(
    transcription: Transcription,
    w: CollocationPoint,
    duals: Duals,
    parts: Parts,
    residuals: Residuals,
    mu: Scalar,
) -> Errors:
    """How far an iterate is from a solution of the barrier problem with the barrier parameter μ."""
    bounds = [
        (duals.low, w.slack - transcription.lower),
        (duals.high, transcription.upper - w.slack),
        (duals.p_low, w.p - transcription.p_lower),
        (duals.p_high, transcription.p_upper - w.p),
    ]
    zero = jnp.zeros_like(mu)
    all_duals = jnp.concatenate([x.ravel() for x in jax.tree.leaves(duals)])
    scale = jnp.maximum(1.0, jnp.mean(jnp.abs(all_duals)) / 100)
    off = [
        jnp.max(jnp.where(jnp.isfinite(gap) & (gap > 0), jnp.abs(z * gap - mu), 0.0))
        for z, gap in bounds
        if gap.size
    ]
    complementarity = jnp.max(jnp.stack([zero, *off])) / scale
    return Errors(
        stationarity(transcription, parts, duals) / scale, residuals.largest(), complementarity
    )


@compiled
def start(transcription: Transcription, w: CollocationPoint, mu: Scalar) -> SearchState:
    """The state before the first iteration; μ counts only where there are bounds."""
    dtype = w.X.dtype
    number = lambda x: jnp.asarray(x, dtype)  # noqa: E731
    limited = bool(transcription.lower.size or transcription.p_lower.size)
    mu_first = mu if limited else jnp.zeros_like(mu)
    finite = lambda bound, like: jnp.where(  # noqa: E731
        jnp.broadcast_to(jnp.isfinite(bound), like.shape), 1.0, 0.0
    ).astype(dtype)
    equal = transcription.lower == transcription.upper
    low = jnp.where(equal, 0.0, finite(transcription.lower, w.slack))
    high = jnp.where(equal, 0.0, finite(transcription.upper, w.slack))
    rows = eqx.filter_eval_shape(evaluate, transcription, w)[1].conditions.shape
    duals = Duals(
        jnp.zeros_like(w.x),
        jnp.zeros_like(w.X),
        jnp.zeros(rows, dtype),
        jnp.zeros_like(w.slack),
        low,
        high,
        finite(transcription.p_lower, w.p),
        finite(transcription.p_upper, w.p),
    )
    large = number(jnp.inf)
    state = SearchState(
        w, duals, mu_first, number(1.0), number(0.0), large,
        Errors(large, large, large), jnp.asarray(False), jnp.asarray(0), jnp.asarray(0), number(0.0),
    )  # fmt: skip
    return strong(state)


def strong(state: SearchState) -> SearchState:
    """The state with strong types only, so that `advance` is compiled once."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), state)


@compiled
def advance(
    transcription: Transcription, state: SearchState, tolerance: Scalar, many: Int[Array, ""]
) -> tuple[SearchState, Parts, HistoryRow, Int[Array, ""]]:
    """Up to `many` iterations: (state, derivatives of the last one, rows of the history, how many of them count)."""
    empty = jnp.zeros(LOGGED, state.mu.dtype)

    def goes_on(carry):
        state, _, _, k = carry
        return (k < many) & ~state.done & (state.stuck < STUCK)

    def body(carry):
        state, _, rows, k = carry
        state, parts, row = _iteration(transcription, state, tolerance)
        rows = jax.tree.map(lambda all_rows, x: all_rows.at[k].set(x), rows, row)
        return state, parts, rows, k + 1

    shapes = eqx.filter_eval_shape(parts_of, transcription, state.w, state.duals)
    parts = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    carry = state, parts, HistoryRow(*[empty] * 5), jnp.zeros((), int)
    return jax.lax.while_loop(goes_on, body, carry)


def _iteration(
    transcription: Transcription, state: SearchState, tolerance: Scalar
) -> tuple[SearchState, Parts, HistoryRow]:
    w, duals = state.w, state.duals
    parts = parts_of(transcription, w, duals)
    cost, residuals = values_of(transcription, w, parts)
    errors = errors_of(transcription, w, duals, parts, residuals, jnp.zeros_like(state.mu))
    near = jnp.where(errors.largest() <= 10 * tolerance, state.near + 1, 0)
    done = (errors.largest() <= tolerance) | (near >= 5)  # rounding allows no more
    own = errors_of(transcription, w, duals, parts, residuals, state.mu).largest()
    smaller = jnp.maximum(tolerance / 10, jnp.minimum(0.2 * state.mu, state.mu**1.5))
    mu = jnp.where((own <= 10 * state.mu) & (state.mu > 0), smaller, state.mu)
    state = state._replace(cost=cost, errors=errors, done=done, mu=mu, near=near)
    stay = lambda state: (state, jnp.zeros_like(mu))  # noqa: E731
    go = lambda state: _step(transcription, state, parts, residuals)  # noqa: E731
    state, step = jax.lax.cond(done, stay, go, state)
    return state, parts, HistoryRow(cost, errors.stationarity, errors.violation, mu, step)


def rounding_of(w: CollocationPoint, residuals: Residuals) -> Scalar:
    """The norm that residuals keep by rounding: without it, ν grows without limit where they are met."""
    count = sum(x.size for x in jax.tree.leaves(residuals))
    largest = jnp.maximum(jnp.max(jnp.abs(w.X)), jnp.max(jnp.abs(w.slack), initial=1.0))
    return 4 * jnp.finfo(w.X.dtype).eps * count * largest


def _step(transcription: Transcription, state: SearchState, parts: Parts, residuals: Residuals):
    """The state after an accepted step, and its length."""
    w, mu = state.w, state.mu
    base = state.cost + mu * barrier_function(transcription, w)
    size, noise = residuals.norm(), rounding_of(w, residuals)
    scale = 1 + jnp.max(jnp.abs(jnp.diagonal(parts.points.hessian, axis1=-2, axis2=-1)))

    def newton(given):
        residuals, shift = given
        at = (transcription, w, state.duals, parts, residuals, mu, shift, 100.0 * scale)
        move = direction(*at)
        return move, _to_boundary(transcription, w, move, mu)

    def weight_for(move: Direction):
        needed = (move.slope + 0.5 * jnp.maximum(move.curvature, 0.0)) / (0.9 * size)
        needed = jnp.where(size > noise, needed, 0.0)
        return jnp.where(state.weight >= needed, state.weight, 1.5 * needed)

    def attempt(a: Attempt) -> Attempt:
        again = lambda _: (a.move, a.alpha)  # noqa: E731
        solves = a.kind != SHORTER
        move, alpha = jax.lax.cond(solves, newton, again, (a.residuals, a.shift))
        singular = solves & (~move.convex | ~_finite(move))
        corrects = a.kind == CORRECTED
        kept = _choose(corrects, a.kept, move)  # the direction without correction
        kept_alpha = jnp.where(corrects, a.kept_alpha, alpha)
        weight = jnp.where(a.kind == NEWTON, weight_for(move), a.weight)
        trial = moved(w, move, alpha)
        cost, new = evaluate(transcription, trial)
        now = base + weight * size
        then = cost + mu * barrier_function(transcription, trial) + weight * new.norm()
        rounding = 20 * jnp.finfo(now.dtype).eps * jnp.abs(base) + weight * noise
        enough = then <= now + 1e-4 * kept_alpha * (kept.slope - weight * size) + rounding
        accepted = enough & jnp.isfinite(then) & ~singular
        may_correct = (a.kind == NEWTON) & ~singular & (new.norm() > size)
        may_correct = may_correct & jnp.isfinite(new.norm()) & ~accepted
        kind = jnp.where(may_correct, CORRECTED, SHORTER)
        kind = jnp.where(singular & ~corrects, NEWTON, kind)
        corrected = jax.tree.map(lambda x, y: x + alpha * y, new, a.residuals)
        shorter = kind == SHORTER
        over = accepted | (shorter & (alpha <= NARROWEST)) | (a.shift > LARGEST_SHIFT)
        return Attempt(
            kind,
            jnp.where(singular & ~corrects, _larger(a.shift, state.shift), a.shift),
            _choose(may_correct, corrected, residuals),
            _choose(accepted, move, kept),
            jnp.where(accepted, alpha, jnp.where(shorter, kept_alpha / 2, alpha)),
            kept,
            jnp.where(shorter & ~accepted, kept_alpha / 2, kept_alpha),
            _choose(over & jnp.isfinite(then), trial, a.w),
            weight,
            over,
        )

    zero = jnp.zeros_like(mu)
    shapes = eqx.filter_eval_shape(newton, (residuals, zero))[0]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    first = Attempt(
        jnp.asarray(NEWTON), state.floor, residuals, nothing, zero, nothing, zero, w, state.weight,
        jnp.asarray(False),
    )  # fmt: skip
    a = jax.lax.while_loop(lambda a: ~a.over, attempt, first)
    duals = _after(transcription, state.duals, a, mu)
    stuck = jnp.where(a.alpha <= 4 * NARROWEST, state.stuck + 1, 0)
    shift = jnp.where(a.shift > state.floor, a.shift, state.shift)
    new = state._replace(w=a.w, duals=duals, weight=a.weight, shift=shift, stuck=stuck)
    return new, a.alpha


def _choose(condition, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _finite(move: Direction) -> Bool[Array, ""]:
    return jnp.isfinite(move.slope) & jnp.all(jnp.isfinite(move.delta))


def _larger(shift, last):
    """The next regularisation: first a third of the last one that was needed, then eight times more each time."""
    first = jnp.where(last > 0, jnp.maximum(last / 3, 1e-10), 1e-4)
    factor = jnp.where(last > 0, 8.0, 100.0)
    return jnp.where(shift > 0, shift * factor, first)


def _to_boundary(transcription: Transcription, w: CollocationPoint, move: Direction, mu) -> Scalar:
    """The longest step, at most 1, that keeps slacks and end time inside of their bounds."""
    share = jnp.maximum(0.99, 1.0 - mu)
    equal = transcription.lower == transcription.upper
    pairs = [
        (jnp.where(equal, jnp.inf, w.slack - transcription.lower), move.slack),
        (jnp.where(equal, jnp.inf, transcription.upper - w.slack), -move.slack),
        (w.p - transcription.p_lower, move.p),
        (transcription.p_upper - w.p, -move.p),
    ]
    return _shortest(pairs, share)


def _shortest(pairs: Any, share) -> Scalar:
    lengths = [
        jnp.min(jnp.where(change < 0, -share * gap / jnp.where(change < 0, change, -1.0), jnp.inf))
        for gap, change in pairs
        if gap.size
    ]
    return jnp.min(jnp.stack([jnp.ones_like(share), *lengths]))


def _after(transcription: Transcription, duals: Duals, a: Attempt, mu) -> Duals:
    """The multipliers after the step: those of equations with the primal step length, those of bounds with their own."""
    new = a.move.duals
    bounds = ("low", "high", "p_low", "p_high")
    pairs = [(getattr(duals, x), getattr(new, x) - getattr(duals, x)) for x in bounds]
    alpha = _shortest(pairs, jnp.maximum(0.99, 1.0 - mu))
    mixed = {x: z + alpha * change for x, (z, change) in zip(bounds, pairs, strict=True)}
    equations = {
        x: getattr(duals, x) + a.alpha * (getattr(new, x) - getattr(duals, x))
        for x in ("costates", "stages", "conditions", "limits")
    }
    gaps = {
        "low": a.w.slack - transcription.lower,
        "high": transcription.upper - a.w.slack,
        "p_low": a.w.p - transcription.p_lower,
        "p_high": transcription.p_upper - a.w.p,
    }
    kept = {x: _near_centre(z, gaps[x], mu) for x, z in mixed.items()}
    return Duals(**equations, **kept)


def _near_centre(z, gap, mu):
    """z kept within a factor 1e10 of μ/gap, which keeps the condensed Hessian bounded."""
    bounded = jnp.isfinite(gap) & (gap > 0)
    middle = mu / jnp.where(bounded, gap, 1.0)
    return jnp.where(bounded, jnp.clip(z, middle / 1e10, middle * 1e10), 0.0)


@compiled
def at_nodes(transcription: Transcription, state: SearchState) -> tuple[SearchState, Scalar]:
    """The state with the nodes as bases, to go on with, and the largest coordinate that a node had."""
    largest = jnp.max(jnp.abs(state.w.x[:, : transcription.system.space.dim]))
    w, nothing = rebased(transcription, state.w), jnp.zeros((), int)
    return strong(state._replace(w=w, done=jnp.asarray(False), near=nothing)), largest
