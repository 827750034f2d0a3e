"""The rotation of a satellite with two reaction wheels about its centre of mass."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import SO3, quaternion_multiply, quaternion_rotate
from jaxhamel.mechanics import symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import ORIENTATION, Part, State
from jaxhamel.mechanics._description._drawing import Place, Shape, box_of, wheel
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._zero_momentum import AbstractZeroMomentum


class TwoWheelSatellite(AbstractZeroMomentum):
    r"""A satellite with two equal wheels about its axes e_1 and e_2, without its translation:

        L = ½ ω·Θ ω + J (ω_1 φ̇_1 + ω_2 φ̇_2) + ½ J (φ̇_1² + φ̇_2²)    on SO(3) × R² ,
        Θ ω + J (φ̇_1, φ̇_2, 0) = 0 ,

    the second line being zero angular momentum, three constraints. With Θ diagonal neither wheel turns the satellite about
    e_3 directly; a closed path of e_3 on the sphere that encloses the area α turns it about e_3 by α. If also Θ_1 = Θ_2, a
    turn by α in the time T needs ∫ φ̇_1² + φ̇_2² dt ≥ (Θ_1/J)² α (4π − α)/T; the least value belongs to a circle on the
    sphere.

    **Arguments:** `inertia`: Θ of everything, wheels locked, about the centre of mass [kg m²], `(3,)` or `(3, 3)`;
    `wheel_inertia`: J of each wheel about its axis [kg m²].

    Configuration `q = (quaternion (4,), wheel angles (2,))`; `u = φ̇` [rad/s]; control: wheel torques `(2,)` [N m].

    **Invariants** without torque: the energy; φ̇.

    **Known solution:** without torque φ̇ is constant, and the satellite turns steadily about the axis Θ⁻¹ (φ̇_1, φ̇_2, 0).

    **Raises:** `ValueError` for parameters that are not physical.

    Source: Müller 2023, eq. (5.18) without translation.
    """

    inertia: Array = parameter(
        "of everything about the centre of mass, wheels locked",
        "kg m²",
        INERTIA,
        default=(1.0, 1.2, 1.5),
    )
    wheel_inertia: Array = parameter(
        "of each wheel about its axis", "kg m²", (), positive=True, default=0.1
    )

    state_names: ClassVar[State | None] = State(
        (ORIENTATION, Part("angles", "wheel_angle", "rad", "of the wheels")),
        (Part("rates", "wheel_rate", "rad/s", "of the wheels"),),
        (Part("torques", ("torque_1", "torque_2"), "N m", "of the wheels"),),
    )

    def __check_init__(self) -> None:
        check_inertia("inertia", self.inertia)
        _checks.check_numbers(self, positive=("wheel_inertia",))

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        omega, rates = v[:3], v[3:]
        body = 0.5 * jnp.dot(omega, inertia_matrix(self.inertia) @ omega)
        return body + self.wheel_inertia * jnp.dot(rates, omega[:2] + 0.5 * rates)

    def connection(self, r: Float[Array, " 2"]) -> Float[Array, "3 2"]:
        """A = J Θ⁻¹ (e_1, e_2), which does not depend on the wheel angles."""
        axes = jnp.eye(3, dtype=self.wheel_inertia.dtype)[:, :2]
        return symmetric_solve(inertia_matrix(self.inertia), self.wheel_inertia * axes)

    def locked(self) -> Float[Array, " 2"]:
        """Θ_11 and Θ_22, the moments about the wheels' axes."""
        return jnp.diag(inertia_matrix(self.inertia))[:2]

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        """Energy and wheel rates; empty if torques act."""
        if control is not None:
            return {}
        v = jnp.concatenate([-self.connection(q[1]) @ u, u])
        return {"energy": self.lagrangian(t, q, v), "wheel rates": u}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives the wheel torques, `(2,)`, or is None."""
        if control is not None:
            check_control_value(t, control, (2,), "wheel torques [N m]")

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Place, ...]:
        axes = jnp.eye(3, dtype=q[0].dtype)[:2]
        found = [(q[0], jnp.zeros(3, q[0].dtype))]
        for angle, axis in zip(q[1], axes, strict=True):
            turned = quaternion_multiply(q[0], SO3().exp(angle * axis))
            found.append((turned, quaternion_rotate(q[0], 0.3 * axis)))
        return tuple(found)

    def shapes(self) -> tuple[Shape, ...]:
        tip = np.array([0.0, 0.0, 0.6])
        hull = Shape(box_of(self.inertia), trail=tip, trail_name="axis e3", triad=True)
        wheels = [Shape(wheel(0.15, axis)) for axis in np.eye(3)[:2]]
        return (hull, *wheels)
