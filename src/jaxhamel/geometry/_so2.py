"""Rotations of the plane SO(2), and the plane operations shared with SE(2) and Schoenflies."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar, Velocity
from jaxhamel.geometry._checks import check_coordinates
from jaxhamel.geometry._space import AbstractAbelianSpace


def wrap(angle: Scalar) -> Scalar:
    """The angle modulo 2π, in (−π, π]; its derivative is exactly 1 except at the cut.

    An angle inside this interval is returned unchanged to the last bit; `atan2(sin, cos)` would
    round it and its derivatives.
    """
    return angle - 2 * math.pi * jnp.ceil((angle - math.pi) / (2 * math.pi))


def rotate_plane(angle: Scalar, v: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """R(angle) v, `(2,)`."""
    return jnp.stack(turned(angle, *jnp.unstack(v)))


def turned(angle: Scalar, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """The two components of R(angle) (x, y)."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return c * x - s * y, s * x + c * y


def quarter_turn(v: Float[Array, " 2"]) -> Float[Array, " 2"]:
    """J v = (−v_y, v_x)."""
    x, y = jnp.unstack(v)
    return jnp.stack([-y, x])


def plane_matrix(angle: Scalar) -> Float[Array, "2 2"]:
    """R(angle) = [[cos, −sin], [sin, cos]]."""
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([jnp.stack([c, -s]), jnp.stack([s, c])])


class SO2(AbstractAbelianSpace):
    """SO(2): q `(1,)` the angle (rad), v `(1,)` the angular velocity (rad/s).

    The stored angle is never wrapped, so turns are counted; `log` and `local` return the
    shortest rotation, in (−π, π].
    """

    @property
    def dim(self) -> int:
        return 1

    def log(self, q: Float[Array, " 1"]) -> Velocity:
        return wrap(q)

    def matrix(self, q: Float[Array, " 1"]) -> Float[Array, "2 2"]:
        """R(angle), `(2, 2)`."""
        return plane_matrix(q[0])

    def check(self, q: Float[Array, " 1"], name: str = "q") -> None:
        check_coordinates(name, q, (1,), "an angle of SO2")
