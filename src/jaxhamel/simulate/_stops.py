"""Times at which a step ends because the right-hand side jumps or bends there: controllers that keep to them."""

from abc import abstractmethod
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._typing import Scalar

# A step is prolonged by at most this part of its length; with a method of order 5 its error grows by 6 %.
_PROLONGED = 0.01


class Stops(NamedTuple):
    """Increasing times at which a step ends, `(S,)`; `jump`: whether the right-hand side jumps there, or bends."""

    times: Float[Array, " S"]
    jump: bool


class FirstStep(NamedTuple):
    """The arguments with which diffrax asks a controller for the end of the first step."""

    terms: Any
    t0: Any
    t1: Any
    y0: Any
    dt0: Any
    args: Any
    func: Any
    error_order: Any


class AttemptedStep(NamedTuple):
    """An attempted step from (t0, y0) to (t1, y1), with the estimate of its error, in the order of diffrax's arguments."""

    t0: Any
    t1: Any
    y0: Any
    y1: Any
    args: Any
    error: Any
    error_order: Any


class StepControl(eqx.Module):
    """A step size controller whose methods take a record, a `FirstStep` or an `AttemptedStep`, and no list of arguments."""

    def begin(self, start: FirstStep) -> Any:
        """The end of the first step, and the controller's state. A controller that only repeats known steps never begins."""
        raise NotImplementedError

    @abstractmethod
    def decide(self, attempt: AttemptedStep, state: Any) -> Any:
        """Whether the step is kept, the start and the end of the next step, whether it begins at a jump, the controller's
        state, and the result.
        """

    def init(
        self,
        terms: Any,
        t0: Any,
        t1: Any,
        y0: Any,
        dt0: Any,
        args: Any,
        func: Any,
        error_order: Any,
    ) -> Any:
        return self.begin(FirstStep(terms, t0, t1, y0, dt0, args, func, error_order))

    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> Any:
        attempt = AttemptedStep(t0, t1, y0, y1_candidate, args, y_error, error_order)
        return self.decide(attempt, controller_state)


class WithStops(StepControl, diffrax.AbstractStepSizeController[Any, Any]):
    """Steps of another controller, shortened to end at given times.

    At a jump a step ends one unit of rounding earlier, so that its stages see the value before the jump, and the next step
    begins at the jump and computes its first slope anew. (diffrax's `ClipStepSizeController` searches in its times in a loop
    inside of each step, which does not compile to one fusion.)
    """

    controller: Any
    times: Float[Array, " S"]
    jump: bool

    def wrap(self, direction: Any) -> Any:
        return WithStops(self.controller.wrap(direction), self.times * direction, self.jump)

    def begin(self, start: FirstStep) -> Any:
        found, state = self.controller.init(*start)
        place = jnp.sum(self.times <= start.t0)
        return self._shortened(start.t0, found, place), (place, *state)

    def decide(self, attempt: AttemptedStep, state: Any) -> Any:
        place, *state = state
        decision = self.controller.adapt_step_size(*attempt, tuple(state))
        keep, start, end, jumped, state, result = decision
        arrived = keep & (attempt.t1 >= self._end(place))
        length = end - start
        if self.jump:
            start, jumped = jnp.where(arrived, self._time(place), start), jumped | arrived
        place = place + arrived.astype(place.dtype)
        end = self._shortened(start, start + length, place)
        return keep, start, end, jumped, (place, *state), result

    def _shortened(self, start, end, place):
        """The end of a step that keeps to the next stop; a step that nearly reaches it is prolonged.

        Otherwise a step of the same length as the one before would leave one of a unit of rounding, after which the steps
        would be smaller than the smallest ones allowed.
        """
        stop = self._end(place)
        return jnp.where(end + _PROLONGED * (end - start) >= stop, stop, end)

    def _time(self, place: Int[Array, ""]) -> Scalar:
        """The time of a stop; infinite after the last one."""
        last = self.times.shape[0] - 1
        return jnp.where(place > last, jnp.inf, self.times[jnp.minimum(place, last)])

    def _end(self, place: Int[Array, ""]) -> Scalar:
        """The end of the last step before a stop."""
        time = self._time(place)
        return before(time) if self.jump else time


def before(time: Array) -> Array:
    """The largest number below a time."""
    return jnp.nextafter(time, jnp.full_like(time, -jnp.inf))


def ended(ts: Float[Array, " T"], stops: Stops | None) -> Float[Array, " T"]:
    """The times with the last one before a jump that lies there, so that no stage sees the value after the motion's end."""
    if stops is None or not stops.jump or ts.shape[0] < 2:
        return ts
    times = stops.times.astype(ts.dtype)
    jump = times[jnp.clip(jnp.searchsorted(times, ts[-1], side="right") - 1, 0)]
    is_near = (jump <= ts[-1]) & (ts[-1] - jump <= _near(ts, times))
    return ts.at[-1].set(jnp.where(is_near, before(jump), ts[-1]))


def _near(ts: Float[Array, " T"], times: Float[Array, " S"]) -> Array:
    """The difference up to which two times count as equal."""
    ends = jnp.abs(jnp.stack([ts[0], ts[-1], times[0], times[-1]]))
    return 32 * jnp.finfo(ts.dtype).eps * jnp.max(jnp.where(jnp.isfinite(ends), ends, 0.0))


def merged(ts: Float[Array, " T"], stops: Stops) -> tuple[Array, Bool[Array, " T+S"]]:
    """The times of `ts` and the stops between the first and the last of them, and whether each is a stop.

    A stop that equals a time of `ts` but for rounding replaces it. Copies of the last time fill the array.
    """
    times = stops.times.astype(ts.dtype)
    near = _near(ts, times)
    inside = (times > ts[0] + near) & (times < ts[-1] - near)
    place = jnp.minimum(jnp.searchsorted(times, ts - near), len(times) - 1)
    replaced = (jnp.abs(times[place] - ts) <= near) & inside[place]
    both = jnp.concatenate([jnp.where(replaced, ts[0], ts), jnp.where(inside, times, ts[0])])
    found = jnp.unique(both, size=both.shape[0], fill_value=ts[-1])
    place = jnp.minimum(jnp.searchsorted(times, found), len(times) - 1)
    return found, (times[place] == found) & inside[place]
