"""The vector space R^n, as a group under addition."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Velocity
from jaxhamel.geometry._checks import check_coordinates, check_dimension
from jaxhamel.geometry._space import AbstractAbelianSpace


class Euclidean(AbstractAbelianSpace):
    """R^n: q `(n,)`, v = q̇ `(n,)`. Generalised coordinates of any kind, in their own units.

    **Arguments:**

    - `n`: the dimension, an integer ≥ 0.

    **Raises:** `TypeError` or `ValueError` when `n` is not such an integer.
    """

    n: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        check_dimension("n", self.n)

    @property
    def dim(self) -> int:
        return self.n

    def log(self, q: Float[Array, " n"]) -> Velocity:
        return q

    def matrix(self, q: Float[Array, " n"]) -> Float[Array, "n+1 n+1"]:
        """[[1, q], [0, 1]], `(n + 1, n + 1)`."""
        return jnp.eye(self.n + 1, dtype=q.dtype).at[:-1, -1].set(q)

    def check(self, q: Float[Array, " n"], name: str = "q") -> None:
        check_coordinates(name, q, (self.n,), f"a point of Euclidean({self.n})")
