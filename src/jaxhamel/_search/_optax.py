"""One step of an optax optimiser."""

from typing import Any

import jax
import optax
from jaxtyping import Array, Float


def updated(
    optimiser: Any, gradient: Float[Array, " P"], state: Any, p: Float[Array, " P"], **known: Any
) -> tuple[Float[Array, " P"], Any]:
    """The parameters and the optimiser's state (p, state) after one step.

    **Arguments:** `optimiser`: an `optax.GradientTransformation`; `known`: cost, gradient and function, for optimisers with
    a line search.
    """
    with jax.numpy_dtype_promotion("standard"):  # optax counts in int32
        update, state = optimiser.update(gradient, state, p, **known)
    moved: Any = optax.apply_updates(p, update)
    return moved, state
