"""Controls: constants, functions of time, and feedbacks, which depend on the state."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.mechanics._checks._feedback import check_of_state, check_of_time


class Constant(eqx.Module):
    """The control that has one value at all times."""

    value: Any

    def __call__(self, t: Time) -> Any:
        return self.value


class Feedback(eqx.Module):
    """A control that depends on the state:

        control(t) = function(t, q(t), u(t)) .

    ```python
    class Hold(equinox.Module):
        gain: jax.Array

        def __call__(self, t, q, u):
            return -self.gain * u


    jaxhamel.simulate(system, q0, u0, ts, jaxhamel.Feedback(Hold(jnp.array(2.0))))
    ```

    **Arguments:**

    - `function`: a callable pytree (t, q, u) → value, of jax.numpy operations. t [s], q and u are those of the system, and
      the value is the system's control. Its arrays (gains, a reference, weights of a network) are leaves: they
      can be differentiated and mapped over, and new values do not recompile. Each evaluation of a `lambda`
      expression gives a new function.

    It is evaluated together with the equations of motion, at each stage of a step, as a controller in continuous time
    without memory. Systems with `prescribed_motion` accept it inside of `jaxhamel.MovingParts`; for `jaxhamel.Kinematic`, u
    is empty.

    **Raises:** `TypeError` if `function` is not callable. Its value is checked at the initial state of a motion.
    """

    function: Callable[..., Any]

    def __check_init__(self) -> None:
        check_of_state(self.function)

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Any:
        """The value function(t, q, u), with its numbers as arrays."""
        return jax.tree.map(jnp.asarray, self.function(t, q, u))


def as_control(control: Control) -> Callable[..., Any] | None:
    """A control as a callable of t: callables and None as they are, anything else as a constant function.

    Lists become arrays; tuples and dictionaries stay structures.
    """
    if control is None:
        return None
    if callable(control) and not isinstance(control, type):
        if not isinstance(control, Feedback):
            check_of_time(control)
        return control
    return Constant(with_arrays(control))


def with_arrays(control: Any) -> Any:
    """A constant control with arrays for its lists, of which each entry has the same shape, and for its numbers.

    **Raises:** `TypeError` or `ValueError` for anything but numbers, and for ragged lists.
    """
    _checks.check_constant_control(control)
    _checks.check_not_ragged("control", control)
    return jax.tree.map(_array, control, is_leaf=lambda part: isinstance(part, list))


def _array(part: Any) -> Array:
    """An array, weakly typed if it is made of Python's numbers, so that it takes the dtype of the state."""
    if isinstance(part, list) and part:
        return jnp.stack([_array(entry) for entry in part])
    return jnp.asarray(part)


def at_state(control: Control, t: Time, q: Configuration, u: QuasiVelocity) -> Control:
    """The control at one state as a function of time; a feedback becomes the constant that it gives there."""
    return Constant(control(t, q, u)) if isinstance(control, Feedback) else control
