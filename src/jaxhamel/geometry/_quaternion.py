"""Unit quaternions, scalar first: (w, x, y, z) = (cos θ/2, n sin θ/2), R(q) a = q a q*.

Components are taken by `jnp.unstack`, which is one operation, and so is its transpose; `a[0]` would be two operations, and
four in reverse mode (docs/performance.md#time-of-the-tests).
"""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Quaternion, Scalar, Vector3
from jaxhamel.geometry._checks import check_components

Components = Sequence[Scalar]


def cross(a: Vector3, b: Vector3) -> Vector3:
    """a × b, `(3,)`."""
    check_components("a", a, 3, "a vector")
    check_components("b", b, 3, "a vector")
    return jnp.stack(_cross(jnp.unstack(jnp.asarray(a)), jnp.unstack(jnp.asarray(b))))


def _cross(a: Components, b: Components) -> Components:
    """The components of a × b, from those of a and b."""
    (a1, a2, a3), (b1, b2, b3) = a, b
    return a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1


def hat(a: Vector3) -> Float[Array, "3 3"]:
    """â with â b = a × b, `(3, 3)`."""
    check_components("a", a, 3, "a vector")
    x, y, z = jnp.unstack(jnp.asarray(a))
    zero = jnp.zeros_like(x)
    rows = ([zero, -z, y], [z, zero, -x], [-y, x, zero])
    return jnp.stack([jnp.stack(row) for row in rows])


def quaternion(w: Scalar, vector: Vector3) -> Quaternion:
    """(w, x, y, z) from the scalar and the vector part."""
    return jnp.concatenate([w[None], vector])


def quaternion_multiply(p: Quaternion, q: Quaternion) -> Quaternion:
    """Hamilton's product p q: R(p q) = R(p) R(q)."""
    check_components("p", p, 4, "a quaternion (w, x, y, z)")
    check_components("q", q, 4, "a quaternion (w, x, y, z)")
    (w, *a), (s, *b) = jnp.unstack(p), jnp.unstack(q)
    dot = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    turned = zip(a, b, _cross(a, b), strict=True)
    return jnp.stack([w * s - dot, *(w * bi + s * ai + ci for ai, bi, ci in turned)])


def quaternion_conjugate(q: Quaternion) -> Quaternion:
    """q* = (w, −x, −y, −z), the inverse of a unit quaternion."""
    return quaternion(q[0], -q[1:])


def quaternion_rotate(q: Quaternion, a: Vector3) -> Vector3:
    """R(q) a = a + 2 w (u × a) + 2 u × (u × a), u the vector part: body to space components."""
    check_components("q", q, 4, "a unit quaternion (w, x, y, z)")
    check_components("a", a, 3, "a vector")
    w, *u = jnp.unstack(q)
    twice = [2 * x for x in _cross(u, jnp.unstack(a))]
    return a + jnp.stack([w * x + y for x, y in zip(twice, _cross(u, twice), strict=True)])


def quaternion_matrix(q: Quaternion) -> Float[Array, "3 3"]:
    """R(q) `(3, 3)`, body to space, of a unit quaternion."""
    check_components("q", q, 4, "a unit quaternion (w, x, y, z)")
    w, x, y, z = jnp.unstack(q)
    # each product is computed once, which halves the operations, also those of derivatives
    x2, y2, z2 = 2 * x, 2 * y, 2 * z
    xx, yy, zz, xy, xz, yz = x * x2, y * y2, z * z2, x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    rows = (
        [1 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1 - (xx + yy)],
    )
    return jnp.stack([jnp.stack(row) for row in rows])


def quaternion_normalise(q: Quaternion) -> Quaternion:
    """q / |q|."""
    return q / jnp.sqrt(jnp.sum(q * q))


def quaternion_rate(q: Quaternion, omega: Vector3) -> Quaternion:
    """q̇ = ½ q (0, Ω) at body angular velocity Ω = `omega` `(3,)` [rad/s] (Putkaradze and Rogers 2018, eq. D.21)."""
    check_components("q", q, 4, "a quaternion (w, x, y, z)")
    check_components("omega", omega, 3, "an angular velocity")
    (w, *u), b = jnp.unstack(q), jnp.unstack(omega)
    dot = u[0] * b[0] + u[1] * b[1] + u[2] * b[2]
    turned = zip(b, _cross(u, b), strict=True)
    return jnp.stack([-dot, *(w * bi + ci for bi, ci in turned)]) / 2


def quaternion_velocity(q: Quaternion, qdot: Quaternion) -> Vector3:
    """Ω = 2 Im(q* q̇) / |q|², q̇ = `qdot` `(4,)` [1/s]: the left inverse of `quaternion_rate`; q̇ along q has no effect."""
    return 2 * quaternion_multiply(quaternion_conjugate(q), qdot)[1:] / jnp.sum(q * q)
