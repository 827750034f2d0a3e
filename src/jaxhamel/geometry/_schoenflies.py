"""The Schoenflies group X(z): translations of space and rotations about z, a SCARA robot's hand."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Velocity
from jaxhamel.geometry._checks import check_coordinates
from jaxhamel.geometry._dexp import cubic_dexp, cubic_dexpinv
from jaxhamel.geometry._se2 import SE2
from jaxhamel.geometry._so2 import plane_matrix
from jaxhamel.geometry._space import AbstractSpace

_PLANE = SE2()  # the group is SE(2) × R: its operations are those of SE(2), and additions for z


def _join(plane: Float[Array, " 3"], z: Float[Array, " 4"]) -> Float[Array, " 4"]:
    return jnp.concatenate([plane, z[3:]])


def _pad(matrix: Float[Array, "3 3"], corner: float) -> Float[Array, "4 4"]:
    return jnp.pad(matrix, (0, 1)).at[3, 3].set(corner)


class Schoenflies(AbstractSpace):
    """X(z) = SE(2) × R: q `(4,)` = (angle, x, y, z), rad and m; v `(4,)` = (ω, vx, vy, vz), body.

    Rotation is about z. The stored angle is never wrapped; `log` and `local` take the shortest
    rotation.
    """

    @property
    def dim(self) -> int:
        return 4

    def identity(self, dtype: Any = None) -> Float[Array, " 4"]:
        return jnp.zeros(4, dtype=dtype)

    def compose(self, q1: Float[Array, " 4"], q2: Float[Array, " 4"]) -> Float[Array, " 4"]:
        return _join(_PLANE.compose(q1[:3], q2[:3]), q1 + q2)

    def inverse(self, q: Float[Array, " 4"]) -> Float[Array, " 4"]:
        return _join(_PLANE.inverse(q[:3]), -q)

    def exp(self, delta: Velocity) -> Float[Array, " 4"]:
        return _join(_PLANE.exp(delta[:3]), delta)

    def log(self, q: Float[Array, " 4"]) -> Velocity:
        return _join(_PLANE.log(q[:3]), q)

    def Ad(self, q: Float[Array, " 4"]) -> Float[Array, "4 4"]:
        return _pad(_PLANE.Ad(q[:3]), 1)

    def ad(self, delta: Velocity) -> Float[Array, "4 4"]:
        return _pad(_PLANE.ad(delta[:3]), 0)

    def dexp(self, delta: Velocity) -> Float[Array, "4 4"]:
        return cubic_dexp(self.ad(delta), delta[0] * delta[0])

    def dexpinv(self, delta: Velocity) -> Float[Array, "4 4"]:
        return cubic_dexpinv(self.ad(delta), delta[0] * delta[0])

    def rate(self, q: Float[Array, " 4"], v: Velocity) -> Float[Array, " 4"]:
        return _join(_PLANE.rate(q[:3], v[:3]), v)

    def velocity(self, q: Float[Array, " 4"], qdot: Float[Array, " 4"]) -> Velocity:
        return _join(_PLANE.velocity(q[:3], qdot[:3]), qdot)

    def matrix(self, q: Float[Array, " 4"]) -> Float[Array, "4 4"]:
        """[[R_z, p], [0, 1]], `(4, 4)`."""
        pose = jnp.eye(4, dtype=q.dtype).at[:2, :2].set(plane_matrix(q[0]))
        return pose.at[:3, 3].set(q[1:])

    def normalise(self, q: Float[Array, " 4"]) -> Float[Array, " 4"]:
        return q

    def check(self, q: Float[Array, " 4"], name: str = "q") -> None:
        check_coordinates(name, q, (4,), "a pose (angle, x, y, z) of Schoenflies")
