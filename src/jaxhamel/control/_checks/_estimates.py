"""Checks of the arguments with which an estimator is called in each sample: estimate, observation, control, period."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._checks._values import check_positive, check_shape, type_of
from jaxhamel.mechanics import as_control
from jaxhamel.mechanics._examination._boundary import check_shapes


def check_estimate(name: str, value: Any, field: str) -> None:
    """Checks that an estimate was made by an estimator of the right kind: it has the field of this name."""
    if isinstance(value, type) or not hasattr(value, field):
        raise TypeError(
            f"`{name}` is {type_of(value)}; it must be the result of `start`, `update` or `predict` of the estimator."
        )


def check_prediction(system: Any, t: Any, q: Any, period: Any, control: Any) -> None:
    """Checks that the period is a positive number, and that the model takes the control."""
    check_shape("period", period, (), "It is the time until the next sample [s].")
    check_positive("period", period, "It is the time until the next sample [s].")
    check_shapes(system, t, q, as_control(control))


def check_seen_numbers(seen: Any, exact: Any) -> None:
    """Checks that an observation is one array of the form of the model's, `exact`."""
    if np.shape(seen) != exact.shape:
        raise ValueError(
            f"The observation has shape {np.shape(seen)}; the sensors of the estimator's model give {exact.shape}. Give one "
            "array with one entry for each measured number."
        )


def check_seen_state(seen: Any, state: tuple[Any, Any]) -> None:
    """Checks that an observation is a state (q, u) of the form of the model's, `state`."""
    is_pair = isinstance(seen, tuple) and len(seen) == 2
    wanted = jax.tree.map(jnp.shape, state)
    got = jax.tree.map(jnp.shape, seen) if is_pair else type_of(seen)
    if got != wanted:
        raise ValueError(
            f"The observation has the shapes {got}; StateSensors give a state (q, u) of the shapes {wanted}."
            if is_pair
            else f"The observation is {got}; StateSensors give a state, the pair (q, u)."
        )
