"""Converts a batch of pytrees or arrays to columns and back: one vector over the batch for each number of an entry."""

import math
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._tracing import is_described

# one array for each number: (B,) in lanes, () for a single trajectory
Columns = tuple[Float[Array, "*B"], ...]


class ColumnLayout(eqx.Module):
    """Structure, shapes and dtypes of one entry of a batch: the pytree of one trajectory."""

    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)
    dtypes: tuple[Any, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, batch: Any) -> "ColumnLayout":
        """The layout of one entry of a pytree of arrays `(B, …)` with a leading batch axis."""
        leaves, structure = jax.tree.flatten(batch)
        return cls(structure, tuple(x.shape[1:] for x in leaves), tuple(x.dtype for x in leaves))

    @property
    def size(self) -> int:
        """The number of columns."""
        return sum(map(math.prod, self.shapes))

    def columns(self, batch: Any) -> Columns:
        """Splits arrays `(B, …)` into vectors `(B,)`, one for each number of an entry."""
        flat = (jnp.reshape(x, (len(x), math.prod(x.shape[1:]))) for x in jax.tree.leaves(batch))
        return tuple(x[:, i] for x in flat for i in range(x.shape[1]))

    def numbers(self, entry: Any) -> tuple[Array, ...]:
        """The numbers of one entry, in the order of `columns`."""
        return tuple(number for x in jax.tree.leaves(entry) for number in jnp.ravel(x))

    def entries(self, columns: Iterable[Array]) -> Any:
        """Assembles columns, all of shape `(*B,)`, into a pytree of arrays `(*B, …)`; scalars give a single entry."""
        columns = list(columns)
        rest, like = iter(columns), columns[:1]
        leaves = [
            _assembled([next(rest) for _ in range(math.prod(shape))], shape, dtype, like)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]
        return jax.tree.unflatten(self.structure, leaves)


def _assembled(columns: list[Array], shape: tuple[int, ...], dtype, like: list[Array]) -> Array:
    """Assembles one leaf; a leaf without numbers (the masses of a ball without masses) gets the batch axes of `like`."""
    if not columns:
        return jnp.zeros((*(like[0].shape if like else ()), *shape), dtype)
    joined = jnp.stack(columns, axis=-1)
    return jnp.reshape(joined, (*joined.shape[:-1], *shape))


# Pads columns with a few lanes, so that they do not compete for the same sets of the cache.
#
# The first-level cache of current processors has 64 sets of lines of 64 bytes; an address belongs to set ⌊address / 64⌋ mod
# 64. XLA places the columns of a program one after the other. Columns of 1,024 doubles thus all begin in the same set, which
# holds eight or twelve lines, so that a loop over forty columns misses the cache every time. With an odd number of lines
# in a column they begin in different sets. The padding repeats the last trajectory and is cut off from the results.
# Timings: docs/performance.md#spread-columns.


LINE, SETS = 64, 64

# Columns are padded if they begin in fewer than `_FEWEST_SETS` sets of the cache, unless they have fewer than
# `_FEWEST_LANES` lanes: then the padding would be a large part of the work.
_FEWEST_SETS, _FEWEST_LANES = 8, 256


def lanes_for(size: int, itemsize: int) -> int:
    """The number of lanes with padding: `size` if no padding is needed, otherwise that of an odd number of cache lines."""
    lines = -(-size * itemsize // LINE)
    if size < _FEWEST_LANES or SETS // math.gcd(lines, SETS) >= _FEWEST_SETS:
        return size
    return (lines + 1) * LINE // itemsize


def spare_lanes(columns: Columns) -> int:
    """The number of lanes to add; 0 with several devices, because the axis may be sharded."""
    size = len(columns[0])
    more = lanes_for(size, columns[0].dtype.itemsize) - size
    return 0 if jax.device_count() > 1 or is_described() else more


def widened(columns: Columns, more: int) -> Columns:
    """The columns with `more` lanes, which repeat the last one."""
    return tuple(_widened(x, more) for x in columns)


def _widened(x: Float[Array, " B"], more: int) -> Array:
    last = jax.lax.stop_gradient(x[-1:])
    return jnp.concatenate([x, jnp.broadcast_to(last, (more,))])


def entries_of_array(batched: bool, value) -> list:
    """The entries of an array: (B,) vectors if it has a leading axis of lanes, otherwise scalars."""
    if not batched:
        return list(jnp.ravel(value)) if np.ndim(value) else [value]
    flat = jnp.reshape(value, (value.shape[0], math.prod(value.shape[1:])))
    return [flat[:, i] for i in range(flat.shape[1])]


def array_of_entries(entries: list, aval, size: int):
    """One array with a leading axis of lanes, of (B,) vectors."""
    if not entries:
        return jnp.zeros((size, *aval.shape), aval.dtype)
    columns = [jnp.broadcast_to(jnp.asarray(x, aval.dtype), (size,)) for x in entries]
    return jnp.reshape(jnp.stack(columns, axis=1), (size, *aval.shape))
