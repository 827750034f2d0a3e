"""The value of a feedback at the initial state, for the checks there."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from jaxhamel._checks._traced import called
from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.mechanics._checks._feedback import check_feedback_value, check_takes_feedback
from jaxhamel.mechanics._controls._control import Constant, Feedback
from jaxhamel.mechanics._system import System, dtype_of


def at_start(
    system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
) -> Control:
    """The control for the checks at the initial state. A feedback is checked, and replaced by the constant that it gives
    there.

    For abstract arrays only shapes and dtypes are checked.

    **Raises:** `TypeError` or `ValueError` for a value that the system does not accept.
    """
    if not isinstance(control, Feedback):
        return control
    return Constant(looked_at(system, t, q, u, control))


def looked_at(
    system: System,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    control: Callable[..., Any],
    name: str = "`control`, a Feedback,",
) -> Any:
    """The value of a callable (t, q, u) at a state, checked for what the system accepts; messages call it `name`.

    **Raises:** `TypeError` or `ValueError` for a value that the system does not accept.
    """
    check_takes_feedback(system)
    at = (control, t, q, u)
    abstract = any(isinstance(x, jax.ShapeDtypeStruct) for x in jax.tree.leaves(at))
    with _SEEN.once(*at) as is_new:
        value = _shapes(name, *at) if abstract or is_new else None
    value = value if abstract else _value(*at)
    check_feedback_value(system, t, value, dtype_of(q), name)
    return value


def _shapes(name: str, control: Callable[..., Any], t, q, u):
    """The shape of the value, by tracing, so that errors name the feedback and its line."""
    return called(name, lambda f, *at: jax.tree.map(jnp.asarray, f(*at)), control, t, q, u)


@compiled_with(QUICK)
def _value(control, t, q, u):
    return jax.tree.map(jnp.asarray, control(t, q, u))


_SEEN = Seen()
