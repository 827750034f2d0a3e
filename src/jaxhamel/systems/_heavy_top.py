"""The heavy top: a rigid body that turns about a fixed point under gravity."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._typing import (
    Configuration,
    Control,
    QuasiVelocity,
    Quaternion,
    Scalar,
    Time,
    Vector3,
    Velocity,
)
from jaxhamel.geometry import SO3, cross, quaternion_matrix, quaternion_rotate
from jaxhamel.mechanics import Spins, System
from jaxhamel.mechanics._description._declarations import Output, State
from jaxhamel.mechanics._description._drawing import Shape, box_edges, top_edges
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import TURNING


class HeavyTop(System):
    r"""The heavy top: I Ω̇ = (I Ω) × Ω + m g Γ × χ, Γ = Λᵀ e_3.

        ℓ = ½ Ω·I Ω − m g χ·Γ on SO(3), u = Ω

    **Arguments:**

    - `mass`: m [kg].
    - `inertia`: I about the *pivot* [kg m²], `(3,)` principal moments or `(3, 3)`. From the
        inertia J about the centre of mass it is J + m (|χ|² 1 − χ χᵀ).
    - `com`: χ, the centre of mass from the pivot, body frame [m], `(3,)`.
    - `gravity`: g [m/s²], along −z of space.

    Configuration `q (4,)`, quaternion (w, x, y, z); `u = Ω (3,)` [rad/s], body frame.

    **Invariants:** energy; the angular momentum about the vertical, (I Ω)·Γ. With two equal moments
    and χ on the third axis (Lagrange) also Ω on that axis; with I ∝ (2, 2, 1) and χ across
    (Kovalevskaya) one more.

    **Known solution:** Lagrange's top precesses steadily at ω_p and tilt β where
    C ω_s = m g l / ω_p + (A − C) ω_p cos β, with l = |χ|, spin ω_s relative to the precessing axes,
    moments A, A, C.

    **Raises:** ValueError for a mass or inertia that is not physical, or a wrong shape.

    Source: Putkaradze and Rogers 2018, eq. (A.16).
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the pivot: principal moments or matrix", "kg m²", INERTIA, example=(0.3, 0.3, 0.02)
    )
    com: Array = parameter(
        "centre of mass from the pivot, body frame", "m", (3,), example=(0.0, 0.0, 0.5)
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[SO3] = SO3()
    state_names: ClassVar[State | None] = TURNING

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("mass",), finite=("gravity",))
        # The inertia about the centre of mass is not checked: it is not positive for the much-used
        # top of Simo and Wong (1991).
        check_inertia("inertia", self.inertia)
        _checks.check_shape("com", self.com, (3,))
        _checks.check_finite("com", self.com)

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        names, title = ("com_x", "com_y", "com_z"), "Path of the centre of mass, from above"
        return (Output(self.centre_of_mass(q), "path", names, "m", title),)

    def shapes(self) -> tuple[Shape, ...]:
        com = np.asarray(self.com, dtype=float)
        length = float(np.linalg.norm(com))
        lines = top_edges(com, 0.45 * length) if length > 0 else box_edges(np.ones(3))
        return (Shape(lines, com[None], trail=com, trail_name="centre of mass", triad=True),)

    def lagrangian(self, t: Time, q: Quaternion, v: Velocity) -> Scalar:
        kinetic = 0.5 * jnp.dot(v, inertia_matrix(self.inertia) @ v)
        return kinetic - self._potential(q)

    def bodies(self, t: Time, q: Quaternion, v: Velocity, control: Control) -> tuple[Any, ...]:
        torque = self.mass * self.gravity * cross(_vertical(q), self.com)
        return (Spins(inertia_matrix(self.inertia)[None], v[None], torque[None]),)

    def invariants(self, t: Time, q: Quaternion, u: Vector3, control: Control) -> dict[str, Array]:
        momentum = inertia_matrix(self.inertia) @ u
        return {
            "energy": 0.5 * jnp.dot(u, momentum) + self._potential(q),
            "vertical angular momentum": jnp.dot(momentum, _vertical(q)),
        }

    def centre_of_mass(self, q: Quaternion) -> Vector3:
        """Λ χ: the centre of mass in space, from the pivot [m]."""
        return quaternion_rotate(q, self.com)

    def _potential(self, q: Quaternion) -> Scalar:
        return self.mass * self.gravity * jnp.dot(self.com, _vertical(q))


def _vertical(q: Quaternion) -> Vector3:
    """Γ = Λᵀ e_3, the upward vertical in the body."""
    return quaternion_matrix(q)[2]
