"""The helical pair: rotation about z coupled to translation along it."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Scalar, Velocity
from jaxhamel.geometry._checks import check_coordinates
from jaxhamel.geometry._so2 import plane_matrix
from jaxhamel.geometry._space import AbstractAbelianSpace


class Helical(AbstractAbelianSpace):
    """H_p, screw motions about z: q `(1,)` the angle, rad; the translation is `pitch * angle`, m.

    v `(1,)` is the angular velocity, rad/s. Unlike `SO2`, `log` does not wrap: a full turn advances
    by 2π·pitch and is another configuration.

    **Arguments:**

    - `pitch`: translation per angle, scalar, m/rad; a pytree leaf, differentiable (pass an array
      to have `equinox` filters treat it so). It enters `matrix` alone.
    """

    pitch: Scalar | float

    def __check_init__(self) -> None:
        _checks.check_numbers(self, finite=("pitch",))

    @property
    def dim(self) -> int:
        return 1

    def log(self, q: Float[Array, " 1"]) -> Velocity:
        return q

    def matrix(self, q: Float[Array, " 1"]) -> Float[Array, "4 4"]:
        """The pose in SE(3), `(4, 4)` homogeneous: rotation and translation along z."""
        height = jnp.asarray(self.pitch, dtype=q.dtype) * q[0]
        pose = jnp.eye(4, dtype=q.dtype).at[:2, :2].set(plane_matrix(q[0]))
        return pose.at[2, 3].set(height)

    def pose(self, q: Float[Array, " 1"]) -> Float[Array, "4 4"]:
        """The same as `matrix`; kinematics calls it the pose."""
        return self.matrix(q)

    def check(self, q: Float[Array, " 1"], name: str = "q") -> None:
        check_coordinates(name, q, (1,), "an angle of Helical")
