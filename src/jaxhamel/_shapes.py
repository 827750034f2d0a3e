"""Avoids repeated traces: `shapes_of` finds the shapes of a function's results, `Seen` remembers checked arguments."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxhamel._compiled import walk_of
from jaxhamel._content._memory import forgetting
from jaxhamel._content._walk import Walk, changed_by_tracing


def shapes_of(f: Callable) -> Callable:
    """`jax.eval_shape` of f, which traces f once for all arguments that differ only in the values of arrays:

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

    A kind is the structure of a pytree with the shapes and dtypes of its arrays, and the content of all other leaves.
    """

    def __init__(self, most: int = 4096):
        self.most, self.hashes = most, {}

    @contextmanager
    def once(self, *kind: Any, values: Any = None) -> Iterator[bool]:
        """A context for a check; its value is whether this kind of arguments is new, so that the check is needed.

        The kind is remembered unless the check raises. If the check changes the content of a function among the arguments
        (a counter of its traces), the kind with the new content is remembered, too.

        **Arguments:** `kind`: the arguments; `values`: arrays whose values also belong to the kind.
        """
        key, _ = _hash(kind, values)
        if key in self.hashes:
            yield False
            return
        self._add(key)
        with forgetting():
            before = walk_of(kind)
            try:
                yield True
            except BaseException:
                self.hashes.pop(key, None)
                raise
            after = walk_of(kind)
            if before is not None and after is not None:
                changed_by_tracing(before, after)
                self._add(_hash(kind, values)[0])

    def _add(self, key: int) -> None:
        if len(self.hashes) >= self.most:
            self.hashes.clear()
        self.hashes[key] = None


def _hash(kind: Any, values: Any) -> tuple[int, Walk | None]:
    leaves, structure = jax.tree.flatten(kind)
    bits = tuple(np.asarray(x).tobytes() for x in jax.tree.leaves(values))
    walk = walk_of(kind)
    content = None if walk is None or walk.has_tracer else walk.found
    kinds = tuple(_kind(x, content is not None) for x in leaves)
    return hash((structure, kinds, bits, content)), walk


def _kind(x: Any, has_content: bool):
    if hasattr(x, "dtype"):
        return x.shape, x.dtype
    if has_content and not isinstance(x, bool | int | float | complex | str):
        return type(x)  # `_hash` adds its content
    try:
        return type(x), hash(x)
    except TypeError:
        return type(x)


def _is_traced(x: Any) -> bool:
    return eqx.is_array(x) or isinstance(x, np.ndarray | np.generic)
