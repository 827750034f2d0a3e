"""A function of one lane in two forms: a scalar `Routine` for the GPU kernel, and a traced function for XLA.

Arrays that the function captures, which all lanes share, become explicit inputs.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun

from jaxhamel._lanes._divided._jaxprs import traced_constants_first
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import scalarise
from jaxhamel.ensemble._gpu_kernel._kernel_program import Routine


class KernelLane(NamedTuple):
    """A function of one lane, called as `function(*shared, *arguments)`, and the same function as a routine on scalars."""

    function: Callable
    routine: Routine
    shared: list

    @classmethod
    def of(cls, function: Callable, *arguments: Any, varying: tuple[bool, ...]) -> "KernelLane":
        """Both forms of a function of tuples of columns; `varying` marks the arguments that differ from lane to lane.

        **Raises:** `Unsupported`, naming an operation that a kernel cannot do.
        """
        one = jax.tree.map(lambda x: jax.ShapeDtypeStruct((), x.dtype), arguments)
        closed, traced = traced_constants_first(jax.make_jaxpr(function)(*one))
        each = [len(jax.tree.leaves(argument)) for argument in arguments]
        batched = [False] * len(traced)
        for varies, count in zip(varying, each, strict=True):
            batched += [varies] * count
        return cls(jaxpr_as_fun(closed), Routine.of(scalarise(closed, batched)), traced)

    @property
    def numbers_shared(self) -> int:
        """Number of scalars in the shared inputs."""
        return sum(x.size for x in self.shared)

    def __call__(self, *arguments) -> tuple:
        """Evaluates the function on numbers, by XLA."""
        return tuple(self.function(*self.shared, *jax.tree.leaves(arguments)))


class Packed(NamedTuple):
    """Entries of several dtypes: one array for each dtype, and the position (array, row) of each entry."""

    arrays: list
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, groups: Sequence) -> "Packed":
        """Packs the rows of several arrays, by dtype."""
        if any(x.dtype == np.bool_ for x in groups):
            raise Unsupported("parameters that are true or false")
        kinds: dict[Any, list] = {x.dtype: [] for x in groups}
        order, places = list(kinds), []
        for x in groups:
            which, rows = order.index(x.dtype), kinds[x.dtype]
            start = sum(map(len, rows))
            places += [(which, start + i) for i in range(len(x))]
            rows.append(x)
        return cls([jnp.concatenate(rows) for rows in kinds.values()], places)

    @classmethod
    def vectors(cls, arrays: Sequence) -> "Packed":
        """Packs all entries of several arrays, in order."""
        return cls.of([jnp.ravel(x) for x in arrays])

    @classmethod
    def rows(cls, columns: Sequence) -> "Packed":
        """Packs columns `(B,)` as rows of `(rows, B)`."""
        return cls.of([x[None] for x in columns])
