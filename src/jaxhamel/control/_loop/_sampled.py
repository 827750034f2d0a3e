"""Digital controllers: a law that is evaluated once in each sampling period, with delay, saturation and a limited rate."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel._typing import Control, Scalar, Time
from jaxhamel.control._checks._closed_loop import check_held, check_sampled, check_sensors
from jaxhamel.control._loop._state_sensors import rounded
from jaxhamel.mechanics._description._parameters import parameter


class Sampled(eqx.Module):
    """A digital controller: it evaluates a law at t_k = t_0 + k T and keeps the command constant for one period T,

        c_k = c_{k−1} + clip(clip(law(t_k, …), lower, upper) − c_{k−1}, −rate T, rate T) ,
        control(t) = c_{k−d} ,   t_k ≤ t < t_{k+1} .

    With a `model` the law is called with the time and the state at which its command acts: law(t_{k+d}, x̂_{k+d}), where x̂ is
    the motion of the model from x_k under the commands c_{k−d}, …, c_{k−1} that are yet to act. If the model is exact, the
    delay does not change the stability of the loop.

    **Arguments:**

    - `law`: a callable pytree (t, q, u) → command `(p,)`, or (t, observation) → command where `sensors` are `Sensors`; or a
      law with memory, a pytree with `start()` → memory and `step(memory, t, q, u)` → (command, memory), or
      `step(memory, t, observation)`: an integral term, `RecedingHorizon`, …
    - `period`: T [s].
    - `delay`: d, a whole number of periods from a sample to the time at which its command acts, up to 10,000; default 0.
    - `lower`, `upper`: limits of the command, numbers or `(p,)`; default none.
    - `rate`: the largest change of the command in one second, a number or `(p,)`; default none. The first command may
      differ from `start` by at most rate T.
    - `start`: the command before the first one, `(p,)`; it acts during the first d periods. Default 0.
    - `sensors`: `Sensors`, whose observation the law is given in place of the state, or `StateSensors`, which give a
      measured state (q, u); None: the state itself.
    - `estimator`: a `KalmanFilter` or a `MovingHorizonEstimator` with these sensors: the law is then called as (t, q, u)
      with the estimated state of the estimator's system, which may have fewer coordinates than the simulated one;
      default none.
    - `model`: a `System` that predicts the state over the delay, as above, by as many Runge–Kutta steps for each period as
      the loop makes; a sample then takes the time of d more periods. Default none: the law is called with t_k and the
      state at t_k. It needs a law of the state, and one that does not predict by itself.

    All numbers but `delay` are leaves of the pytree: other gains, periods and limits do not compile again.

    **Raises:** `TypeError` or `ValueError` for a law that is not callable, a period that is not positive, a delay that is
    not a whole number, a lower limit above its upper limit, a model whose state the law is not given.

    Source: Manitius and Olbrot 1979 (prediction over a delay).
    """

    law: Any
    period: Any = parameter()
    delay: int = eqx.field(static=True, default=0)
    lower: Any = parameter(default=-jnp.inf)
    upper: Any = parameter(default=jnp.inf)
    rate: Any = parameter(default=jnp.inf)
    start: Any = parameter(default=0.0)
    sensors: Any = None
    estimator: Any = None
    model: Any = None

    def __check_init__(self) -> None:
        check_sampled(self)

    def command(self, value: Array, last: Float[Array, " p"]) -> Float[Array, " p"]:
        """The command after `last` if the law gives `value`: within the limits and the largest rate."""
        limited_rate = jnp.isfinite(self.rate)  # ∞ · period would have no derivative
        step = jnp.where(limited_rate, self.rate, 0.0) * self.period
        step = jnp.where(limited_rate, step, jnp.inf).astype(last.dtype)
        limited = jnp.clip(value, self.lower.astype(last.dtype), self.upper.astype(last.dtype))
        return last + jnp.clip(limited - last, -step, step)


class Sensors(eqx.Module):
    """The sensors of a controller: measurements with bias, noise and quantisation,

        observation = round_to(m(t, q, u) + bias + noise ξ, resolution) ,   ξ ~ N(0, 1) in each sample.

    **Arguments:**

    - `measurements`: callables (system, t, q, u, control) → `(r_i,)`: those of `jaxhamel.identify` (`Gyroscope`,
      `Accelerometer`, `Position`, …) or any function of that form. The observation is their values one after the other.
    - `noise`: standard deviations, a number or `(r,)`; `bias`: a number or `(r,)`; default 0.
    - `resolution`: the step of quantisation, a number or `(r,)`; 0 (the default): no quantisation.

    **Raises:** `TypeError` or `ValueError` for measurements that are not callable or numbers that are negative.
    """

    measurements: tuple[Callable[..., Any], ...]
    noise: Any = parameter(default=0.0)
    bias: Any = parameter(default=0.0)
    resolution: Any = parameter(default=0.0)

    def __check_init__(self) -> None:
        check_sensors(self)

    def __call__(
        self, system: Any, t: Time, q: Any, u: Array, control: Control, noise: Array
    ) -> Float[Array, " r"]:
        """The observation; `noise`: ξ, `(r,)`."""
        exact = self.exact(system, t, q, u, control)

        def cast(x):
            return x.astype(exact.dtype)

        value = exact + cast(self.bias) + cast(self.noise) * noise
        return rounded(value, cast(self.resolution))

    def exact(self, system: Any, t: Time, q: Any, u: Array, control: Control) -> Float[Array, " r"]:
        """The measurements without error."""
        return jnp.concatenate(
            [jnp.atleast_1d(m(system, t, q, u, control)) for m in self.measurements]
        )


class Held(eqx.Module):
    """Commands that are constant between samples:

        control(t) = commands[k] ,   t_k ≤ t < t_{k+1} ,   t_k = first + k period .

    **Arguments:** `first`: t_0 [s]; `period` [s]; `commands`: one row for each period, `(K, p)`; `memory`: of a law with
    memory after the last sample, else None.

    **Raises:** `TypeError` or `ValueError` for a time that is not finite, a period that is not positive, commands that are
    not finite or have no row.
    """

    first: Scalar = parameter()
    period: Scalar = parameter()
    commands: Float[Array, "K p"] = parameter()
    memory: Any = None

    def __check_init__(self) -> None:
        check_held(self)

    def __call__(self, t: ArrayLike) -> Float[Array, " p"]:
        """The command at t; before the first period the first command, after the last period the last."""
        place = jnp.floor((t - self.first) / self.period + 1e-6).astype(int)
        return self.commands[jnp.clip(place, 0, self.commands.shape[0] - 1)]
