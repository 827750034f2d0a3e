"""Rigid motions of the plane SE(2)."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Velocity
from jaxhamel.geometry._checks import check_coordinates
from jaxhamel.geometry._dexp import cubic_dexp, cubic_dexpinv, half_cotangent
from jaxhamel.geometry._entire import entire
from jaxhamel.geometry._so2 import plane_matrix, quarter_turn, rotate_plane, turned, wrap
from jaxhamel.geometry._space import AbstractSpace


class SE2(AbstractSpace):
    """SE(2): q `(3,)` = (angle, x, y), rad and m; v `(3,)` = (ω, vx, vy), rad/s and m/s, body.

    The stored angle is never wrapped, so turns are counted; `log` and `local` take the shortest
    rotation.
    """

    @property
    def dim(self) -> int:
        return 3

    def identity(self, dtype: Any = None) -> Float[Array, " 3"]:
        return jnp.zeros(3, dtype=dtype)

    def compose(self, q1: Float[Array, " 3"], q2: Float[Array, " 3"]) -> Float[Array, " 3"]:
        return q1 + jnp.concatenate([q2[:1], rotate_plane(q1[0], q2[1:])])

    def inverse(self, q: Float[Array, " 3"]) -> Float[Array, " 3"]:
        return -jnp.concatenate([q[:1], rotate_plane(-q[0], q[1:])])

    def exp(self, delta: Velocity) -> Float[Array, " 3"]:
        """(ω, C_1 v + ω C_2 J v)."""
        omega, v = delta[0], delta[1:]
        x = omega * omega
        position = entire(1, x) * v + omega * entire(2, x) * quarter_turn(v)
        return jnp.concatenate([delta[:1], position])

    def log(self, q: Float[Array, " 3"]) -> Velocity:
        """(ω, (ω/2) cot(ω/2) p − (ω/2) J p), ω the wrapped angle."""
        omega, p = wrap(q[0]), q[1:]
        v = half_cotangent(omega * omega) * p - omega / 2 * quarter_turn(p)
        return jnp.concatenate([omega[None], v])

    def Ad(self, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        """[[1, 0], [−J p, R]]."""
        matrix = jnp.eye(3, dtype=q.dtype).at[1:, 0].set(-quarter_turn(q[1:]))
        return matrix.at[1:, 1:].set(plane_matrix(q[0]))

    def ad(self, delta: Velocity) -> Float[Array, "3 3"]:
        """[[0, 0], [−J v, ω J]]."""
        omega, vx, vy = jnp.unstack(delta)
        zero = jnp.zeros_like(omega)
        rows = ([zero, zero, zero], [vy, zero, -omega], [-vx, omega, zero])
        return jnp.stack([jnp.stack(row) for row in rows])

    def dexp(self, delta: Velocity) -> Float[Array, "3 3"]:
        return cubic_dexp(self.ad(delta), delta[0] * delta[0])

    def dexpinv(self, delta: Velocity) -> Float[Array, "3 3"]:
        return cubic_dexpinv(self.ad(delta), delta[0] * delta[0])

    def rate(self, q: Float[Array, " 3"], v: Velocity) -> Float[Array, " 3"]:
        omega, x, y = jnp.unstack(v)
        return jnp.stack([omega, *turned(jnp.unstack(q)[0], x, y)])

    def velocity(self, q: Float[Array, " 3"], qdot: Float[Array, " 3"]) -> Velocity:
        omega, x, y = jnp.unstack(qdot)
        return jnp.stack([omega, *turned(-jnp.unstack(q)[0], x, y)])

    def matrix(self, q: Float[Array, " 3"]) -> Float[Array, "3 3"]:
        """[[R, p], [0, 1]], `(3, 3)`."""
        pose = jnp.eye(3, dtype=q.dtype).at[:2, :2].set(plane_matrix(q[0]))
        return pose.at[:2, 2].set(q[1:])

    def normalise(self, q: Float[Array, " 3"]) -> Float[Array, " 3"]:
        return q

    def check(self, q: Float[Array, " 3"], name: str = "q") -> None:
        check_coordinates(name, q, (3,), "a pose (angle, x, y) of SE2")
