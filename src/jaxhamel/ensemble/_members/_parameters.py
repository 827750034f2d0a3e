"""The inputs with respect to which a motion is differentiated, and operations on lists of numbers."""

from collections.abc import Callable, Iterable, Sequence
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


# The most shared numbers whose cotangents are vectors over the lanes. With more of them f is transposed stage by stage, and
# the cotangents are summed over the lanes in each stage (docs/performance.md#networks-in-lanes).
MOST_VECTORS = 64


def has_many(parameters: Parameters, shared) -> bool:
    """Whether derivatives of the motion are asked for by more than `MOST_VECTORS` numbers that are the same in all lanes."""
    arrays = jax.tree.leaves(shared)
    return sum(arrays[i].size for i in parameters.shared) > MOST_VECTORS


class Joined(NamedTuple):
    """Shared inputs with the differentiated scalars as one array, so that these have one cotangent, not hundreds.

    - `shared`: that array, then all other inputs; `parameters`: those with respect to which a motion is differentiated.
    - `apart`: `shared` ↦ the inputs as they were before.
    - `places`: for each differentiated input before, its place among the cotangents of `parameters.shared`, and its place
      in that array, None if it is not in there.
    """

    shared: list[Array]
    parameters: Parameters
    apart: Callable[[Sequence[Array]], Any]
    places: Sequence[tuple[int, int | None]]

    @classmethod
    def of(cls, parameters: Parameters, shared) -> "Joined":
        """Joins the scalars of the dtype that the first of them has; cotangents are summed over the lanes."""
        leaves, structure = jax.tree.flatten(shared)
        scalars = [i for i in parameters.shared if not leaves[i].ndim]
        scalars = [i for i in scalars if leaves[i].dtype == leaves[scalars[0]].dtype]
        others = [i for i in range(len(leaves)) if i not in set(scalars)]
        array = jnp.stack([leaves[i] for i in scalars]) if scalars else jnp.zeros(0)

        def apart(joined):
            whole = with_entries(leaves, scalars, [joined[0][n] for n in range(len(scalars))])
            return jax.tree.unflatten(structure, with_entries(whole, others, joined[1:]))

        alone = [i for i in parameters.shared if i in set(others)]
        rank = {i: n for n, i in enumerate(scalars)}
        places = [
            (0, rank[i]) if i in rank else (1 + alone.index(i), None) for i in parameters.shared
        ]
        renumbered = parameters._replace(
            shared=[0, *(1 + others.index(i) for i in alone)], summed=True
        )
        return cls([array, *(leaves[i] for i in others)], renumbered, apart, places)

    def cotangents(self, found: Sequence[Array]) -> list[Array]:
        """The cotangents of the differentiated inputs before, from those of `parameters.shared`."""
        return [found[k] if n is None else found[k][n] for k, n in self.places]


def numbers(tree: Any) -> list[Any]:
    """All numbers of a pytree, one by one."""
    return [number for x in jax.tree.leaves(tree) for number in jnp.ravel(x)]


def added(xs: Iterable[Any], ys: Iterable[Any]) -> tuple[Any, ...]:
    """The sums x + y of corresponding entries."""
    return tuple(x + y for x, y in zip(xs, ys, strict=True))
