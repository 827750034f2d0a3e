"""A rigid body in an ideal fluid at rest at infinity (Kirchhoff)."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SE3, cross, hat, quaternion_matrix
from jaxhamel.mechanics import System, symmetric_solve
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, box_of
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_added_mass, check_inertia
from jaxhamel.systems._own_equations import own_equations

# the example's added mass, smallest in the forward direction
_ADDED_MASS = tuple(
    tuple(m if i == j else 0.0 for j in range(6))
    for i, m in enumerate((0.01, 0.02, 0.03, 0.3, 0.6, 0.9))
)


class UnderwaterBody(System):
    r"""Kirchhoff's equations: π̇ = π × ω + p × v + τ, ṗ = p × ω + f, (π, p) = M (ω, v).

        ℓ = ½ (ω, v)·M (ω, v) − m g e_3·(x + Λ χ) + m_w g e_3·(x + Λ χ_b) on SE(3) ,    u = (ω, v)
        M = [[I − m χ̂ χ̂, m χ̂], [−m χ̂, m 1]] + M_added
        f = (m_w − m) g Γ ,    τ = −m g χ × Γ + m_w g χ_b × Γ ,    Γ = Λᵀ e_3

    The fluid moves only with the body, without circulation; its only effect is the added mass.

    **Arguments:**

    - `mass`: m [kg].
    - `inertia`: I about the centre of mass [kg m²], `(3,)` principal moments or `(3, 3)`.
    - `added_mass`: M_added `(6, 6)`, symmetric, for (ω, v) at the body frame's origin
        [kg m², kg m; kg m, kg].
    - `displaced_mass`: m_w [kg], of the displaced water; equal to `mass` for a neutral body.
    - `com`, `centre_of_buoyancy`: χ, χ_b from the body frame's origin, body frame [m], `(3,)`.
    - `gravity`: g [m/s²], along −z of space.

    Configuration `q (7,)`: quaternion and x, the origin of the body frame in space;
    `u = (ω, v) (6,)` [rad/s, m/s], the body twist.

    **Invariants:** energy; the horizontal impulse (Λ p)_x, (Λ p)_y; the vertical angular impulse about
    the origin of space, (Λ π + x × Λ p)_z.

    **Known solution:** a sphere has the added mass m_w/2 and rises at (m_w − m) g/(m + m_w/2): a
    bubble at 2 g. A neutral body with M diagonal that moves in a plane at the constant impulse P is a
    pendulum in twice its angle: I_3 θ̈ = −(m_1 − m_2) P² sin θ cos θ/(m_1 m_2) (Munk's moment), so that it
    is stable only broadside on, where the added mass is largest.

    **Raises:** ValueError for parameters that are not physical.

    Source: Massa and Vignolo, section on Kirchhoff's equations; Lamb 1932, chapter VI. Books of naval
    engineering put v before ω and z downwards.
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=1.2)
    inertia: Array = parameter(
        "about the centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.1, 0.12, 0.14),
    )
    added_mass: Array = parameter(
        "of the water, for (ω, v) at the origin of the body frame",
        "kg m², kg m, kg",
        (6, 6),
        example=_ADDED_MASS,
    )
    displaced_mass: Array = parameter(
        "mass of the displaced water", "kg", (), least=0.0, example=1.2
    )
    com: Array = parameter("centre of mass, body frame", "m", (3,), default=(0.0, 0.0, 0.0))
    centre_of_buoyancy: Array = parameter(
        "centre of buoyancy, body frame", "m", (3,), default=(0.0, 0.0, 0.0)
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[SE3] = SE3()
    state_names: ClassVar[State | None] = State(
        (
            Part(
                "pose",
                ("qw", "qx", "qy", "qz", "x", "y", "z"),
                "1, m",
                "quaternion and position",
                chart=False,
            ),
        ),
        (
            Part(
                "omega", ("Omega_x", "Omega_y", "Omega_z"), "rad/s", "angular velocity, body frame"
            ),
            Part(
                "velocity", ("v_x", "v_y", "v_z"), "m/s", "of the body frame's origin, body frame"
            ),
        ),
    )

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("mass",), finite=("displaced_mass", "gravity"))
        _checks.check_not_negative("displaced_mass", self.displaced_mass)
        check_inertia("inertia", self.inertia)
        check_added_mass("added_mass", self.added_mass)
        for name in ("com", "centre_of_buoyancy"):
            _checks.check_shape(name, getattr(self, name), (3,))
            _checks.check_finite(name, getattr(self, name))

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(box_of(self.inertia, self.mass), trail=np.zeros(3), triad=True),)

    def lagrangian(self, t: Time, q: Float[Array, " 7"], v: Velocity) -> Scalar:
        return 0.5 * jnp.dot(v, self.mass_matrix() @ v) - self._potential(q)

    def invariants(
        self, t: Time, q: Float[Array, " 7"], u: Float[Array, " 6"], control: Control
    ) -> dict[str, Array]:
        angular, linear = self.impulse(q, u)
        energy = 0.5 * jnp.dot(u, self.mass_matrix() @ u) + self._potential(q)
        return {
            "energy": energy,
            "horizontal impulse": linear[:2],
            "vertical angular impulse": angular[2],
        }

    # --- closed forms and other quantities of this system --------------------------------------

    def mass_matrix(self) -> Float[Array, "6 6"]:
        """M of (ω, v), of body and fluid; only the symmetric part of the added mass is used."""
        lever = self.mass * hat(self.com)
        about_origin = inertia_matrix(self.inertia) - lever @ hat(self.com)
        body = jnp.block(
            [[about_origin, lever], [-lever, self.mass * jnp.eye(3, dtype=lever.dtype)]]
        )
        return body + 0.5 * (self.added_mass + self.added_mass.T)

    def impulse(self, q: Float[Array, " 7"], u: Float[Array, " 6"]) -> tuple[Vector3, Vector3]:
        """The impulse of body and fluid in space: angular about the origin, Λ π + x × Λ p, and linear, Λ p."""
        rotation = quaternion_matrix(q[:4])
        momentum = self.mass_matrix() @ u
        linear = rotation @ momentum[3:]
        return rotation @ momentum[:3] + cross(q[4:], linear), linear

    @own_equations
    def closed_form(
        self, t: Time, q: Float[Array, " 7"], u: Float[Array, " 6"], control: Control = None
    ) -> Float[Array, " 6"]:
        """(ω̇, v̇) from Kirchhoff's equations. Arguments as for `jaxhamel.acceleration`, whose value it equals."""
        matrix, gamma = self.mass_matrix(), quaternion_matrix(q[:4])[2]
        momentum = matrix @ u
        weight, lift = self.mass * self.gravity * gamma, self.displaced_mass * self.gravity * gamma
        torque = cross(self.centre_of_buoyancy, lift) - cross(self.com, weight)
        angular = cross(momentum[:3], u[:3]) + cross(momentum[3:], u[3:]) + torque
        linear = cross(momentum[3:], u[:3]) + lift - weight
        return symmetric_solve(matrix, jnp.concatenate([angular, linear]))

    def _potential(self, q: Float[Array, " 7"]) -> Scalar:
        vertical = quaternion_matrix(q[:4])[2]
        low = self.mass * (q[6] + jnp.dot(vertical, self.com))
        high = self.displaced_mass * (q[6] + jnp.dot(vertical, self.centre_of_buoyancy))
        return self.gravity * (low - high)
