"""Rotations of space SO(3), by unit quaternions; log and exp with derivatives of every order."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Quaternion, Vector3, Velocity
from jaxhamel.geometry import _quaternion as quat
from jaxhamel.geometry._checks import check_coordinates, check_unit_quaternion
from jaxhamel.geometry._dexp import cubic_dexp, cubic_dexpinv, inverse_coefficient
from jaxhamel.geometry._entire import entire
from jaxhamel.geometry._space import AbstractSpace


def exp_quaternion(phi: Vector3) -> Quaternion:
    """(C_0(θ²/4), ½ C_1(θ²/4) φ), θ = |φ|: unit to rounding without normalisation."""
    x = jnp.sum(phi * phi) / 4
    return quat.quaternion(entire(0, x), entire(1, x) / 2 * phi)


@jax.custom_jvp
def log_quaternion(q: Quaternion) -> Vector3:
    """φ = 2 atan2(|u|, w) u/|u|, u the vector part, of q or −q, whichever has w ≥ 0: |φ| ≤ π.

    Homogeneous of degree 0 in q, so that d log(q) = dexp(−φ)⁻¹ Ω with Ω = 2 Im(q* dq)/|q|² for
    every dq. With this derivative rule derivatives of every order are accurate as |u| → 0, where
    those of atan2(|u|, w)/|u| are not.
    """
    q = jnp.where(q[0] < 0, -q, q)
    return _angle_over_sine(q[0], jnp.sum(q[1:] * q[1:])) * q[1:]


@log_quaternion.defjvp
def _log_quaternion_jvp(primals, tangents):
    (q,), (dq,) = primals, tangents
    phi = log_quaternion(q)
    return phi, dexpinv_apply(-phi, quat.quaternion_velocity(q, dq))


def _angle_over_sine(w, s):
    """2 atan2(√s, w)/√s for w ≥ 0; for small s its series, which is equal to rounding (√s may underflow).

    The series also has the right derivative: JAX's reverse mode of a loop ignores the derivative rule of `log_quaternion`
    and differentiates this function.
    """
    near = s < w * w * jnp.finfo(w.dtype).eps
    norm, positive = jnp.sqrt(jnp.where(near, 1, s)), jnp.where(near, w, 1)
    series = 2 / positive * (1 - jnp.where(near, s, 0) / (3 * positive * positive))
    return jnp.where(near, series, 2 * jnp.atan2(norm, w) / norm)


def dexp_apply(phi: Vector3, a: Vector3) -> Vector3:
    """dexp_φ a = a + C_2 φ × a + C_3 φ × (φ × a)."""
    x, once = jnp.sum(phi * phi), quat.cross(phi, a)
    return a + entire(2, x) * once + entire(3, x) * quat.cross(phi, once)


def dexpinv_apply(phi: Vector3, a: Vector3) -> Vector3:
    """dexp_φ⁻¹ a = a − ½ φ × a + f φ × (φ × a)."""
    x, once = jnp.sum(phi * phi), quat.cross(phi, a)
    return a - once / 2 + inverse_coefficient(x) * quat.cross(phi, once)


def dexp_matrix(phi: Vector3) -> Float[Array, "3 3"]:
    """dexp on SO(3), `(3, 3)`."""
    return cubic_dexp(quat.hat(phi), jnp.sum(phi * phi))


def dexpinv_matrix(phi: Vector3) -> Float[Array, "3 3"]:
    """dexp⁻¹ on SO(3), `(3, 3)`."""
    return cubic_dexpinv(quat.hat(phi), jnp.sum(phi * phi))


class SO3(AbstractSpace):
    """SO(3): q `(4,)` a unit quaternion (w, x, y, z), body to space; v `(3,)` body Ω, rad/s.

    R' = R hat(Ω), c^k_ij = ε_kij. q and −q are the same rotation; `log` takes the shorter one.
    """

    @property
    def dim(self) -> int:
        return 3

    def identity(self, dtype: Any = None) -> Quaternion:
        return jnp.asarray(np.array([1.0, 0.0, 0.0, 0.0]), dtype)

    def compose(self, q1: Quaternion, q2: Quaternion) -> Quaternion:
        return quat.quaternion_multiply(q1, q2)

    def inverse(self, q: Quaternion) -> Quaternion:
        return quat.quaternion_conjugate(q)

    def exp(self, delta: Velocity) -> Quaternion:
        return exp_quaternion(delta)

    def log(self, q: Quaternion) -> Velocity:
        return log_quaternion(q)

    def Ad(self, q: Quaternion) -> Float[Array, "3 3"]:
        return quat.quaternion_matrix(q)

    def ad(self, delta: Velocity) -> Float[Array, "3 3"]:
        return quat.hat(delta)

    def dexp(self, delta: Velocity) -> Float[Array, "3 3"]:
        return dexp_matrix(delta)

    def dexpinv(self, delta: Velocity) -> Float[Array, "3 3"]:
        return dexpinv_matrix(delta)

    def rate(self, q: Quaternion, v: Velocity) -> Quaternion:
        return quat.quaternion_rate(q, v)

    def velocity(self, q: Quaternion, qdot: Quaternion) -> Velocity:
        return quat.quaternion_velocity(q, qdot)

    def matrix(self, q: Quaternion) -> Float[Array, "3 3"]:
        """R(q), `(3, 3)`, body to space."""
        return quat.quaternion_matrix(q)

    @property
    def projects(self) -> bool:
        return True

    def normalise(self, q: Quaternion) -> Quaternion:
        return quat.quaternion_normalise(q)

    def check(self, q: Quaternion, name: str = "q") -> None:
        check_coordinates(name, q, (4,), "a unit quaternion (w, x, y, z) of SO3")
        check_unit_quaternion(name, q)
