"""Gyroscope and accelerometer, fixed to a body."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Vector3
from jaxhamel.geometry import quaternion_matrix
from jaxhamel.identify._checks._runs import check_entries
from jaxhamel.identify._data._measurements import (
    AbstractMeasurement,
    position_of,
    quaternion_of,
)
from jaxhamel.mechanics import System, VectorField
from jaxhamel.mechanics._controls._kinematic import driven_by
from jaxhamel.mechanics._kinematics import velocity_of


class AngularRate(AbstractMeasurement):
    """A gyroscope, which measures the angular velocity of the body in body axes [rad/s]: the entries `axes` of v.

    Give as many `columns` as `axes`; `name`, `unit`, `noise`, `offset`, `limit` are as for all measurements.
    """

    axes: tuple[int, ...] = eqx.field(static=True, default=(0, 1, 2))
    name: str = eqx.field(static=True, default="angular_rate")
    columns: tuple[str, ...] = eqx.field(static=True, default=("Omega_x", "Omega_y", "Omega_z"))
    unit: str = eqx.field(static=True, default="rad/s")
    noise: Any = None
    offset: float | None = None
    limit: float = eqx.field(static=True, default=100.0)

    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        v = velocity_of(driven_by(system, control), t, q, u)
        check_entries(f"measurement {self.name!r}", self.axes, v.shape[0])
        return v[jnp.array(self.axes)]


class Accelerometer(AbstractMeasurement):
    r"""An accelerometer at a point of the body, which measures the specific force in body axes [m/s²]:

        f = Rᵀ (p̈ + g e_3) ,   p = x + R s .

    At rest it measures g upwards. p̈ follows from the accelerations of the equations of motion.

    **Arguments:** `point`: s, in the body frame [m], which can be an unknown parameter; `gravity`: g, by default the
    system's own; `part`: the indices of orientation and position in a product space, the second None if the body's origin is
    at rest; `name`, `columns`, `unit`, `noise`, `offset`, `limit`: as for all measurements.
    """

    point: Vector3 = eqx.field(converter=jnp.asarray, default=(0.0, 0.0, 0.0))
    gravity: Any = None
    part: tuple[int | None, int | None] = eqx.field(static=True, default=(0, 1))
    name: str = eqx.field(static=True, default="accelerometer")
    columns: tuple[str, ...] = eqx.field(static=True, default=("ax", "ay", "az"))
    unit: str = eqx.field(static=True, default="m/s²")
    noise: Any = None
    offset: float | None = None
    limit: float = eqx.field(static=True, default=400.0)

    def __check_init__(self) -> None:
        _checks.check_shape("point", self.point, (3,), "Body frame, in m.")

    def __call__(
        self, system: System, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Array:
        t = jnp.asarray(t, u.dtype)
        rates = VectorField()(t, (q, u), (system, control))
        return self.along(system, t, q, u, rates, control)

    @property
    def uses_rates(self) -> bool:
        """True: the acceleration needs the rates."""
        return True

    def along(
        self,
        system: System,
        t: Time,
        q: Configuration,
        u: QuasiVelocity,
        rates: Any,
        control: Control,
    ) -> Array:
        """The predicted value for a motion with the rates (q̇, u̇)."""
        t, one, (q_dot, u_dot) = jnp.asarray(t, u.dtype), jnp.ones((), u.dtype), rates
        # v̇ and q̈ along the motion, each by one directional derivative
        driven = driven_by(system, control)
        v, v_dot = jax.jvp(lambda *x: velocity_of(driven, *x), (t, q, u), (one, q_dot, u_dot))
        second = jax.jvp(system.space.rate, (q, v), (q_dot, v_dot))[1]
        omega, s = v[:3], self.point.astype(u.dtype)
        turning = jnp.cross(v_dot[:3], s) + jnp.cross(omega, jnp.cross(omega, s))
        upwards = jnp.zeros(3, u.dtype).at[2].set(jnp.asarray(self._gravity(system), u.dtype))
        centre = self._of_centre(q, second) + upwards
        return turning + centre @ quaternion_matrix(quaternion_of(q, self.part[0], self.name))

    def _gravity(self, system) -> Scalar | float:
        return getattr(system, "gravity", 9.81) if self.gravity is None else self.gravity

    def _of_centre(self, q, second) -> Vector3:
        """The acceleration ẍ of the body's origin in space, from the second time derivative of the configuration's numbers.

        It is zero for a body without a position, which turns about a fixed origin.
        """
        rests = self.part[1] is None if isinstance(q, tuple) else q.shape[0] < 7
        if rests:
            return jnp.zeros(3, jnp.result_type(*jax.tree.leaves(q)))
        x = position_of(second, self.part[1], self.name)
        return jnp.concatenate([x, jnp.zeros(3 - x.shape[0], x.dtype)])
