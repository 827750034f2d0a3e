"""Saves the state of a search as named arrays, and restores it from them."""

from collections.abc import Mapping
from typing import Any, TypeGuard, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

Tree = TypeVar("Tree")


def named_arrays(state: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their paths in it, which can be saved in a file."""
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}


def restored(arrays: Mapping[str, np.ndarray], like: Tree) -> Tree | None:
    """The pytree whose arrays `named_arrays` has returned, with the structure, shapes and precision of `like`.

    **Returns:** None if an array is missing, has another shape or another kind of numbers, or is not finite.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    found = []
    for path, known in leaves:
        x = arrays.get(jax.tree_util.keystr(path))
        if not is_finite_array(x, np.dtype(known.dtype).kind) or x.shape != known.shape:
            return None
        found.append(jnp.asarray(x, known.dtype))
    return jax.tree_util.tree_unflatten(structure, found)


def is_finite_array(x: np.ndarray | None, kind: str = "f") -> TypeGuard[np.ndarray]:
    """Whether `x` is an array of finite numbers of this kind, in NumPy's letters."""
    return x is not None and x.dtype.kind == kind and bool(np.all(np.isfinite(x)))
