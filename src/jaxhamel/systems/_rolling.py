"""Functions for rolling balls: the slip of the contact point as one-forms, contact forces."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar, Vector3
from jaxhamel.geometry._surface import inverse_of_two


class Contact(NamedTuple):
    """A contact: `normal`, the normal force N [N], and `friction`, the friction coefficient needed to prevent slip.

    `friction` is +inf where N ≤ 0, so that `friction < mu` is False for a body that leaves the ground.
    """

    normal: Scalar
    friction: Scalar


def contact_of(force: Vector3) -> Contact:
    """N and the friction coefficient √(F₁² + F₂²)/N of a contact force (F₁, F₂, N) in the axes of the ground."""
    return Contact(force[2], friction_needed(force))


def friction_needed(force: Float[Array, "*batch 3"]) -> Float[Array, "*batch"]:
    """√(F₁² + F₂²)/N of contact forces (F₁, F₂, N) in the axes of the ground, those of space on the plane z = 0.

    The value is +inf where N ≤ 0; the derivative is 0 there and where F₁ = F₂ = 0.
    """
    normal, squared = force[..., 2], jnp.sum(force[..., :2] ** 2, axis=-1)
    slides, presses = squared > 0, normal > 0
    tangential = jnp.where(slides, jnp.sqrt(jnp.where(slides, squared, 1.0)), 0.0)
    return jnp.where(presses, tangential / jnp.where(presses, normal, 1.0), jnp.inf)


def rolling_frame(
    radius: Array, axes: Float[Array, "3 3"], advance: Float[Array, "2 2"] | None = None
) -> Float[Array, "5 5"]:
    """A of u = (E ẋ + r (−Ω·t₂, Ω·t₁), Ω) on v = (Ω, ẋ): the slip of the contact point along t₁ and t₂, then Ω.

    **Arguments:** `radius`: r. `axes`: the rows t₁, t₂ and the normal of the ground in body axes, on the plane z = 0 the
    ball's rotation matrix. `advance`: E, as in `AbstractBallOnGround`; None for the identity.
    """
    first, second, _ = jnp.unstack(axes)
    slip = radius * jnp.stack([-second, first])
    eye, zero = jnp.eye(3, dtype=slip.dtype), jnp.zeros((3, 2), slip.dtype)
    return jnp.block([[slip, eye[:2, :2] if advance is None else advance], [eye, zero]])


def rolling_inverse_frame(
    radius: Array, axes: Float[Array, "3 3"], advance: Float[Array, "2 2"] | None = None
) -> Float[Array, "5 5"]:
    """B = A⁻¹ of `rolling_frame`."""
    first, second, _ = jnp.unstack(axes)
    roll = radius * jnp.stack([second, -first])
    eye, zero = jnp.eye(3, dtype=roll.dtype), jnp.zeros((3, 2), roll.dtype)
    if advance is None:
        return jnp.block([[zero, eye], [eye[:2, :2], roll]])
    inverse = inverse_of_two(advance)
    return jnp.block([[zero, eye], [inverse, inverse @ roll]])


def horizontal(x: Float[Array, " 2"]) -> Float[Array, " 3"]:
    """(x, y, 0)."""
    return jnp.concatenate([x, jnp.zeros(1, x.dtype)])


def quarter(x: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """e_3 × x = (−y, x)."""
    return jnp.stack([-x[1], x[0]])
