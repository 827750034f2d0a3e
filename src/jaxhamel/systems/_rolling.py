"""Functions for balls that roll on the plane z = 0: the slip of the contact point as one-forms, contact forces."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Quaternion, Scalar, Vector3
from jaxhamel.geometry import quaternion_matrix


class Contact(NamedTuple):
    """A contact: `normal`, the normal force N [N], and `friction`, the friction coefficient needed to prevent slip.

    `friction` is +inf where N ≤ 0, so that `friction < mu` is False for a body that leaves the ground.
    """

    normal: Scalar
    friction: Scalar


def contact_of(force: Vector3) -> Contact:
    """N = F_c·e₃ and the friction coefficient |F_c − N e₃| / N of a contact force F_c in space axes."""
    return Contact(force[2], friction_needed(force))


def friction_needed(force: Float[Array, "*batch 3"]) -> Float[Array, "*batch"]:
    """|F_c − N e₃| / N of contact forces in space, N = F_c·e₃; +inf where N ≤ 0, derivative 0 there and where F_c = N e₃."""
    normal, squared = force[..., 2], jnp.sum(force[..., :2] ** 2, axis=-1)
    slides, presses = squared > 0, normal > 0
    tangential = jnp.where(slides, jnp.sqrt(jnp.where(slides, squared, 1.0)), 0.0)
    return jnp.where(presses, tangential / jnp.where(presses, normal, 1.0), jnp.inf)


def rolling_frame(radius: Array, q: Quaternion) -> Float[Array, "5 5"]:
    """A of u = (ẋ − r ω_y, ẏ + r ω_x, Ω), ω = Λ Ω, on v = (Ω, ẋ, ẏ): the slip, then Ω."""
    x, y, _ = jnp.unstack(quaternion_matrix(q))
    slip = radius * jnp.stack([-y, x])
    eye, zero = jnp.eye(3, dtype=slip.dtype), jnp.zeros((3, 2), slip.dtype)
    return jnp.block([[slip, eye[:2, :2]], [eye, zero]])


def rolling_inverse_frame(radius: Array, q: Quaternion) -> Float[Array, "5 5"]:
    """B = A⁻¹ of `rolling_frame`."""
    x, y, _ = jnp.unstack(quaternion_matrix(q))
    roll = radius * jnp.stack([y, -x])
    eye, zero = jnp.eye(3, dtype=roll.dtype), jnp.zeros((3, 2), roll.dtype)
    return jnp.block([[zero, eye], [eye[:2, :2], roll]])


def horizontal(x: Float[Array, " 2"]) -> Float[Array, " 3"]:
    """(x, y, 0)."""
    return jnp.concatenate([x, jnp.zeros(1, x.dtype)])


def quarter(x: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """e_3 × x = (−y, x)."""
    return jnp.stack([-x[1], x[0]])
