"""The inputs with respect to which a motion is differentiated, and operations on lists of numbers."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._derivatives._active_inputs import with_entries


class Parameters(NamedTuple):
    """Indices of the per-trajectory numbers and of the shared arrays with respect to which a motion is differentiated.

    `summed`: whether cotangents are kept as (columns of per-trajectory numbers, arrays summed over the lanes), in place of
    a column for each number.
    """

    mine: list[int]
    shared: list[int]
    summed: bool = False

    def of(self, mine, shared) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The values of the differentiated inputs."""
        arrays = jax.tree.leaves(shared)
        return tuple(mine[i] for i in self.mine), tuple(arrays[i] for i in self.shared)

    def inserted(self, values, mine, shared):
        """The inputs (mine, shared), with the differentiated ones replaced by `values`."""
        arrays, structure = jax.tree.flatten(shared)
        mine = tuple(with_entries(mine, self.mine, values[0]))
        return mine, jax.tree.unflatten(structure, with_entries(arrays, self.shared, values[1]))

    def zeros(self, like: Array, shared) -> Any:
        """Cotangents of zero, in columns with the shape of `like` and, if `summed`, arrays."""
        arrays = jax.tree.leaves(shared)
        if self.summed:
            columns = (jnp.zeros_like(like),) * len(self.mine)
            return columns, tuple(jnp.zeros_like(arrays[i]) for i in self.shared)
        many = len(self.mine) + sum(arrays[i].size for i in self.shared)
        return (jnp.zeros_like(like),) * many

    def arrays(self, found: Any, shared) -> list[Array]:
        """The cotangents of the differentiated inputs as arrays; those of shared inputs are summed over the lanes."""
        if self.summed:
            return [*found[0], *found[1]]
        columns, arrays = list(found[: len(self.mine)]), jax.tree.leaves(shared)
        rest = iter(found[len(self.mine) :])
        for i in self.shared:
            sums = [jnp.sum(next(rest)) for _ in range(arrays[i].size)]
            columns.append(jnp.reshape(jnp.stack(sums), arrays[i].shape).astype(arrays[i].dtype))
        return columns


def numbers(tree: Any) -> list[Any]:
    """All numbers of a pytree, one by one."""
    return [number for x in jax.tree.leaves(tree) for number in jnp.ravel(x)]


def added(xs: Iterable[Any], ys: Iterable[Any]) -> tuple[Any, ...]:
    """The sums x + y of corresponding entries."""
    return tuple(x + y for x, y in zip(xs, ys, strict=True))
