"""The linear equations of a Whipple bicycle about riding straight on."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.mechanics import Constant, acceleration, inverse


class CanonicalMatrices(NamedTuple):
    """M q̈ + v C_1 q̇ + (g K_0 + v² K_2) q = (T_φ, T_δ), q = (φ, δ), each `(2, 2)`."""

    mass: Float[Array, "2 2"]
    damping: Float[Array, "2 2"]
    gravity_stiffness: Float[Array, "2 2"]
    speed_stiffness: Float[Array, "2 2"]


def canonical_matrices(bicycle: Any) -> CanonicalMatrices:
    """M, C_1, K_0, K_2 of the linear equations about riding straight on, by derivatives of the nonlinear equations.

    Source: Meijaard et al. 2007, eq. (5.3).
    """

    def rates(x, speed):
        q = bicycle.configuration(x[0], x[1])
        u = jnp.stack([x[2], x[3], speed / bicycle.rear_radius])
        control = Constant(jnp.concatenate([x[4:], jnp.zeros_like(x[:1])]))
        return acceleration(bicycle, 0.0, q, u, control)[:2]

    # the derivatives of q̈ by (φ, δ, φ̇, δ̇, T_φ, T_δ), at rest and at 1 m/s
    speeds = jnp.stack([jnp.zeros_like(bicycle.gravity), jnp.ones_like(bicycle.gravity)])
    at_rest, moving = jax.vmap(jax.jacfwd(rates), in_axes=(None, 0))(
        jnp.zeros(6, speeds.dtype), speeds
    )
    mass = inverse(at_rest[:, 4:])
    stiffness = -mass @ at_rest[:, :2]
    return CanonicalMatrices(
        mass,
        -mass @ moving[:, 2:4],
        stiffness / bicycle.gravity,
        -mass @ moving[:, :2] - stiffness,
    )
