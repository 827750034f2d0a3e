"""Rigid motions of space SE(3): SO(3) over the dual numbers."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Velocity
from jaxhamel.geometry import _quaternion as quat
from jaxhamel.geometry import _so3 as so3
from jaxhamel.geometry._checks import check_coordinates, check_unit_quaternion
from jaxhamel.geometry._space import AbstractSpace


def _dual_block(top: Float[Array, "3 3"], dual: Float[Array, "3 3"]) -> Float[Array, "6 6"]:
    """[[M, 0], [M', M]]: the matrix M + ε M' over the dual numbers, ε² = 0."""
    upper = jnp.concatenate([top, jnp.zeros_like(top)], axis=1)
    return jnp.concatenate([upper, jnp.concatenate([dual, top], axis=1)])


class SE3(AbstractSpace):
    """SE(3): q `(7,)` = (w, x, y, z, px, py, pz), quaternion and position (m) in space.

    v `(6,)` = (Ω, V), the body twist: Ω in rad/s, V = Rᵀ ṗ in m/s, angular first (Müller 2021;
    From 2012 and jaxlie put V first, see `linear_first`). SE(3) is SO(3) over the dual numbers
    φ + ε x with ε² = 0, where φ is a rotation and x a translation, so that

        dexp_(ω,v) = [[J, 0], [DJ(ω)[v], J]],   J = dexp of SO(3),

    and likewise for the inverse.
    """

    @property
    def dim(self) -> int:
        return 6

    def identity(self, dtype: Any = None) -> Float[Array, " 7"]:
        return jnp.zeros(7, dtype=dtype).at[0].set(1)

    def compose(self, q1: Float[Array, " 7"], q2: Float[Array, " 7"]) -> Float[Array, " 7"]:
        position = q1[4:] + quat.quaternion_rotate(q1[:4], q2[4:])
        return jnp.concatenate([quat.quaternion_multiply(q1[:4], q2[:4]), position])

    def inverse(self, q: Float[Array, " 7"]) -> Float[Array, " 7"]:
        back = quat.quaternion_conjugate(q[:4])
        return jnp.concatenate([back, -quat.quaternion_rotate(back, q[4:])])

    def exp(self, delta: Velocity) -> Float[Array, " 7"]:
        omega, v = delta[:3], delta[3:]
        return jnp.concatenate([so3.exp_quaternion(omega), so3.dexp_apply(omega, v)])

    def log(self, q: Float[Array, " 7"]) -> Velocity:
        omega = so3.log_quaternion(q[:4])
        return jnp.concatenate([omega, so3.dexpinv_apply(omega, q[4:])])

    def Ad(self, q: Float[Array, " 7"]) -> Float[Array, "6 6"]:
        """[[R, 0], [p̂ R, R]]."""
        R = quat.quaternion_matrix(q[:4])
        lever = jnp.stack([quat.cross(q[4:], R[:, i]) for i in range(3)], axis=1)
        return _dual_block(R, lever)

    def ad(self, delta: Velocity) -> Float[Array, "6 6"]:
        """[[ω̂, 0], [v̂, ω̂]]."""
        return _dual_block(quat.hat(delta[:3]), quat.hat(delta[3:]))

    def dexp(self, delta: Velocity) -> Float[Array, "6 6"]:
        return _dual_block(*jax.jvp(so3.dexp_matrix, (delta[:3],), (delta[3:],)))

    def dexpinv(self, delta: Velocity) -> Float[Array, "6 6"]:
        return _dual_block(*jax.jvp(so3.dexpinv_matrix, (delta[:3],), (delta[3:],)))

    def rate(self, q: Float[Array, " 7"], v: Velocity) -> Float[Array, " 7"]:
        linear = quat.quaternion_rotate(q[:4], v[3:])
        return jnp.concatenate([quat.quaternion_rate(q[:4], v[:3]), linear])

    def velocity(self, q: Float[Array, " 7"], qdot: Float[Array, " 7"]) -> Velocity:
        linear = quat.quaternion_rotate(quat.quaternion_conjugate(q[:4]), qdot[4:])
        return jnp.concatenate([quat.quaternion_velocity(q[:4], qdot[:4]), linear])

    def matrix(self, q: Float[Array, " 7"]) -> Float[Array, "4 4"]:
        """[[R, p], [0, 1]], `(4, 4)`."""
        pose = jnp.eye(4, dtype=q.dtype).at[:3, :3].set(quat.quaternion_matrix(q[:4]))
        return pose.at[:3, 3].set(q[4:])

    @property
    def projects(self) -> bool:
        return True

    def normalise(self, q: Float[Array, " 7"]) -> Float[Array, " 7"]:
        return jnp.concatenate([quat.quaternion_normalise(q[:4]), q[4:]])

    def check(self, q: Float[Array, " 7"], name: str = "q") -> None:
        check_coordinates(name, q, (7,), "a pose (w, x, y, z, px, py, pz) of SE3")
        check_unit_quaternion(name, q)
