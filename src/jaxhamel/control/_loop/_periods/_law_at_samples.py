"""A law that is a table over time, looked up at all samples of an ensemble's motion ahead of its blocks of lanes.

The law at one time consists of many numbers: a reference, and gains. Within a block XLA would interpolate and read each of
them by a kernel of its own in each period; here one kernel reads a row of numbers (docs/performance.md#closed-loops).
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._checks._dependence import dependent_results
from jaxhamel._lanes._columns import ColumnLayout, Columns
from jaxhamel._lanes._divided._array_equations import LEAST_SHARED
from jaxhamel._lanes._xla_cpu._loop_fusion import separated


class LawLayout(eqx.Module):
    """The way to put a law together from its arrays at one time; holds the arrays that are the same at all times.

    - `rows`: the layout of the small arrays that change with time; `constant`: the arrays that do not change.
    - `places`: for each array of the law, the list that it is taken from: 0 for small arrays, 1 for other arrays that change
      with time, 2 for `constant`. `structure`: the pytree of all arrays; `others`: the leaves that are no arrays.
    """

    rows: ColumnLayout
    constant: list[Array]
    others: Any
    places: tuple[int, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    def law(self, small: list[Array], large: list[Array]) -> Any:
        """The law with these small and large arrays."""
        lists = iter(small), iter(large), iter(self.constant)
        leaves = [next(lists[place]) for place in self.places]
        return eqx.combine(jax.tree.unflatten(self.structure, leaves), self.others)


class LawAtSample(eqx.Module):
    """The law at one sample. `numbers`: those of its small arrays, `()` each; `large`: the other arrays that change."""

    layout: LawLayout
    numbers: Columns
    large: list[Array]

    def law(self) -> Any:
        return self.layout.law(self.layout.rows.entries(self.numbers), self.large)


class LawAtSamples(eqx.Module):
    """The law at all samples. `numbers`: those of its small arrays, `(K, n)`; `large`: others that change, `(K, …)`."""

    layout: LawLayout
    numbers: Array
    large: list[Array]

    @classmethod
    def of(cls, law_at: Callable[[Array], Any], times: Array) -> "LawAtSamples":
        """Looks the law up: `law_at` is a function of one of the `times`, `(K,)`."""

        def arrays_at(t):
            return jax.tree.leaves(eqx.filter(law_at(t), eqx.is_array))

        arrays, others = eqx.partition(law_at(times[0]), eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        pairs = zip(leaves, dependent_results(arrays_at, times[0]), strict=True)
        places = tuple(_place(x, times.dtype) if changes else 2 for x, changes in pairs)

        def chosen(leaves, place):
            return [x for x, own in zip(leaves, places, strict=True) if own == place]

        small, large = jax.vmap(lambda t: [chosen(arrays_at(t), i) for i in (0, 1)])(times)
        layout = LawLayout(ColumnLayout.of(small), chosen(leaves, 2), others, places, structure)
        flat = [jnp.reshape(x, (len(times), -1)) for x in small]
        return cls(layout, jnp.concatenate(flat, axis=1) if flat else times[:, None][:, :0], large)

    def at_sample(self, row: tuple[Array, list[Array]]) -> LawAtSample:
        """The law at one sample, from its `row` (numbers, large) of the arrays."""
        numbers, large = row
        found = separated(numbers[:, None]) if len(numbers) else []
        return LawAtSample(self.layout, tuple(jnp.reshape(x, ()) for x in found), large)


def _place(x: Array, dtype) -> int:
    """The list of an array that changes with time: 1 if it stays an array in lanes, or is of another dtype."""
    return int(x.size >= LEAST_SHARED or x.dtype != dtype)
