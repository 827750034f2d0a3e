"""Many trees of one structure: arrays that differ among them, along a leading axis, and all else, which they share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Stacked(NamedTuple):
    """Many trees, such as the transcriptions of many searches.

    - `own`: the tree with the arrays that differ, each with a leading axis, and None for all other leaves.
    - `shared`: the tree with the other leaves, and None for those that differ.
    """

    own: Any
    shared: Any

    @classmethod
    def of_one(cls, tree: Any) -> "Stacked":
        """The same tree for all."""
        return cls(jax.tree.map(lambda _: None, tree), tree)

    @classmethod
    def of_rows(cls, rows: Any) -> "Stacked":
        """Trees whose arrays `rows` has along leading axes; arrays with equal rows are shared."""
        differs = jax.tree.map(_differs, rows)
        own, shared = eqx.partition(rows, differs)
        own = jax.tree.map(np.asarray, own)  # NumPy indexes faster
        return cls(own, jax.tree.map(lambda x: x[0] if eqx.is_array(x) else x, shared))

    def at(self, index: Any) -> Any:
        """The tree at an index."""
        own = jax.tree.map(jnp.asarray, self.rows(index).own)
        return eqx.combine(own, self.shared)

    def rows(self, index: Any) -> "Stacked":
        """The trees at several indices; with one index, a tree whose own arrays have no leading axis."""
        return Stacked(jax.tree.map(lambda x: x[index], self.own), self.shared)

    def mapped(self, function: Callable[..., Any], *others: Any) -> Any:
        """`function` of each tree and the rows of `others`, by `vmap`."""

        def one(own, *rest):
            return function(eqx.combine(own, self.shared), *rest)

        return jax.vmap(one)(self.own, *others)


def _differs(x: Any) -> bool:
    if not eqx.is_array(x):
        return False
    rows = np.asarray(x)
    return not np.array_equal(
        rows, np.broadcast_to(rows[:1], rows.shape), equal_nan=rows.dtype.kind == "f"
    )
