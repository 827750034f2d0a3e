"""Step size controllers that end steps at the output times and detect states that are not finite."""

from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._typing import Scalar
from jaxhamel.simulate._stops import (
    AttemptedStep,
    FirstStep,
    StepControl,
    Stops,
    WithStops,
    before,
    merged,
)


class FixedStep(StepControl, diffrax.AbstractStepSizeController[Any, Any]):
    """Equal steps between neighbouring times of `ts`, none longer than `dt`.

    Each interval [tᵢ, tᵢ₊₁] is divided into ⌈(tᵢ₊₁ − tᵢ)/dt⌉ equal steps, so that every output time is the end of a
    step: the values there have the accuracy of the method, not that of its interpolant. (diffrax's
    `ConstantStepSize` with `SaveAt(ts=...)` interpolates, for most methods with an order less.) Where the quotient exceeds
    an integer by less than 1e-3, by rounding, that integer is taken.

    Times and `dt` are arrays: changing them does not recompile. A step that ends in NaN or infinity is
    rejected and ends the simulation at the last finite state.
    """

    ts: Float[Array, " times"]
    dt: Scalar
    jumps: Bool[Array, " times"] | None = None  # whether the right-hand side jumps at each of `ts`

    def wrap(self, direction: Any) -> Any:
        return FixedStep(self.ts * direction, self.dt, self.jumps)

    def begin(self, start: FirstStep) -> Any:
        interval, step = jnp.array(0), jnp.array(1)
        return self._end_of(interval, step), (interval, step, jnp.array(False))

    def decide(self, attempt: AttemptedStep, state: Any) -> Any:
        interval, step, _ = state
        t0, t1, bad = attempt.t0, attempt.t1, ~_all_finite(attempt.y1)
        last = step >= self._steps_in(interval)
        interval, step = jnp.where(last, interval + 1, interval), jnp.where(last, 1, step + 1)
        result = diffrax.RESULTS.where(
            bad, diffrax.RESULTS.dt_min_reached, diffrax.RESULTS.successful
        )
        start, jumped = self._start_after(t1, interval, last)
        t0, t1 = jnp.where(bad, t0, start), jnp.where(bad, t1, self._end_of(interval, step))
        return ~bad, t0, t1, jumped, (interval, step, bad), result

    def _start_after(self, t1, interval, is_first):
        """The time at which the step after t1 begins, and whether the right-hand side jumps there."""
        if self.jumps is None:
            return t1, False
        jumped = is_first & (self.jumps[jnp.minimum(interval, self.ts.shape[0] - 1)])
        return jnp.where(jumped, self._ends(interval)[0], t1), jumped

    def _ends(self, interval):
        last = self.ts.shape[0] - 1
        return self.ts[jnp.minimum(interval, last)], self.ts[jnp.minimum(interval + 1, last)]

    def _steps_in(self, interval):
        return steps_between(*self._ends(interval), self.dt)

    def _end_of(self, interval, step):
        start, end = self._ends(interval)
        count = steps_between(start, end, self.dt)
        fraction = step.astype(self.ts.dtype) / count.astype(self.ts.dtype)
        if self.jumps is not None:  # the last step ends before the jump
            jumps = self.jumps[jnp.minimum(interval + 1, self.ts.shape[0] - 1)]
            end = jnp.where(jumps, before(end), end)
        return jnp.where(step == count, end, start + (end - start) * fraction)


def fixed_step(dt, ts: Float[Array, " times"], stops: Stops | None) -> FixedStep:
    """A controller of equal steps between neighbouring times, those of `ts` and the stops between them."""
    if stops is None:
        return FixedStep(ts, dt)
    times, are_stops = merged(ts, stops)
    return FixedStep(times, dt, are_stops if stops.jump else None)


def steps_between(start, end, dt):
    """Number of equal steps of `FixedStep` between two times."""
    return jnp.maximum(jnp.ceil((end - start) / dt - 1e-3), 1).astype(jnp.int32)


def steps_in(ts: np.ndarray, dt: float) -> list[int]:
    """`steps_between` for each interval of known times, as plain numbers."""
    return np.maximum(np.ceil(np.diff(ts) / dt - 1e-3), 1).astype(int).tolist()


class WatchedStep(StepControl, diffrax.AbstractAdaptiveStepSizeController[Any, Any]):
    """diffrax's PID controller, which also records whether the last attempted step was finite.

    A right-hand side that gives NaN makes diffrax shrink the step until t + step rounds to t. The flag distinguishes this
    from a solution that really requires steps this small.
    """

    controller: diffrax.PIDController

    @property
    def rtol(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.controller.rtol

    @property
    def atol(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.controller.atol

    @property
    def norm(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.controller.norm

    def wrap(self, direction: Any) -> Any:
        return WatchedStep(self.controller.wrap(direction))  # pyright: ignore[reportCallIssue]

    def begin(self, start: FirstStep) -> Any:
        tnext, state = self.controller.init(*start)
        return tnext, (state, jnp.array(False))

    def decide(self, attempt: AttemptedStep, state: Any) -> Any:
        *decision, state, result = self.controller.adapt_step_size(*attempt, state[0])
        # diffrax turns NaN in the error estimate into infinity.
        bad = ~(_all_finite(attempt.y1) & _all_finite(attempt.error))
        return *decision, (state, bad), result


def watched_pid(rtol, atol, ts: Float[Array, " times"], stops: Stops | None = None) -> Any:
    """A controller of adaptive steps by tolerance, with which a simulation fails as soon as t + step rounds to t.

    `stops`: times at which a step ends.
    """
    smallest = 16 * jnp.finfo(ts.dtype).eps * jnp.maximum(jnp.abs(ts[0]), jnp.abs(ts[-1]))
    pid = diffrax.PIDController(rtol=rtol, atol=atol, dtmin=smallest, force_dtmin=False)
    watched: Any = WatchedStep(pid)  # pyright: ignore[reportCallIssue]
    return (
        watched if stops is None else WithStops(watched, stops.times.astype(ts.dtype), stops.jump)
    )


def is_nonfinite(controller_state: Any):
    """Whether the last attempted step was not finite: the last entry of the state of both controllers."""
    return controller_state[-1]


def _all_finite(y):
    leaves = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(y)]
    return jnp.all(jnp.stack(leaves))
