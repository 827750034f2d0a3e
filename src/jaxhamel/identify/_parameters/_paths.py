"""Paths of a system's arrays, such as `masses`, `rails.radius` or `rails.groups.0.radius`."""

from typing import Any

import equinox as eqx
import jax
from jax.tree_util import tree_flatten_with_path


def leaf_of(tree: Any, path: str) -> Any:
    """The array, or other part of a system, at a path of names joined by dots; a number is the index of a tuple's entry."""
    for part in path.split("."):
        tree = tree[int(part)] if part.isdigit() else getattr(tree, part)
    return tree


def with_leaf(tree: Any, path: str, value: Any) -> Any:
    """A copy of the system with `value` at the path."""
    return eqx.tree_at(lambda t: leaf_of(t, path), tree, value)


def leaf_paths(tree: Any) -> dict[str, Any]:
    """The floating-point arrays of a system or another pytree by their paths, which parameters accept."""
    found = tree_flatten_with_path(tree)[0]
    return {
        ".".join(_name_of_key(key) for key in keys): leaf
        for keys, leaf in found
        if eqx.is_inexact_array(leaf)
    }


def _name_of_key(key: Any) -> str:
    """The part of a path for a key of JAX: the name of a field, the index of an entry, or the key of a dictionary."""
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return jax.tree_util.keystr((key,)).strip(".[]'")
