"""Converts a batch of pytrees to columns, one vector for each number of an entry, and back."""

import math
from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

# one array for each number: (B,) in lanes, () for a single trajectory
Columns = tuple[Float[Array, "*B"], ...]


class ColumnLayout(eqx.Module):
    """Structure and shapes of one entry of a batch."""

    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, batch: Any) -> "ColumnLayout":
        """The layout of arrays `(B, …)` with a leading batch axis."""
        leaves, structure = jax.tree.flatten(batch)
        return cls(structure, tuple(x.shape[1:] for x in leaves))

    def columns(self, batch: Any) -> Columns:
        """Arrays `(B, …)` as vectors `(B,)`, one for each number of an entry."""
        flat = (jnp.reshape(x, (len(x), math.prod(x.shape[1:]))) for x in jax.tree.leaves(batch))
        return tuple(x[:, i] for x in flat for i in range(x.shape[1]))

    def numbers(self, entry: Any) -> tuple[Array, ...]:
        """The numbers of one entry, in the order of `columns`."""
        return tuple(number for x in jax.tree.leaves(entry) for number in jnp.ravel(x))

    def entries(self, columns: Iterable[Array]) -> Any:
        """Assembles columns of a common shape into arrays with these leading axes; scalars give one entry."""
        columns = list(columns)
        rest, like = iter(columns), columns[:1]
        leaves = [
            _assembled([next(rest) for _ in range(math.prod(shape))], shape, like)
            for shape in self.shapes
        ]
        return jax.tree.unflatten(self.structure, leaves)


def _assembled(columns: list[Array], shape: tuple[int, ...], like: list[Array]) -> Array:
    """Assembles one leaf; a leaf without numbers (the masses of a ball without masses) gets the others' leading axes."""
    if not columns:
        return jnp.zeros((*(like[0].shape if like else ()), *shape))
    joined = jnp.stack(columns, axis=-1)
    return jnp.reshape(joined, (*joined.shape[:-1], *shape))
