"""Systems on SO(3) × R² with zero angular momentum, u = (ω + A(r) ṙ, ṙ), driven by forces on the shape r."""

from abc import abstractmethod
from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, Time, Velocity
from jaxhamel.geometry import SO3, Euclidean, Product
from jaxhamel.mechanics import System


class AbstractZeroMomentum(System):
    """Base class with the frame, whose first three rows are the constraint ω + A(r) ṙ = 0, and the force
    (0, 0, 0, control).
    """

    space: ClassVar[Product] = Product(SO3(), Euclidean(2))
    n_constraints = 3
    n_controls: ClassVar[int | None] = 2

    @abstractmethod
    def connection(self, r: Float[Array, " 2"]) -> Float[Array, "3 2"]:
        """A(r) of the constraint ω + A(r) ṙ = 0."""

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = (ω + A ṙ, ṙ)."""
        return _with_connection(self.connection(q[1]))

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        return _with_connection(-self.connection(q[1]))

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 5"]:
        """Q = (0, 0, 0, control): the control is dual to r."""
        given = jnp.zeros_like(v[3:]) if control is None else control
        return jnp.concatenate([jnp.zeros_like(v[:3]), given])


def _with_connection(A: Float[Array, "3 2"]) -> Float[Array, "5 5"]:
    """[[1, A], [0, 1]]."""

    def eye(n):
        return jnp.eye(n, dtype=A.dtype)

    return jnp.block([[eye(3), A], [jnp.zeros_like(A.T), eye(2)]])
