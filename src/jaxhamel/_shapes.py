"""Shapes of a function's results, traced once for each kind of arguments."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import equinox as eqx
import jax
import numpy as np


def shapes_of(f: Callable) -> Callable:
    """`jax.eval_shape` of f, with arrays traced and all else static, which traces f only once if only values change:

        shapes_of(f)(*arguments) = jax.eval_shape(f, *arguments) .

    Tracing takes milliseconds, which would be most of the time of a short call of `simulate`.
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


class Seen:
    """A memory of the latest `most` kinds of arguments, as hashes.

    A kind is the structure of a pytree with the shapes and dtypes of its arrays, and the values of all other leaves.
    """

    def __init__(self, most: int = 4096):
        self.most, self.hashes = most, {}

    def is_new(self, *kind: Any, values: Any = None) -> bool:
        """Whether a kind has not been seen yet; from now on it counts as seen, until `forget` is called with the same
        values.
        """
        key = _hash(kind, values)
        if key in self.hashes:
            return False
        if len(self.hashes) >= self.most:
            self.hashes.clear()
        self.hashes[key] = None
        return True

    def forget(self, *kind: Any, values: Any = None) -> None:
        """Removes a kind, so that a failed check is repeated next time."""
        self.hashes.pop(_hash(kind, values), None)


def _hash(kind: Any, values: Any) -> int:
    leaves, structure = jax.tree.flatten(kind)
    bits = tuple(np.asarray(x).tobytes() for x in jax.tree.leaves(values))
    return hash((structure, tuple(map(_kind, leaves)), bits))


def _kind(x: Any):
    if hasattr(x, "dtype"):
        return x.shape, x.dtype
    try:
        return type(x), hash(x)
    except TypeError:
        return type(x)


def _is_traced(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, np.ndarray | np.generic)
