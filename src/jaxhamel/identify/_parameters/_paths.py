"""Leaves of a system by name: `masses`, `rails.radius`, `rails.groups.0.radius`."""

from typing import Any

import equinox as eqx
import jax
from jax.tree_util import tree_flatten_with_path


def leaf_of(tree: Any, path: str) -> Any:
    """The leaf at a dotted path, in which numbers are indices of tuple entries."""
    for part in path.split("."):
        tree = tree[int(part)] if part.isdigit() else getattr(tree, part)
    return tree


def with_leaf(tree: Any, path: str, value: Any) -> Any:
    """A copy of the tree with `value` as the leaf at the path."""
    return eqx.tree_at(lambda t: leaf_of(t, path), tree, value)


def leaf_paths(tree: Any) -> dict[str, Any]:
    """The floating-point leaves of a system or another pytree by their paths; parameters accept these paths."""
    found = tree_flatten_with_path(tree)[0]
    return {
        ".".join(_name_of_key(key) for key in keys): leaf
        for keys, leaf in found
        if eqx.is_inexact_array(leaf)
    }


def _name_of_key(key: Any) -> str:
    for attribute in ("name", "idx", "key"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return jax.tree_util.keystr((key,)).strip(".[]'")
