"""Suslov's problem: a rigid body about a fixed point that must not turn about one of its axes."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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
from jaxhamel.geometry import SO3
from jaxhamel.mechanics import Spins, System
from jaxhamel.mechanics._description._declarations import ORIENTATION, Output, Part, State
from jaxhamel.mechanics._description._drawing import Shape, box_of, segment
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_frame_axis, check_inertia


class Suslov(System):
    r"""Suslov's problem: I Ω̇ = (I Ω) × Ω + λ ξ with Ω·ξ = 0, where ξ is constant or a function of time in body axes.

        ℓ = ½ Ω·I Ω on SO(3),    u = (Ω·a, Ω·b),    constraint one-form ξ

    **Arguments:**

    - `inertia`: I about the fixed point [kg m²], `(3,)` principal moments or `(3, 3)`.
    - `xi`: ξ `(3,)`, body frame, of any length but zero, or a callable pytree of t with such
        values. λ is the multiplier of ξ as given.

    Configuration `q (4,)`, quaternion (w, x, y, z). `u (2,)` [rad/s] is Ω along the unit vectors
    a, b to which the shortest rotation from e_3 to ξ takes e_1, e_2: (Ω_1, Ω_2) for ξ = e_3. For ξ along
    −e_3 this rotation is not unique; −ξ is the same constraint.

    **Invariants:** energy (the constraint does no work, however ξ moves).

    **Known solution** for ξ = e_3 and I_12 = I_23 = 0, with I_11 Ω_1² + I_22 Ω_2² = E_2,
    W = √(E_2/I_22), k = I_13 W/I_11: Ω_2 = W tanh k(t − t_0), Ω_1 = √(E_2/I_11) sech k(t − t_0).

    **Raises:** ValueError for an inertia that no rigid body has, or a ξ that is zero or along −e_3.

    Source: Putkaradze and Rogers 2018, eq. (A.36)–(A.38); the frame is that of Frisvad 2012.
    """

    inertia: Array = parameter(
        "about the fixed point: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=((0.4, 0.0, 0.1), (0.0, 0.5, 0.0), (0.1, 0.0, 0.6)),
    )
    xi: Array | Callable[[Time], Array] = parameter(
        "the body axis ξ about which the body does not turn", "", (3,), default=(0.0, 0.0, 1.0)
    )

    space: ClassVar[SO3] = SO3()
    n_constraints = 1
    state_names: ClassVar[State | None] = State(
        (ORIENTATION,),
        (
            Part(
                "omega",
                (),
                "rad/s",
                "along the two axes across ξ: (Ω₁, Ω₂) for ξ = e₃",
                ("Ω·a", "Ω·b"),
                False,
            ),
        ),
    )

    def __check_init__(self) -> None:
        check_inertia("inertia", self.inertia)
        if not callable(self.xi):
            _checks.check_shape("xi", self.xi, (3,))
            check_frame_axis("xi", self.xi)

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        omega = self.inverse_frame(t, q)[:, 1:] @ u
        return (
            Output(
                omega,
                "omega",
                ("Omega_x", "Omega_y", "Omega_z"),
                "rad/s",
                "Angular velocity, body frame",
            ),
        )

    def shapes(self) -> tuple[Shape, ...]:
        if callable(self.xi):
            return (Shape(box_of(self.inertia), triad=True),)
        xi = np.asarray(self.xi, dtype=float)
        tip = 0.75 * xi / np.linalg.norm(xi)
        lines = [*box_of(self.inertia), segment(-tip, tip)]
        return (Shape(lines, tip[None], trail=tip, trail_name="tip of ξ", triad=True),)

    def lagrangian(self, t: Time, q: Quaternion, v: Velocity) -> Scalar:
        return 0.5 * jnp.dot(v, inertia_matrix(self.inertia) @ v)

    def frame(self, t: Time, q: Quaternion) -> Float[Array, "3 3"]:
        """A with the rows ξ (the constraint), a and b."""
        xi = self._xi(t)
        return jnp.stack([xi, *_two_perpendicular(xi)])

    def inverse_frame(self, t: Time, q: Quaternion) -> Float[Array, "3 3"]:
        """B = A⁻¹ with the columns ξ/|ξ|², a and b."""
        xi = self._xi(t)
        return jnp.stack([xi / jnp.sum(xi * xi), *_two_perpendicular(xi)], axis=1)

    def bodies(self, t: Time, q: Quaternion, v: Velocity, control: Control) -> tuple[Any, ...]:
        return (Spins(inertia_matrix(self.inertia)[None], v[None], jnp.zeros_like(v)[None]),)

    def invariants(
        self, t: Time, q: Quaternion, u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        omega = self.inverse_frame(t, q)[:, 1:] @ u
        return {"energy": self.lagrangian(t, q, omega)}

    def _xi(self, t: Time) -> Vector3:
        return self.xi(t) if callable(self.xi) else self.xi


def _two_perpendicular(xi: Vector3) -> tuple[Vector3, Vector3]:
    """Unit vectors a, b: e_1, e_2 turned by the shortest rotation e_3 → ξ/|ξ|."""
    x, y, z = xi / jnp.sqrt(jnp.sum(xi * xi))
    w = 1.0 / (1.0 + z)
    return (
        jnp.stack([1.0 - w * x * x, -w * x * y, -x]),
        jnp.stack([-w * x * y, 1.0 - w * y * y, -y]),
    )
