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
from jaxhamel.ensemble._methods._embedded_pairs import Pair
from jaxhamel.simulate._solvers._runge_kutta import increment, incremented, stages

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


class Within(NamedTuple):
    """The stages of a step, the first of which is its start, and its end before projection."""

    stages: tuple[Columns, ...]
    end: Columns


def attempted_step(
    rate: Callable, unit: Callable, pair: Pair, lane: AdaptiveLane, limits: StepLimits
) -> tuple[AdaptiveLane, Inside, Within]:
    """Attempts one more step; returns the lane after it, the interpolant of the step, and its stages.

    A lane whose trajectory has ended stays unchanged. `rate` is f(t, y), `unit` N(y).
    """
    h = lane.end - lane.t
    first = lane.slope if pair.reuses else None
    points, slopes = stages(rate, pair, lane.t, h, lane.y, first)
    end = points[-1] if pair.reuses else incremented(lane.y, h, pair.b, slopes)
    projected = unit(end)
    error = increment(h, pair.error, slopes)
    estimate = _estimate(error, lane.y, projected, limits)
    kept = estimate < 1
    new = _next_lane(pair, lane, limits, h, kept, estimate)
    finite = _all_finite(projected + error)
    new = _judged(new, kept, finite, limits)
    chosen = (projected, slopes[-1] if pair.reuses else ())
    before = (lane.y, lane.slope)
    y, slope = jax.tree.map(lambda a, b: jnp.where(kept, a, b), chosen, before)
    new = new._replace(y=y, slope=slope)
    moving = lane.stands == UNDER_WAY
    new = jax.tree.map(lambda a, b: jnp.where(moving, a, b), new, lane)
    powers = tuple(increment(h, weights, slopes) for weights in zip(*pair.inside, strict=True))
    return new, Inside(lane.y, powers), Within(tuple(points), end)


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
