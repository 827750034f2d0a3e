"""The line search on the merit function J − μ Σ log + ν |residuals|_1, with corrections of second order and of inertia."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._barrier import (
    barrier_function,
    multipliers_after,
    to_boundary,
)
from jaxhamel.control._interior_point._derivatives import Parts, Residuals, evaluate
from jaxhamel.control._interior_point._direction import Direction, direction
from jaxhamel.control._interior_point._state import SearchState

LARGEST_SHIFT = 1e12
NARROWEST = 1e-10  # the shortest step of the line search
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


class Setting(NamedTuple):
    """What all attempts of one iteration share.

    - `base`: the barrier function at the iterate; `size`: the residuals' norm; `noise`: what rounding leaves of it.
    - `penalty`: of the conditions in the factored matrix.
    """

    transcription: Transcription
    state: SearchState
    parts: Parts
    residuals: Residuals
    base: Scalar
    size: Scalar
    noise: Scalar
    penalty: Scalar


class Trial(NamedTuple):
    """An iterate that is tried: whether the merit function falls enough, its residuals, whether it is finite."""

    w: CollocationPoint
    enough: Bool[Array, ""]
    residuals: Residuals
    finite: Bool[Array, ""]


def step(
    transcription: Transcription, state: SearchState, parts: Parts, residuals: Residuals
) -> tuple[SearchState, Scalar]:
    """The state after an accepted step, and its length."""
    setting = _setting(transcription, state, parts, residuals)
    first = _first(setting)
    a = jax.lax.while_loop(lambda a: ~a.over, lambda a: _attempt(setting, a), first)
    duals = multipliers_after(transcription, state.duals, a.move.duals, a.w, a.alpha, state.mu)
    stuck = jnp.where(a.alpha <= 4 * NARROWEST, state.stuck + 1, 0)
    shift = jnp.where(a.shift > state.floor, a.shift, state.shift)
    new = state._replace(w=a.w, duals=duals, weight=a.weight, shift=shift, stuck=stuck)
    return new, a.alpha


def _setting(transcription: Transcription, state: SearchState, parts: Parts, residuals: Residuals):
    base = state.cost + state.mu * barrier_function(transcription, state.w)
    diagonals = jnp.abs(jnp.diagonal(parts.points.hessian, axis1=-2, axis2=-1))
    size, noise = residuals.norm(), rounding_of(state.w, residuals)
    penalty = 100.0 * (1 + jnp.max(diagonals))
    return Setting(transcription, state, parts, residuals, base, size, noise, penalty)


def _first(setting: Setting) -> Attempt:
    state, residuals = setting.state, setting.residuals
    zero = jnp.zeros_like(state.mu)
    shapes = eqx.filter_eval_shape(_newton, setting, residuals, zero)[0]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    kind, over = jnp.asarray(NEWTON), jnp.asarray(False)
    return Attempt(
        kind, state.floor, residuals, nothing, zero, nothing, zero, state.w, state.weight, over
    )


def _newton(setting: Setting, residuals: Residuals, shift: Scalar) -> tuple[Direction, Scalar]:
    """The direction for given residuals, and the longest step along it."""
    t, state = setting.transcription, setting.state
    move = direction(
        t, state.w, state.duals, setting.parts, residuals, state.mu, shift, setting.penalty
    )
    return move, to_boundary(t, state.w, move, state.mu)


def _attempt(setting: Setting, a: Attempt) -> Attempt:
    solves, corrects = a.kind != SHORTER, a.kind == CORRECTED
    again = lambda *_: (a.move, a.alpha)  # noqa: E731
    newton = lambda *given: _newton(setting, *given)  # noqa: E731
    move, alpha = jax.lax.cond(solves, newton, again, a.residuals, a.shift)
    singular = solves & (~move.convex | ~_finite(move))
    kept = _choose(corrects, a.kept, move)  # the direction without correction
    kept_alpha = jnp.where(corrects, a.kept_alpha, alpha)
    weight = jnp.where(a.kind == NEWTON, _weight_for(setting, move), a.weight)
    trial = _try(setting, move, alpha, kept, kept_alpha, weight)
    accepted = trial.enough & ~singular
    may_correct = (a.kind == NEWTON) & ~singular & ~accepted & _grew(setting, trial.residuals)
    kind = jnp.where(may_correct, CORRECTED, SHORTER)
    kind = jnp.where(singular & ~corrects, NEWTON, kind)
    corrected = jax.tree.map(lambda x, y: x + alpha * y, trial.residuals, a.residuals)
    shorter = kind == SHORTER
    over = accepted | (shorter & (alpha <= NARROWEST)) | (a.shift > LARGEST_SHIFT)
    return Attempt(
        kind,
        jnp.where(singular & ~corrects, _larger(a.shift, setting.state.shift), a.shift),
        _choose(may_correct, corrected, setting.residuals),
        _choose(accepted, move, kept),
        jnp.where(accepted, alpha, jnp.where(shorter, kept_alpha / 2, alpha)),
        kept,
        jnp.where(shorter & ~accepted, kept_alpha / 2, kept_alpha),
        _choose(over & trial.finite, trial.w, a.w),
        weight,
        over,
    )


def _weight_for(setting: Setting, move: Direction) -> Scalar:
    """ν, raised where the direction needs it to descend (Waltz et al. 2006, eq. 18)."""
    needed = (move.slope + 0.5 * jnp.maximum(move.curvature, 0.0)) / (0.9 * setting.size)
    needed = jnp.where(setting.size > setting.noise, needed, 0.0)
    weight = setting.state.weight
    return jnp.where(weight >= needed, weight, 1.5 * needed)


def _try(setting: Setting, move, alpha, kept: Direction, kept_alpha, weight) -> Trial:
    state, size = setting.state, setting.size
    w = moved(state.w, move, alpha)
    cost, residuals = evaluate(setting.transcription, w)
    now = setting.base + weight * size
    barrier = state.mu * barrier_function(setting.transcription, w)
    then = cost + barrier + weight * residuals.norm()
    rounding = 20 * jnp.finfo(now.dtype).eps * jnp.abs(setting.base) + weight * setting.noise
    enough = then <= now + 1e-4 * kept_alpha * (kept.slope - weight * size) + rounding
    finite = jnp.isfinite(then)
    return Trial(w, enough & finite, residuals, finite)


def _grew(setting: Setting, residuals: Residuals) -> Bool[Array, ""]:
    norm = residuals.norm()
    return (norm > setting.size) & jnp.isfinite(norm)


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


def rounding_of(w: CollocationPoint, residuals: Residuals) -> Scalar:
    """The norm that residuals keep by rounding: without it, ν grows without limit where they are met."""
    count = sum(x.size for x in jax.tree.leaves(residuals))
    largest = jnp.maximum(jnp.max(jnp.abs(w.X)), jnp.max(jnp.abs(w.slack), initial=1.0))
    return 4 * jnp.finfo(w.X.dtype).eps * count * largest


def _choose(condition, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _finite(move: Direction) -> Bool[Array, ""]:
    return jnp.isfinite(move.slope) & jnp.all(jnp.isfinite(move.delta))


def _larger(shift, last):
    """The next regularisation: first a third of the last one that was needed, then eight times more each time."""
    first = jnp.where(last > 0, jnp.maximum(last / 3, 1e-10), 1e-4)
    factor = jnp.where(last > 0, 8.0, 100.0)
    return jnp.where(shift > 0, shift * factor, first)
