"""Shapes of what a function returns, traced once for each kind of arguments."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import equinox as eqx
import jax
import numpy as np


def shapes_of(f: Callable) -> Callable:
    """`jax.eval_shape` of f, arrays traced and all else static, without tracing f again where only numbers are others:

        shapes_of(f)(*arguments) = jax.eval_shape(f, *arguments) .

    Tracing takes milliseconds: of a call of `simulate` for a free body 2.2 ms of 3 were the shapes of a quaternion.
    """

    @partial(jax.jit, static_argnums=(1, 2))
    def traced(arrays, others, structure):
        return f(*eqx.combine(arrays, jax.tree.unflatten(structure, others)))

    @wraps(f)
    def shapes(*arguments: Any):
        arrays, others = eqx.partition(arguments, _is_traced)
        leaves, structure = jax.tree.flatten(others)
        return traced.eval_shape(arrays, tuple(leaves), structure)

    return shapes


def _is_traced(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, np.ndarray | np.generic)
