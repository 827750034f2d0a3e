"""Paths of a system's arrays, and of parts of them: `masses`, `rails.radius`, `rails.groups.0.radius`, `inertias.2`."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._values import path_of
from jaxhamel.mechanics._description._parameters import NOTES, FieldNotes


def leaf_of(tree: Any, path: str) -> Any:
    """The array, or other part of a system, at a path of names joined by dots: fields, keys of dictionaries, and indices of
    the entries of tuples, lists and arrays.

    **Raises:** `AttributeError`, `LookupError` or `TypeError` for a path that leads nowhere.
    """
    for part in path.split("."):
        tree = _inside(tree, part)
    return tree


def _inside(tree: Any, part: str) -> Any:
    if isinstance(tree, Mapping):
        return tree[part]
    if eqx.is_array(tree):
        return tree[_index(part, tree.shape)]
    return tree[int(part)] if part.isdigit() else getattr(tree, part)


def _index(part: str, shape: tuple[int, ...]) -> int:
    """The index of an entry. **Raises:** `IndexError` for other text, and beyond the end, where JAX takes the last entry."""
    if not (part.isdigit() and shape and int(part) < shape[0]):
        raise IndexError(part)
    return int(part)


def unit_at(tree: Any, path: str) -> str:
    """The unit that the innermost field on the path has by `jaxhamel.parameter` in its class; empty without one."""
    found = ""
    for part in path.split("."):
        fields = getattr(type(tree), "__dataclass_fields__", {})
        if part in fields:
            found = fields[part].metadata.get(NOTES, FieldNotes()).unit
        tree = _inside(tree, part)
    return found


def with_leaf(tree: Any, path: str, value: Any) -> Any:
    """A copy of the system with `value` at the path."""
    whole, index = _array_and_index(tree, path)
    if index:
        value = leaf_of(tree, whole).at[index].set(value)
    return eqx.tree_at(lambda t: leaf_of(t, whole), tree, value)


def _array_and_index(tree: Any, path: str) -> tuple[str, tuple[int, ...]]:
    """The path of the whole array that the path leads into, and the index of the part in it."""
    parts = path.split(".")
    for i, part in enumerate(parts):
        if eqx.is_array(tree):
            leaf_of(tree, ".".join(parts[i:]))  # raises for what is no index
            return ".".join(parts[:i]), tuple(map(int, parts[i:]))
        tree = _inside(tree, part)
    return path, ()


def leaf_paths(tree: Any) -> dict[str, Any]:
    """The floating-point arrays of a system or another pytree by their paths, which parameters accept."""
    found = tree_flatten_with_path(tree)[0]
    return {path_of(keys): leaf for keys, leaf in found if eqx.is_inexact_array(leaf)}
