"""Direct products of configuration spaces: tuples of configurations, velocities side by side."""

from itertools import accumulate
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Velocity
from jaxhamel.geometry._checks import check_tuple
from jaxhamel.geometry._space import AbstractSpace


def _block_diagonal(blocks: list[Float[Array, "d d"]]) -> Float[Array, "n n"]:
    sizes = [block.shape[0] for block in blocks]
    ends = list(accumulate(sizes))
    padded = [
        jnp.pad(block, ((0, 0), (end - size, ends[-1] - end)))
        for block, size, end in zip(blocks, sizes, ends, strict=True)
    ]
    return jnp.concatenate(padded)


class Product(AbstractSpace):
    """Q_1 × Q_2 × …: q is the tuple of configurations, v `(dim,)` the velocities side by side.

    `Product(SO3(), Euclidean(3))` is the direct product of Müller (2021), whose translations do
    not turn with the body: its linear velocity is ṗ in space (the hybrid twist), where that of
    `SE3` is Rᵀ ṗ. Products nest.

    **Arguments:**

    - `*spaces`: at least one space.

    **Raises:** `TypeError` when one is not a space, `ValueError` when there is none.
    """

    spaces: tuple[AbstractSpace, ...]

    def __init__(self, *spaces: AbstractSpace):
        _check_spaces(spaces)
        self.spaces = spaces

    @property
    def dim(self) -> int:
        return sum(space.dim for space in self.spaces)

    def split(self, v: Velocity) -> tuple[Velocity, ...]:
        """The velocity of each factor, from `(dim,)`."""
        ends = accumulate(space.dim for space in self.spaces)
        pairs = zip(ends, self.spaces, strict=True)
        return tuple(v[end - space.dim : end] for end, space in pairs)

    def _each(self, operation: str, *operands: tuple[Any, ...]) -> list[Any]:
        rows = zip(self.spaces, *operands, strict=True)
        return [getattr(space, operation)(*row) for space, *row in rows]

    def identity(self, dtype: Any = None) -> Configuration:
        return tuple(space.identity(dtype) for space in self.spaces)

    def compose(self, q1: Configuration, q2: Configuration) -> Configuration:
        return tuple(self._each("compose", q1, q2))

    def inverse(self, q: Configuration) -> Configuration:
        return tuple(self._each("inverse", q))

    def exp(self, delta: Velocity) -> Configuration:
        return tuple(self._each("exp", self.split(delta)))

    def log(self, q: Configuration) -> Velocity:
        return jnp.concatenate(self._each("log", q))

    def Ad(self, q: Configuration) -> Float[Array, "n n"]:
        return _block_diagonal(self._each("Ad", q))

    def ad(self, delta: Velocity) -> Float[Array, "n n"]:
        return _block_diagonal(self._each("ad", self.split(delta)))

    def dexp(self, delta: Velocity) -> Float[Array, "n n"]:
        return _block_diagonal(self._each("dexp", self.split(delta)))

    def dexpinv(self, delta: Velocity) -> Float[Array, "n n"]:
        return _block_diagonal(self._each("dexpinv", self.split(delta)))

    def rate(self, q: Configuration, v: Velocity) -> Configuration:
        return tuple(self._each("rate", q, self.split(v)))

    def velocity(self, q: Configuration, qdot: Configuration) -> Velocity:
        return jnp.concatenate(self._each("velocity", q, qdot))

    def matrix(self, q: Configuration) -> Float[Array, "d d"]:
        """Block diagonal of the factors' matrices."""
        return _block_diagonal(self._each("matrix", q))

    @property
    def projects(self) -> bool:
        return all(space.projects for space in self.spaces)

    def normalise(self, q: Configuration) -> Configuration:
        return tuple(self._each("normalise", q))

    def check(self, q: Configuration, name: str = "q") -> None:
        check_tuple(name, q, len(self.spaces))
        for i, (space, part) in enumerate(zip(self.spaces, q, strict=True)):
            space.check(part, f"{name}[{i}]")


def _check_spaces(spaces: tuple) -> None:
    """Checks that the factors of a product are configuration spaces."""
    if not spaces:
        raise ValueError(
            "`Product` got no spaces; it takes one or more. Use Euclidean(0) for a single point."
        )
    for i, space in enumerate(spaces):
        if not isinstance(space, AbstractSpace):
            raise TypeError(
                f"`spaces[{i}]` of Product is {space!r}; it must be a configuration space. "
                "Write them as arguments, with parentheses: Product(SO3(), Euclidean(2))."
            )
