"""The line search with a filter, with corrections of second order and of inertia, and estimates of the multipliers.

The multipliers after a regularised or shortened step are those of another problem, and may be as large as the
regularisation. They are then estimated anew, by least squares of the Lagrangian's gradient (Wächter and Biegler 2006,
section 3.6): otherwise the curvature λ·∇²c, and with it the next regularisation, grows without limit. The multipliers after
a full step are kept, also far from feasible points: an estimate takes an iteration's time (docs/performance.md#many-starts).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxhamel._typing import Scalar
from jaxhamel.control._charts._bases import InCharts, rebased
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Transcription,
)
from jaxhamel.control._interior_point._barrier import (
    barrier_function,
    multipliers_after,
    to_boundary,
)
from jaxhamel.control._interior_point._derivatives import Duals, Parts, Residuals, evaluate
from jaxhamel.control._interior_point._direction import (
    Direction,
    direction,
    no_direction,
)
from jaxhamel.control._interior_point._filter import (
    Measure,
    accepts,
    augmented,
    emptied,
    with_first_theta,
)
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._scaling._scaled import scaled, scaled_residuals, unscaled
from jaxhamel.control._scaling._sizes import TypicalSizes, in_size

LEAST_SHIFT, LARGEST_SHIFT = 1e-3, 1e12  # bounds of the regularisation
SHORT, MORE_DAMPING, LARGEST_DAMPING = 0.1, 8.0, 1e3  # see `damping_after`
NARROWEST = 1e-8  # the shortest step of the line search
PENALTY = 1e5  # largest weight of the conditions, relative to the curvature; with small ones pivots are not positive
SECOND_ORDER_CORRECTIONS = 4  # largest number of second-order corrections of one step
NEWTON, CORRECTED, SHORTER, ESTIMATE = 0, 1, 2, 3  # kinds of attempts


class Attempt(NamedTuple):
    """An attempt at a step.

    - `kind`: a Newton direction, a direction with a second-order correction, a shorter step along the Newton direction, or
      an estimate of the multipliers without a step.
    - `shift`: the regularisation; `residuals`: the residuals that the direction removes.
    - `move`, `alpha`: direction and length; `kept`, `kept_alpha`: direction and length without second-order correction.
    - `corrections`: the number of corrections so far; `theta`: the violation after the attempt before this one.
    - `w`: the new iterate; `descends`: whether φ falls there as far as its slope promises; `over`: whether the line search
      has ended, because a step is accepted or because it gives up.
    """

    kind: Int[Array, ""]
    shift: Scalar
    residuals: Residuals
    move: Direction
    alpha: Scalar
    kept: Direction
    kept_alpha: Scalar
    corrections: Int[Array, ""]
    theta: Scalar
    w: CollocationPoint
    descends: Bool[Array, ""]
    over: Bool[Array, ""]


class Setting(NamedTuple):
    """The data that all attempts of one iteration share.

    - `now`: violation and barrier function at the iterate; `penalty`: the weight of the conditions in the factored matrix;
      `least`: the regularisation of the first attempt.
    - `refines`: whether steps are corrected to second order, and multipliers estimated anew after shortened steps.
    """

    transcription: Transcription
    state: SearchState
    parts: Parts
    residuals: Residuals
    now: Measure
    penalty: Scalar
    least: Scalar
    refines: bool = True


class Trial(NamedTuple):
    """A trial iterate.

    `enough`: whether the filter accepts it; `descends`: whether φ falls as far as its slope promises; `near`: whether it may
    be taken even if the line search gives up (`_near`).
    """

    w: CollocationPoint
    enough: Bool[Array, ""]
    descends: Bool[Array, ""]
    residuals: Residuals
    near: Bool[Array, ""]


def after_step(
    transcription: Transcription, state: SearchState, parts: Parts, residuals: Residuals
) -> tuple[SearchState, Scalar]:
    """Returns (the state after one step, the step's length). An estimate of the multipliers is a step of length 0."""
    setting = setting_of(transcription, state, parts, residuals)
    first = first_attempt(setting)
    a = jax.lax.while_loop(lambda a: ~a.over, lambda a: next_attempt(setting, a), first)
    return after_attempts(setting, a)


def after_attempts(setting: Setting, a: Attempt) -> tuple[SearchState, Scalar]:
    """The state after the last attempt of an iteration, and the length of its step."""
    transcription, state = setting.transcription, setting.state
    estimated = a.kind == ESTIMATE
    duals = multipliers_after(transcription, state.duals, a.move.duals, a.w, a.alpha, state.mu)
    duals = _choose(estimated, _estimated(transcription, state.duals, a.move.duals), duals)
    fails = (a.alpha <= 4 * NARROWEST) | (a.shift > LARGEST_SHIFT)
    duals = _choose(fails & ~estimated, state.duals, duals)
    stuck = jnp.where(estimated, state.stuck, jnp.where(fails, state.stuck + 1, 0))
    known = _choose(a.descends | estimated, state.filter, augmented(state.filter, setting.now))
    known = _choose(fails & ~estimated, emptied(state.filter), known)
    poor = setting.refines & ~estimated & ((a.shift > state.floor) | (a.alpha < 1.0))
    w, costates, stages = rebased(transcription, InCharts(a.w, duals.costates, duals.stages))
    duals = duals._replace(costates=costates, stages=stages)
    shift = jnp.where(a.shift > setting.least, a.shift, state.shift)
    share = a.alpha / to_boundary(transcription, state.w, a.move, state.mu)
    damping = damping_after(state.damping, a.shift, share)
    damping = jnp.where(estimated, state.damping, damping)
    missed = jnp.where(estimated, state.missed, a.kept.missed)
    new = state._replace(
        w=w, duals=duals, filter=known, estimates=poor, stuck=stuck, shift=shift, damping=damping, missed=missed,
    )  # fmt: skip
    return new, a.alpha


def _estimated(transcription: Transcription, duals: Duals, new: Duals) -> Duals:
    """`duals` with the multipliers of equations taken from the estimate `new`; those of inequalities and bounds stay."""
    equal = transcription.lower == transcription.upper
    limits = jnp.where(equal, new.limits, duals.limits)
    return duals._replace(
        costates=new.costates, stages=new.stages, conditions=new.conditions, limits=limits
    )


def setting_of(
    transcription: Transcription,
    state: SearchState,
    parts: Parts,
    residuals: Residuals,
    refines: bool = True,
) -> Setting:
    """The data that the attempts of one iteration share; notes θ of the search's first iterate in the filter."""
    theta = scaled_residuals(transcription.sizes, residuals).norm()
    state = state._replace(filter=with_first_theta(state.filter, theta))
    base = state.cost + state.mu * barrier_function(transcription, state.w)
    noise = 20 * jnp.finfo(base.dtype).eps * jnp.abs(base)
    now = Measure(theta, base, rounding_of(transcription.sizes, state.w, residuals), noise)
    penalty = penalty_of(scaled(transcription, state.w, state.duals, parts).parts)
    least = jnp.maximum(state.floor, state.damping)
    return Setting(transcription, state, parts, residuals, now, penalty, least, refines)


def penalty_of(parts: Parts) -> Scalar:
    """The weight of the conditions in the factored matrix, without which its pivots need not be positive at a minimum.

    In single precision it is 200 times the curvature: with a larger one the curvature is lost in rounding, and the
    multipliers of dependent conditions drift (docs/performance.md#single-precision).
    """
    diagonals = jnp.abs(jnp.diagonal(parts.points.hessian, axis1=-2, axis2=-1))
    weight = min(PENALTY, float(jnp.finfo(diagonals.dtype).eps) ** (-1 / 3))
    return weight * (1 + jnp.max(diagonals))


def first_attempt(setting: Setting) -> Attempt:
    """The first attempt of an iteration, yet to be made: a Newton step or an estimate of the multipliers.

    A search that has converged makes no attempt: `over` is true.
    """
    state, residuals = setting.state, setting.residuals
    zero, none, no = jnp.zeros_like(state.mu), jnp.asarray(0), jnp.asarray(False)
    over = state.done  # under `vmap`, converged searches take part in the iterations of the others
    kind = jnp.where(state.estimates, ESTIMATE, NEWTON)
    nothing = no_direction(state.w, state.duals)
    return Attempt(
        kind, setting.least, residuals, nothing, zero, nothing, zero, none, zero, state.w, no, over
    )


def _newton(
    setting: Setting, kind, residuals: Residuals, shift: Scalar
) -> tuple[Direction, Scalar]:
    """The direction for given residuals, and the longest step along it.

    For an estimate of the multipliers the curvature is a unit matrix, and the residuals are zero.
    """
    t, state = setting.transcription, setting.state
    own = jnp.where(kind == ESTIMATE, 0.0, 1.0).astype(shift.dtype)
    at = scaled(t, state.w, state.duals, setting.parts)
    parts = at.parts.with_hessians(own)
    residuals = jax.tree.map(lambda x: own * x, scaled_residuals(t.sizes, residuals))
    shift = jnp.where(kind == ESTIMATE, 1.0, shift)
    penalty = jnp.where(kind == ESTIMATE, 100.0, setting.penalty)
    given = parts, residuals, state.mu, shift, penalty
    move = unscaled(t.sizes, direction(at.transcription, at.w, at.duals, *given))
    return move, to_boundary(t, state.w, move, state.mu)


def next_attempt(setting: Setting, a: Attempt) -> Attempt:
    """Makes the attempt `a` and returns the next one: a correction, a shorter step or more regularisation."""

    def again(*_):
        return (a.move, a.alpha)

    def newton(*given):
        return _newton(setting, *given)

    move, alpha = jax.lax.cond(a.kind != SHORTER, newton, again, a.kind, a.residuals, a.shift)
    return _attempt_after_trial(setting, a, move, alpha)


def attempt_after_halvings(setting: Setting, a: Attempt) -> Attempt:
    """Halves the step until it is accepted or given up. Halvings solve no linear equations."""
    return jax.lax.while_loop(
        lambda a: (a.kind == SHORTER) & ~a.over,
        lambda a: _attempt_after_trial(setting, a, a.move, a.alpha),
        a,
    )


def _attempt_after_trial(setting: Setting, a: Attempt, move: Direction, alpha: Scalar) -> Attempt:
    """Tries a direction and returns the attempt that follows, with `over` if the trial is accepted or given up."""
    solves, corrects, estimates = a.kind != SHORTER, a.kind == CORRECTED, a.kind == ESTIMATE
    alpha = jnp.where(estimates, 0.0, alpha)
    singular = solves & (~move.convex | ~_finite(move))
    kept = _choose(corrects, a.kept, move)  # the direction without correction
    kept_alpha = jnp.where(corrects, a.kept_alpha, alpha)
    trial = _trial(setting, move, alpha, kept, kept_alpha)
    theta = scaled_residuals(setting.transcription.sizes, trial.residuals).norm()
    accepted = trial.enough & ~singular
    may_correct = ~singular & ~accepted & _promising(setting, a, theta)
    kind = jnp.where(may_correct, CORRECTED, SHORTER)
    kind = jnp.where(singular & ~corrects, NEWTON, kind)
    corrected = jax.tree.map(lambda x, y: x + alpha * y, trial.residuals, a.residuals)
    shorter = kind == SHORTER
    over = accepted | (shorter & (alpha <= NARROWEST)) | (a.shift > LARGEST_SHIFT) | estimates
    return Attempt(
        jnp.where(estimates, ESTIMATE, kind),
        jnp.where(
            singular & ~corrects & ~estimates,
            larger_shift(a.shift, setting.state.shift, setting.least),
            a.shift,
        ),
        _choose(may_correct, corrected, setting.residuals),
        _choose(accepted | estimates, move, kept),
        jnp.where(accepted | estimates, alpha, jnp.where(shorter, kept_alpha / 2, alpha)),
        kept,
        jnp.where(shorter & ~accepted, kept_alpha / 2, kept_alpha),
        jnp.where(may_correct, a.corrections + 1, a.corrections),
        theta,
        _choose(over & trial.near & ~estimates, trial.w, a.w),
        trial.descends,
        over,
    )


def _trial(setting: Setting, move, alpha, kept: Direction, kept_alpha) -> Trial:
    """The iterate after a step of length α along `move`, and whether the filter accepts it."""
    state = setting.state
    w = iterate_after(state.w, move, alpha)
    cost, residuals = evaluate(setting.transcription, w)
    phi = cost + state.mu * barrier_function(setting.transcription, w)
    theta = scaled_residuals(setting.transcription.sizes, residuals).norm()
    found = accepts(state.filter, setting.now, theta, phi, kept_alpha, kept.slope)
    near = found[0] | _near(setting.now, theta, phi)
    return Trial(w, *found, residuals, near)


def _near(now: Measure, theta: Scalar, phi: Scalar) -> Bool[Array, ""]:
    """Whether a trial may be taken if the line search gives up: if it is not much worse than the iterate.

    If the linearised equations contradict one another, a direction may be 1e30 long, and its shortest step still too long.
    """
    few = theta <= 10 * now.theta + now.theta_noise
    return few & (phi <= now.phi + 10 * (1 + jnp.abs(now.phi)))


def _promising(setting: Setting, a: Attempt, theta: Scalar) -> Bool[Array, ""]:
    """Whether to try a second-order correction: if the violation grew, or if the last correction lowered it."""
    first = (a.kind == NEWTON) & (theta >= setting.now.theta)
    lower = (
        (a.kind == CORRECTED)
        & (theta < 0.99 * a.theta)
        & (a.corrections < SECOND_ORDER_CORRECTIONS)
    )
    return setting.refines & (first | lower) & jnp.isfinite(theta)


def iterate_after(w: CollocationPoint, move: Direction, alpha: Scalar) -> CollocationPoint:
    """The iterate after a step of length α."""
    return CollocationPoint(
        w.q,
        w.x + alpha * move.delta,
        w.X + alpha * move.X,
        w.c + alpha * move.c,
        w.p + alpha * move.p,
        w.slack + alpha * move.slack,
    )


def rounding_of(sizes: TypicalSizes | None, w: CollocationPoint, residuals: Residuals) -> Scalar:
    """An estimate of the norm of the residuals that rounding alone causes."""
    count = sum(x.size for x in jax.tree.leaves(residuals))
    X, slack = (
        (w.X, w.slack)
        if sizes is None
        else (
            in_size(w.X, sizes.x),
            in_size(w.slack, sizes.limits),
        )
    )
    largest = jnp.maximum(jnp.max(jnp.abs(X)), jnp.max(jnp.abs(slack), initial=1.0))
    return 4 * jnp.finfo(w.X.dtype).eps * count * largest


def _choose(condition, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _finite(move: Direction) -> Bool[Array, ""]:
    return jnp.isfinite(move.slope) & jnp.all(jnp.isfinite(move.delta))


def larger_shift(shift: Scalar, last: Scalar, floor: Scalar) -> Scalar:
    """The regularisation to try after `shift` has failed.

    `floor`: the first regularisation tried in this step; `last`: the one that the last regularised step needed, or 0.
    The regularisation begins at a third of `last` (at least 2 `floor`) and grows by a factor of eight. If no step needed one
    yet, it begins at `LEAST_SHIFT` and grows by a factor of ten (Wächter and Biegler 2006, section 3.1).
    """
    known = last > 0
    first = jnp.maximum(jnp.where(known, last / 3, LEAST_SHIFT), 2 * floor)
    return jnp.where(shift > floor, jnp.where(known, 8.0, 10.0) * shift, first)


def damping_after(damping: Scalar, shift: Scalar, share: Scalar) -> Scalar:
    """The least regularisation of the next step: more after a step that the filter shortened much, less after a long one.

    `share`: the step's length as a share of the longest step that the bounds allow; `shift`: the step's regularisation.

    In a direction of small curvature, Newton's step is too long for its linearisation. Regularisation shortens the step in
    such directions only, the line search in all.
    """
    less = jnp.where(damping > LEAST_SHIFT, damping / MORE_DAMPING, 0.0)
    more = jnp.minimum(MORE_DAMPING * jnp.maximum(shift, LEAST_SHIFT), LARGEST_DAMPING)
    return jnp.where(share < SHORT, more, jnp.where(share < 0.5, damping, less))
