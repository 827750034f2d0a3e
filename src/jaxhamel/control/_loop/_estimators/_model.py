"""The observations of an estimator's model, and their residuals in the tangent space."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Control, Time
from jaxhamel.control._checks._estimates import check_seen_numbers, check_seen_state
from jaxhamel.mechanics import System, as_control
from jaxhamel.mechanics._tangent import MotionState, local


def misfit(
    system: System, sensors: Any, state: MotionState, t: Time, seen: Any, control: Control
) -> Float[Array, " r"]:
    """The residual of an observation: `seen` minus the observation without error in `state`; for a seen state, local."""
    if getattr(sensors, "gives_state", False):
        check_seen_state(seen, state)
        return local(system, state, seen)
    exact = sensors.exact(system, t, *state, as_control(control))
    check_seen_numbers(seen, exact)
    return seen - exact


def observation(sensors: Any, system: System, state: MotionState, t: Time, control: Control) -> Any:
    """The observation of a state without error, in the form that the sensors give."""
    if getattr(sensors, "gives_state", False):
        return state
    return sensors.exact(system, t, *state, as_control(control))


def as_matrix(value: Array, size: int) -> Float[Array, "m m"]:
    """Converts a number, a diagonal or a matrix to a matrix."""
    return value if value.ndim == 2 else jnp.diag(jnp.broadcast_to(value, (size,)))


def noise_covariance(sensors: Any, rows: int, dtype: Any) -> Float[Array, "r r"]:
    """R, the diagonal of the squares of the sensors' standard deviations."""
    return jnp.diag(jnp.broadcast_to(sensors.noise.astype(dtype) ** 2, (rows,)))
