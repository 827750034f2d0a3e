"""The steps from one plan of a receding horizon to the next: shift it in time, let it begin at the new state, improve it."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Transcription,
)
from jaxhamel.control._interior_point._derivatives import (
    Duals,
    evaluate,
    parts_of,
    stage_unknowns,
    values_of,
)
from jaxhamel.control._interior_point._filter import emptied, empty_filter
from jaxhamel.control._interior_point._gauss_newton import gauss_newton_parts
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._line_search import after_step
from jaxhamel.control._interior_point._state import (
    SearchState,
    about_own_nodes,
    errors_of,
    resumed,
    strong,
)

HESSIANS = {"gauss-newton": gauss_newton_parts, "exact": parts_of}
ROUNDING = 1e-6  # shares of an interval below this count as rounding
CENTRED = 10.0  # a bound's multiplier is kept within this factor of its value on the central path, μ/distance


def plan_later(
    transcription: Transcription, w: CollocationPoint, duals: Duals, intervals: Scalar
) -> tuple[CollocationPoint, Duals]:
    """Shifts a plan and its multipliers to a mesh that begins `intervals` intervals later; the number may be fractional.

    Values are interpolated linearly between neighbouring intervals. Beyond the end the last interval is repeated, with its
    displacement: q_{N+j} = q_N exp(j local(q_{N−1}, q_N)), u_{N+j} = u_N + j (u_N − u_{N−1}); a motion that is under way
    at the end goes on. All intervals must have the same length, and all nodes must be the bases of their charts.
    """
    space, whole = transcription.system.space, jnp.floor(intervals + ROUNDING)
    share = jnp.maximum(intervals - whole, 0.0).astype(w.x.dtype)
    share = jnp.where(share < ROUNDING, 0.0, share)

    def pair(x: Array) -> tuple[Array, Array]:
        first = jnp.arange(x.shape[0]) + whole.astype(int)
        return tuple(x[jnp.clip(first + i, 0, x.shape[0] - 1)] for i in (0, 1))  # pyright: ignore[reportReturnType]

    def mixed(x: Array) -> Array:
        before, after = pair(x)
        return before + share * (after - before)

    moved = space.local(*(jax.tree.map(lambda x, i=i: x[i], w.q) for i in (-2, -1)))
    faster = w.x[-1] - w.x[-2]

    def beyond(rows: int) -> tuple[Array, Array]:
        """By how many rows each row of `pair` lies beyond the last one."""
        first = jnp.arange(rows) + whole.astype(int) - (rows - 1)
        return tuple(jnp.maximum(first + i, 0).astype(w.x.dtype) for i in (0, 1))  # pyright: ignore[reportReturnType]

    def configurations(i: int) -> Any:
        known = jax.tree.map(lambda x: pair(x)[i], w.q)
        return jax.vmap(space.retract)(known, jnp.outer(beyond(len(w.x))[i], moved))

    def states(x: Array) -> Array:
        steps = (jnp.outer(rows, faster) for rows in beyond(len(x)))
        before, after = (
            a + step.reshape(len(x), *[1] * (x.ndim - 2), -1)
            for a, step in zip(pair(x), steps, strict=True)
        )
        return before + share * (after - before)

    def between(a, b):
        return space.normalise(space.retract(a, share * space.local(a, b)))

    others = {name: states(getattr(w, name)) for name in ("x", "X")}
    others |= {name: mixed(getattr(w, name)) for name in ("c", "slack")}
    unchanged = ("conditions", "p_low", "p_high")
    multipliers = {x: getattr(duals, x) for x in unchanged}
    multipliers |= {x: mixed(getattr(duals, x)) for x in Duals._fields if x not in unchanged}
    return w._replace(q=jax.vmap(between)(configurations(0), configurations(1)), **others), Duals(
        **multipliers
    )


def begun_at(w: CollocationPoint, q: Any, u: Array) -> CollocationPoint:
    """The plan `w` with the state (q, u) as its first node."""
    bases = jax.tree.map(lambda all_q, first: all_q.at[0].set(first), w.q, q)
    n = w.x.shape[1] - u.shape[0]
    first = jnp.concatenate([jnp.zeros(n, w.x.dtype), u])
    return w._replace(q=bases, x=w.x.at[0].set(first))


def warm_start(transcription: Transcription, state: SearchState) -> SearchState:
    """The state from which the next iterations continue.

    Its slacks are inside their bounds, and the bounds' multipliers are near the central path.
    """
    state = resumed(state)._replace(filter=empty_filter(state.mu.dtype))
    if not transcription.limits:
        return state
    w, lower, upper = state.w, transcription.lower, transcription.upper
    value = _limit_values(transcription, w)
    width = jnp.where(jnp.isfinite(upper - lower), upper - lower, jnp.inf)
    margin = jnp.minimum(state.mu, 0.01 * width)
    slack = jnp.minimum(jnp.maximum(value, lower + margin), upper - margin)
    slack = jnp.where(lower == upper, lower, slack)
    low = _centred(state.duals.low, slack - lower, state.mu)
    high = _centred(state.duals.high, upper - slack, state.mu)
    duals = state.duals._replace(low=low, high=high)
    return state._replace(w=w._replace(slack=slack), duals=duals)


def _limit_values(transcription: Transcription, w: CollocationPoint) -> Float[Array, "N s r"]:
    """The values of the limits' functions."""
    shares = transcription.constants("points")

    def interval(interval, X, c):
        def at(share, y):
            return transcription.limit(interval, share, y)

        return jax.vmap(at)(shares, stage_unknowns(X, c, w.p))

    return jax.vmap(interval)(transcription.intervals(w), w.X, w.c)


