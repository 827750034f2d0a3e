"""The rigid body that turns about a fixed point, free of torque (Euler)."""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._typing import Control, Quaternion, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, quaternion_rotate
from jaxhamel.mechanics import Spins, System
from jaxhamel.mechanics._description._declarations import State
from jaxhamel.mechanics._description._drawing import Shape, box_of
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import TURNING


class FreeRigidBody(System):
    r"""Euler's free rigid body: I Ω̇ = (I Ω) × Ω.

        ℓ = ½ Ω·I Ω on SO(3), u = Ω

    **Arguments:**

    - `inertia`: I about the fixed point (or the centre of mass) [kg m²], `(3,)` principal moments
        or `(3, 3)`.

    Configuration `q (4,)`, quaternion (w, x, y, z); `u = Ω (3,)` [rad/s], body frame.

    **Invariants:** energy; the angular momentum Λ I Ω in space.

    **Known solution:** with I_1 < I_2 < I_3, Jacobi's elliptic functions; about the middle axis the
    motion is unstable (Dzhanibekov). With I = (A, A, C), Ω turns about e_3 at (C − A) Ω_3 / A.

    **Raises:** ValueError for an inertia that no rigid body has.

    Source: Putkaradze and Rogers 2018, eq. (A.11).
    """

    inertia: Array = parameter(
        "principal moments or matrix", "kg m²", INERTIA, example=(0.2, 0.3, 0.4)
    )

    space: ClassVar[SO3] = SO3()
    state_names: ClassVar[State | None] = TURNING

    def __check_init__(self) -> None:
        check_inertia("inertia", self.inertia)

    def shapes(self) -> tuple[Shape, ...]:
        tip = np.array([0.0, 0.0, 0.75])
        return (
            Shape(box_of(self.inertia), tip[None], trail=tip, trail_name="tip of e₃", triad=True),
        )

    def lagrangian(self, t: Time, q: Quaternion, v: Velocity) -> Scalar:
        return 0.5 * jnp.dot(v, inertia_matrix(self.inertia) @ v)

    def bodies(self, t: Time, q: Quaternion, v: Velocity, control: Control) -> tuple[Any, ...]:
        return (Spins(inertia_matrix(self.inertia)[None], v[None], jnp.zeros_like(v)[None]),)

    def invariants(self, t: Time, q: Quaternion, u: Vector3, control: Control) -> dict[str, Array]:
        momentum = inertia_matrix(self.inertia) @ u
        return {
            "energy": 0.5 * jnp.dot(u, momentum),
            "angular momentum": quaternion_rotate(q, momentum),
        }
