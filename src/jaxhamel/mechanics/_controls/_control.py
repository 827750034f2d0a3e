"""Controls: constants, functions of time, and feedbacks, which depend on the state; and checks of a feedback's value at the
initial state.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._checks._traced import called
from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.mechanics._checks._feedback import (
    check_feedback_value,
    check_made_for,
    check_not_digital,
    check_of_state,
    check_of_time,
    check_takes_feedback,
)
from jaxhamel.mechanics._system import System, dtype_of


class Constant(eqx.Module):
    """The control with the same value at all times."""

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
      the value is the system's control. Its arrays (gains, a reference, weights of a network) are leaves: derivatives by
      them and `vmap` over them are possible, and new values do not compile anew. Each evaluation of a `lambda` expression
      gives a new function, which compiles anew.

    A feedback is a controller in continuous time without memory: it is evaluated together with the equations of motion, at
    each stage of a step. A system with `prescribed_motion` accepts a feedback only inside of `jaxhamel.MovingParts`; for
    `jaxhamel.Kinematic`, u is empty.

    **Raises:** `TypeError` if `function` is not callable. Its value is checked at the initial state of a motion.
    """

    function: Callable[..., Any]

    def __check_init__(self) -> None:
        check_of_state(self.function)

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Any:
        """The value function(t, q, u), with its numbers as arrays."""
        return jax.tree.map(jnp.asarray, self.function(t, q, u))


def as_control(control: Control) -> Callable[..., Any] | None:
    """A control as a callable: callables and None are returned unchanged, any other value as a constant function of t.

    In such a value lists become arrays; tuples and dictionaries stay.
    """
    if control is None:
        return None
    check_not_digital(control)
    if callable(control) and not isinstance(control, type):
        if not isinstance(control, Feedback):
            check_of_time(control)
        return control
    return Constant(with_arrays(control))


def with_arrays(control: Any) -> Any:
    """A constant control with arrays in place of its numbers, and in place of lists whose entries have one shape.

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
    """The control at one state as a function of time: a feedback becomes the constant with its value at this state."""
    return Constant(control(t, q, u)) if isinstance(control, Feedback) else control


def checked_at_start(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
) -> Control:
    """The control for checks at the initial state: in place of a feedback, which is checked, the constant with its value.

    For abstract arrays only shapes and dtypes are checked.

    **Raises:** `TypeError` or `ValueError` for a value that the system does not accept.
    """
    if not isinstance(control, Feedback):
        return control
    check_made_for("`control`, a Feedback,", control.function, system)
    return Constant(checked_value(system, t, q, u, control))


def checked_value(
    system: System,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    control: Callable[..., Any],
    name: str = "`control`, a Feedback,",
) -> Any:
    """The value of a callable (t, q, u) at a state, after a check that the system accepts it as a control.

    `name`: the name of the callable in messages.

    **Raises:** `TypeError` or `ValueError` for a value that the system does not accept.
    """
    check_takes_feedback(system)
    at = (control, t, q, u)
    abstract = any(isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves(at))
    with _SEEN.once(*at) as is_new:
        value = _shapes_of_value(name, *at) if abstract or is_new else None
    value = value if abstract else _control_value(*at)
    check_feedback_value(system, t, value, dtype_of(q), name)
    return value


def _shapes_of_value(name: str, control: Callable[..., Any], t, q, u):
    """The shapes of the value, by tracing, so that the message of an error names the feedback and its line."""
    return called(name, lambda f, *at: jax.tree.map(jnp.asarray, f(*at)), control, t, q, u)


@compiled_with(QUICK)
def _control_value(control, t, q, u):
    return jax.tree.map(jnp.asarray, control(t, q, u))


_SEEN = Seen()
