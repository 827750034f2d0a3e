"""One step of one trajectory by an embedded Runge–Kutta pair: error estimate, acceptance, and the length of the next step.

    ε = ‖ h Σ_i e_i k_i / (atol + rtol max(|y|, |y₁|)) ‖ ,     accepted if ε < 1 ,     h ← h · clip(0.9 ε^(−1/p))

with the root mean square as the norm and factors from 1 to 10, or from 0.2 to 0.9 after a rejected step: the choices of
`diffrax.PIDController`, which `jaxhamel.simulate` uses (Söderlind, ACM Transactions on Mathematical Software 29,
2003). A step consists of scalar operations only, so that the step of all lanes is one program.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._xla_cpu._loop_fusion import separated
from jaxhamel.ensemble._methods._embedded_pairs import Pair
from jaxhamel.simulate._solvers._runge_kutta import (
    Weights,
    increment,
    incremented,
    looped_slopes,
    stages,
)

SAFETY, MOST_GROWTH, MOST_SHRINK = 0.9, 10.0, 0.2

# The first step [s], as in diffrax: 0.7.2 would choose it from slopes only for a bare `ODETerm`, but `diffeqsolve` wraps
# its terms.
FIRST = 0.01

# Status of a trajectory: under way, at its end, or the reason why it stopped early.
UNDER_WAY, ARRIVED, TOO_MANY, NOT_FINITE, TOO_SMALL = range(5)


class StepLimits(NamedTuple):
    """Limits of the steps, shared by all trajectories.

    - `rtol`, `atol`: the tolerances; `shortest`: the shortest step; `most`: the largest number of attempted steps.
    - `last`: the last time; `nearly`: a time just before it. A step that would end beyond `nearly` ends at `last` instead,
      or half-way there after a rejected step.
    """

    rtol: Float[Array, ""]
    atol: Float[Array, ""]
    last: Float[Array, ""]
    nearly: Float[Array, ""]
    shortest: Float[Array, ""]
    most: Int[Array, ""]

    @classmethod
    def of(cls, rtol, atol, ts, most: int) -> "StepLimits":
        """The limits for the times `ts`; the shortest step is a few rounding errors of the time."""
        eps = jnp.finfo(ts.dtype).eps
        furthest = jnp.maximum(jnp.abs(ts[0]), jnp.abs(ts[-1]))
        nearly = ts[-1] - 100 * eps * jnp.abs(ts[-1])
        rtol, atol = (jnp.asarray(x, ts.dtype) for x in (rtol, atol))
        return cls(rtol, atol, ts[-1], nearly, 16 * eps * furthest, jnp.asarray(most, jnp.int32))


class AdaptiveLane(NamedTuple):
    """The progress of a trajectory: scalars for one trajectory, vectors over the lanes for many.

    - `t`, `y`: time and state; `end`: the end of the next step.
    - `slope`: the first slope of the next step; empty if the pair does not reuse slopes.
    - `tried`, `kept`: the numbers of attempted and of accepted steps; `stands`: the status.
    - `next_output`: the next interior output time, not used by a step (`_adaptive.NextOutput`).
    """

    t: Float[Array, "..."]
    end: Float[Array, "..."]
    y: Columns
    slope: Columns
    tried: Int[Array, "..."]
    kept: Int[Array, "..."]
    stands: Int[Array, "..."]
    next_output: Any = ()


class Inside(NamedTuple):
    """The interpolant of a step: the state at its start, and h Σ_i w_im k_i for each power of θ."""

    y: Columns
    powers: tuple[Columns, ...]


def first_lane(rate: Callable, pair: Pair, t, y: Columns, limits: StepLimits) -> AdaptiveLane:
    """The `AdaptiveLane` of a trajectory at its initial state, before its first step."""
    h = jnp.maximum(jnp.asarray(FIRST, t.dtype), limits.shortest)
    none = jnp.zeros((), jnp.int32)
    slope = rate(t, y) if pair.reuses else ()
    return AdaptiveLane(t, jnp.minimum(t + h, limits.last), y, slope, none, none, none)


class StepSums(NamedTuple):
    """The sums over the slopes of an attempted step, from which it is judged.

    - `end`: z = y + h Σ_i b_i k_i, before projection; `error`: h Σ_i e_i k_i.
    - `slope`: the last slope; empty if the pair does not reuse slopes.
    - `powers`: h Σ_i w_im k_i for each power of θ; empty if no state within the step is asked for.
    """

    end: Columns
    error: Columns
    slope: Columns
    powers: tuple[Columns, ...]


def step_sums(
    rate: Callable, pair: Pair, lane: AdaptiveLane, inside: bool
) -> tuple[StepSums, list[Columns]]:
    """Computes the stages Y_i of the next step one after the other; returns the sums over their slopes, and the stages.

    `inside`: whether states within the step are asked for.
    """
    h, first = lane.end - lane.t, lane.slope if pair.reuses else None
    points, slopes = stages(rate, pair, lane.t, h, lane.y, first)
    end = points[-1] if pair.reuses else incremented(lane.y, h, pair.b, slopes)
    powers = tuple(increment(h, each, slopes) for each in _of_powers(pair, inside))
    slope = slopes[-1] if pair.reuses else ()
    return StepSums(end, increment(h, pair.error, slopes), slope, powers), points


def looped_sums(
    rate: Callable, pair: Pair, lane: AdaptiveLane, inside: bool
) -> tuple[StepSums, Float[Array, "s n W"]]:
    """Computes the same sums for all lanes by a loop over the stages, so that f is compiled once; returns also the slopes.

    The slopes of s stages, n numbers of a state and W lanes are one array, for which XLA compiles few operations.
    """
    h, y = (lane.end - lane.t)[None], jnp.stack(lane.y)

    def of_matrix(t, y):
        return jnp.stack(rate(t[0], tuple(separated(y))))

    first = jnp.stack(lane.slope) if pair.reuses else None
    slopes = looped_slopes(of_matrix, pair, lane.t[None], h, y, first)
    weights = jnp.asarray([pair.b, pair.error, *_of_powers(pair, inside)], y.dtype)
    sums = h[None] * jnp.tensordot(weights, slopes, 1)
    found = jnp.concatenate([y + sums[0], *sums[1:], *(slopes[-1:] if pair.reuses else ())])
    end, error, *rest = _in_groups(separated(found), len(y))
    slope = rest.pop() if pair.reuses else ()
    return StepSums(end, error, slope, tuple(rest)), slopes


def _of_powers(pair: Pair, inside: bool) -> list[Weights]:
    """The weights of the slopes for each power of θ."""
    return list(zip(*pair.inside, strict=True)) if inside else []


def _in_groups(columns: list, size: int) -> list[Columns]:
    return [tuple(columns[i : i + size]) for i in range(0, len(columns), size)]


def judged(
    unit: Callable, pair: Pair, lane: AdaptiveLane, limits: StepLimits, step: StepSums
) -> AdaptiveLane:
    """Accepts or rejects a step by its error estimate; a lane whose trajectory has ended stays unchanged.

    `unit` computes N(y), the state y projected to its space.

    **Returns:** the lane with the accepted state or the one before the step, and with the size of the next step.
    """
    h, projected = lane.end - lane.t, unit(step.end)
    estimate = _estimate(step.error, lane.y, projected, limits)
    kept = estimate < 1
    new = _next_lane(pair, lane, limits, h, kept, estimate)
    new = _judged(new, kept, _all_finite(projected + step.error), limits)
    chosen, before = (projected, step.slope), (lane.y, lane.slope)
    y, slope = jax.tree.map(lambda a, b: jnp.where(kept, a, b), chosen, before)
    new = new._replace(y=y, slope=slope)
    moving = lane.stands == UNDER_WAY
    return jax.tree.map(lambda a, b: jnp.where(moving, a, b), new, lane)


def _estimate(error: Columns, y: Columns, end: Columns, limits: StepLimits):
    """The error estimate ε of a step; infinite if the error or the new state is not finite."""
    larger = (jnp.maximum(jnp.abs(a), jnp.abs(b)) for a, b in zip(y, end, strict=True))
    scale = tuple(limits.atol + limits.rtol * x for x in larger)
    found = _norm(error, scale)
    return jnp.where(_all_finite((found, *end)), found, jnp.full_like(found, jnp.inf))


def _norm(values: Columns, scale: Columns):
    squares = ((x / s) * (x / s) for x, s in zip(values, scale, strict=True))
    return jnp.sqrt(sum(squares) / len(values))


def _next_lane(
    pair: Pair, lane: AdaptiveLane, limits: StepLimits, h, kept, estimate
) -> AdaptiveLane:
    """Updates times, counts and the status of steps that became too short; y and slope stay."""
    wanted = SAFETY * _power(estimate, -1.0 / pair.order)
    one = jnp.ones_like(wanted)
    low, high = (
        jnp.where(kept, one, MOST_SHRINK * one),
        jnp.where(kept, MOST_GROWTH * one, SAFETY * one),
    )
    h = h * jax.lax.stop_gradient(jnp.minimum(jnp.maximum(wanted, low), high))
    t = jnp.where(kept, lane.end, lane.t)
    to_last = jnp.where(kept, limits.last, lane.t + 0.5 * (limits.last - lane.t))
    end = jnp.where(t + h > limits.nearly, to_last, t + h)
    stands = jnp.where(h >= limits.shortest, UNDER_WAY, TOO_SMALL)
    count = kept.astype(jnp.int32)
    return AdaptiveLane(t, end, lane.y, lane.slope, lane.tried + 1, lane.kept + count, stands)


def _judged(lane: AdaptiveLane, kept, finite, limits: StepLimits) -> AdaptiveLane:
    whole = jnp.where(lane.tried < limits.most, UNDER_WAY, TOO_MANY)
    whole = jnp.where(kept & (lane.t >= limits.last), ARRIVED, whole)
    broken = jnp.where(finite, TOO_SMALL, NOT_FINITE)
    stands = jnp.where(lane.stands == TOO_SMALL, broken, whole)
    return lane._replace(stands=stands.astype(jnp.int32))


def _power(x, exponent: float):
    """x^exponent, for x ≥ 0."""
    return jnp.exp(jnp.log(x) * exponent)


def _all_finite(values: Any) -> Bool[Array, "..."]:
    found = jnp.isfinite(values[0])
    for x in values[1:]:
        found = found & jnp.isfinite(x)
    return found


def state_within(inside: Inside, theta) -> Columns:
    """The state y at the time t + θh inside of a step, before projection."""
    at = inside.powers[-1]
    for powers in inside.powers[-2::-1]:
        at = tuple(p + theta * x for p, x in zip(powers, at, strict=True))
    return tuple(y + theta * x for y, x in zip(inside.y, at, strict=True))