def _centred(z: Array, gap: Array, mu: Scalar) -> Array:
    """Clips the multipliers z of bounds to within a factor `CENTRED` of μ/gap."""
    bounded = jnp.isfinite(gap) & (gap > 0)
    middle = mu / jnp.where(bounded, gap, 1.0)
    return jnp.where(bounded, jnp.clip(z, middle / CENTRED, middle * CENTRED), 0.0)


def improved(
    transcription: Transcription,
    state: SearchState,
    tolerance: Scalar,
    barrier: Scalar,
    counts: tuple[Int[Array, ""], Int[Array, ""]],
    acceptable: Scalar,
    hessian: str,
) -> tuple[SearchState, Scalar]:
    """Makes iterations of the interior-point method with μ ≥ `barrier`; then the nodes become bases.

    `counts`: the number of iterations, and the largest number as long as the plan violates its constraints by more than
    `acceptable`. Returns the state and the violation of its plan.
    """
    usual, most = counts

    def goes_on(carry):
        state, k, found = carry
        more = (k < usual) | ((k < most) & ~(found <= acceptable))
        return more & ~state.done & (state.stuck < STUCK)

    def body(carry):
        state, k, _ = carry
        state = _iteration(transcription, state, tolerance, barrier, hessian)
        return state, k + 1, violation(transcription, state.w)

    none = jnp.full_like(acceptable, jnp.inf)
    state, _, found = jax.lax.while_loop(goes_on, body, (strong(state), jnp.zeros((), int), none))
    return about_own_nodes(transcription, state), found


def _iteration(
    transcription: Transcription,
    state: SearchState,
    tolerance: Scalar,
    barrier: Scalar,
    hessian: str,
) -> SearchState:
    """One iteration: updates the errors and μ, and makes a step unless the plan is within tolerance at the least μ."""
    w, duals = state.w, state.duals
    parts = HESSIANS[hessian](transcription, w, duals)
    cost, residuals = values_of(transcription, w, parts)
    errors = errors_of(transcription, w, duals, parts, residuals, state.mu)
    least = jnp.minimum(barrier, state.mu)
    smaller = jnp.maximum(least, jnp.minimum(0.2 * state.mu, state.mu**1.5))
    mu = jnp.where(errors.largest() <= 10 * state.mu, smaller, state.mu)
    done = (errors.largest() <= tolerance) & (mu == state.mu)
    known = jax.tree.map(
        lambda a, b: jnp.where(mu < state.mu, a, b), emptied(state.filter), state.filter
    )
    state = state._replace(
        cost=cost, errors=errors, done=done, mu=mu, filter=known, estimates=jnp.asarray(False)
    )

    def go(state):
        return after_step(transcription, state, parts, residuals)[0]

    return jax.lax.cond(done, lambda state: state, go, state)


def violation(transcription: Transcription, w: CollocationPoint) -> Scalar:
    """The largest residual of a plan's equations and limits; infinite if the plan has a number that is not finite."""
    largest = evaluate(transcription, w)[1].largest()
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves(w)]))
    return jnp.where(finite & jnp.isfinite(largest), largest, jnp.inf)
