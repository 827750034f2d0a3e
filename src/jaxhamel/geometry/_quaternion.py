"""Unit quaternions, scalar first: (w, x, y, z) = (cos θ/2, n sin θ/2), R(q) a = q a q*."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Quaternion, Scalar, Vector3
from jaxhamel.geometry._checks import check_components


def cross(a: Vector3, b: Vector3) -> Vector3:
    """a × b, `(3,)`."""
    check_components("a", a, 3, "a vector")
    check_components("b", b, 3, "a vector")
    return jnp.stack(
        [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    )


def hat(a: Vector3) -> Float[Array, "3 3"]:
    """â with â b = a × b, `(3, 3)`."""
    check_components("a", a, 3, "a vector")
    zero = jnp.zeros_like(a[0])
    rows = ([zero, -a[2], a[1]], [a[2], zero, -a[0]], [-a[1], a[0], zero])
    return jnp.stack([jnp.stack(row) for row in rows])


def quaternion(w: Scalar, vector: Vector3) -> Quaternion:
    """(w, x, y, z) from the scalar and the vector part."""
    return jnp.concatenate([w[None], vector])


def quaternion_multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Hamilton's product p q: R(p q) = R(p) R(q)."""
    check_components("p", p, 4, "a quaternion (w, x, y, z)")
    check_components("q", q, 4, "a quaternion (w, x, y, z)")
    w, a, s, b = p[0], p[1:], q[0], q[1:]
    return quaternion(w * s - jnp.sum(a * b), w * b + s * a + cross(a, b))


def quaternion_conjugate(q: Quaternion) -> Quaternion:
    """q* = (w, −x, −y, −z), the inverse of a unit quaternion."""
    return quaternion(q[0], -q[1:])


def quaternion_rotate(q: Quaternion, a: Vector3) -> Vector3:
    """R(q) a = a + 2 w (u × a) + 2 u × (u × a), u the vector part: body to space components."""
    check_components("q", q, 4, "a unit quaternion (w, x, y, z)")
    check_components("a", a, 3, "a vector")
    twice = 2 * cross(q[1:], a)
    return a + q[0] * twice + cross(q[1:], twice)


def quaternion_matrix(q: Quaternion) -> Float[Array, "3 3"]:
    """R(q) `(3, 3)`, body to space, of a unit quaternion."""
    check_components("q", q, 4, "a unit quaternion (w, x, y, z)")
    w, x, y, z = q[0], q[1], q[2], q[3]
    rows = (
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    )
    return jnp.stack([jnp.stack(row) for row in rows])


def quaternion_normalise(q: Quaternion) -> Quaternion:
    """q / |q|."""
    return q / jnp.sqrt(jnp.sum(q * q))


def quaternion_rate(q: Quaternion, omega: Vector3) -> Quaternion:
    """q̇ = ½ q (0, Ω) at body angular velocity Ω = `omega` `(3,)` [rad/s] (Putkaradze and Rogers 2018, eq. D.21)."""
    return quaternion_multiply(q, quaternion(jnp.zeros_like(q[0]), omega)) / 2


def quaternion_velocity(q: Quaternion, qdot: Quaternion) -> Vector3:
    """Ω = 2 Im(q* q̇) / |q|², q̇ = `qdot` `(4,)` [1/s]: the left inverse of `quaternion_rate`; q̇ along q has no effect."""
    return 2 * quaternion_multiply(quaternion_conjugate(q), qdot)[1:] / jnp.sum(q * q)
