"""Müller's rolling ball: Chaplygin's sphere in space axes, with all three rolling conditions as constraint one-forms."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import (
    Configuration,
    Control,
    Frame,
    QuasiVelocity,
    Scalar,
    Time,
    Vector3,
    Velocity,
)
from jaxhamel.geometry import SO3, Euclidean, Product, cross, hat, quaternion_matrix
from jaxhamel.mechanics import Points, Spins, System, symmetric_solve
from jaxhamel.mechanics._description._declarations import Output, Part, State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import ROLLING_IN_SPACE, ground_force
from jaxhamel.systems._own_equations import own_equations


class InhomogeneousBall(System):
    r"""A ball with unequal moments of inertia, its centre of mass in its centre: Θ_P ω̇ + ω × Θ_c ω = 0.

        T = ½ Ω·I Ω + ½ m |ṙ|² on SO(3) × R³ ,    V = m g r_3 ,    v = (Ω, ṙ)
        u^α = ṙ + ρ × ω = 0  (α = 1, 2, 3) ,    u^I = ω = R Ω  (I = 4, 5, 6) ,    ρ = ρ e_3
        A = [[ρ̂ R, 1], [R, 0]] ,    γ^K_IJ = −ε_KIJ ,    γ^α_IJ = −ε_αkl ρ_k ε_lIJ

    It is `ChaplyginSphere` as Müller (2021) writes it: the third condition, that the centre stays at
    its height, is a one-form too, and its multiplier is the normal force.

    **Arguments:**

    - `radius`: ρ [m].
    - `mass`: m [kg].
    - `inertia`: I about the centre [kg m²], body axes, `(3,)` principal moments or `(3, 3)`.
    - `gravity`: g [m/s²], along −z of space; it enters the normal force only.

    Configuration `q = (quaternion (4,), r (3,))`, r the centre; `u = ω (3,)` [rad/s], space frame. The
    multipliers are the force of the plane on the ball, (F_x, F_y, F_z) [N], in space.

    **Invariants:** energy; L_P = Θ_P ω, Θ_P = R I Rᵀ − m ρ̂ ρ̂, the angular momentum about the point of
    contact; the height r_3. L_P is constant because ρ is; with the centre of mass outside of the centre
    it would not be.

    **Known solution:** as for `ChaplyginSphere`.

    **Raises:** ValueError for parameters that are not physical.

    Source: Müller 2021, eq. (125)–(142).
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.2)
    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the centre: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.01, 0.013, 0.016),
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(3))
    n_constraints = 3
    state_names: ClassVar[State | None] = State(
        ROLLING_IN_SPACE.q,
        (
            Part(
                "omega",
                ("omega_x", "omega_y", "omega_z"),
                "rad/s",
                "angular velocity, space frame",
                ("ω₁", "ω₂", "ω₃"),
            ),
        ),
    )
    on_ground = True

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "mass"), finite=("gravity",))
        check_inertia("inertia", self.inertia)

    def initial_state(self) -> tuple[Any, ...]:
        (q, r), u = super().initial_state()
        return (q, r.at[2].set(self.radius)), u

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        return (ground_force(self, t, q, u, control, self.mass * self.gravity),)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(sphere=float(self.radius)),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spin = 0.5 * jnp.dot(v[:3], inertia_matrix(self.inertia) @ v[:3])
        return spin + 0.5 * self.mass * jnp.dot(v[3:], v[3:]) - self.mass * self.gravity * q[1][2]

    def frame(self, t: Time, q: Configuration) -> Frame:
        """A of (128), in which R Ω takes the place of the paper's product Ω φ̇ in local coordinates."""
        rotation = quaternion_matrix(q[0])
        eye, zero = jnp.eye(3, dtype=rotation.dtype), jnp.zeros((3, 3), rotation.dtype)
        return jnp.block([[hat(self._lever()) @ rotation, eye], [rotation, zero]])

    def inverse_frame(self, t: Time, q: Configuration) -> Frame:
        """B of (129)."""
        rotation = quaternion_matrix(q[0])
        eye, zero = jnp.eye(3, dtype=rotation.dtype), jnp.zeros((3, 3), rotation.dtype)
        return jnp.block([[zero, rotation.T], [eye, -hat(self._lever())]])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre in space axes, the rotation in body axes."""
        none = jnp.zeros((1, 3), v.dtype)
        weight = none.at[0, 2].set(-self.mass * self.gravity)
        centre = Points(self.mass[None], v[3:][None], weight, none[0])
        return centre, Spins(inertia_matrix(self.inertia)[None], v[:3][None], none)

    def invariants(
        self, t: Time, q: Configuration, u: Vector3, control: Control
    ) -> dict[str, Array]:
        momentum = self._about_contact(q) @ u
        return {
            "energy": 0.5 * jnp.dot(u, momentum) + self.mass * self.gravity * q[1][2],
            "momentum about the contact": momentum,
            "height": q[1][2],
        }

    # --- closed forms and other quantities of this system --------------------------------------

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """ω̇ from Θ_P ω̇ + ω × Θ_c ω = 0, eq. (141). Arguments as for `jaxhamel.acceleration`, whose value it equals."""
        turning = cross(self._about_centre(q) @ u, u)
        return symmetric_solve(self._about_contact(q), turning)

    @own_equations
    def contact_force(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """m (r̈ + g e_3), r̈ = ω̇ × ρ: the force of the plane on the ball, in space [N]."""
        rolling = cross(self.closed_form(t, q, u), self._lever())
        return self.mass * (rolling + jnp.stack([0.0 * self.gravity] * 2 + [self.gravity]))

    def _lever(self) -> Vector3:
        """ρ: from the point of contact to the centre."""
        zero = jnp.zeros_like(self.radius)
        return jnp.stack([zero, zero, self.radius])

    def _about_centre(self, q: Configuration) -> Float[Array, "3 3"]:
        rotation = quaternion_matrix(q[0])
        return rotation @ inertia_matrix(self.inertia) @ rotation.T

    def _about_contact(self, q: Configuration) -> Float[Array, "3 3"]:
        """Θ_P = Θ_c − m ρ̂ ρ̂."""
        lever = hat(self._lever())
        return self._about_centre(q) - self.mass * lever @ lever
