"""The frame of systems whose angular momentum is zero: u = (ω + A(r) ṙ, ṙ)."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def with_connection(A: Float[Array, "3 2"]) -> Float[Array, "5 5"]:
    """[[1, A], [0, 1]]."""
    eye = lambda n: jnp.eye(n, dtype=A.dtype)  # noqa: E731
    return jnp.block([[eye(3), A], [jnp.zeros_like(A.T), eye(2)]])
