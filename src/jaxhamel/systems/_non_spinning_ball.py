"""A ball that rolls without slipping and without spinning about the vertical."""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, Euclidean, Product, cross, quaternion_matrix
from jaxhamel.mechanics import Points, Spins, System, symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._descriptions import ROLLING
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._rolling import horizontal, quarter


class NonSpinningBall(System):
    r"""A ball that rolls and does not spin: its orientation follows from its path alone (a connection).

        L = ½ Ω·I Ω + ½ m |ż|² on SO(3) × R² ,    ω = e_3 × ż/r ,  ω = Λ Ω ,    u = ż

    With Θ = Λ I Λᵀ, in space: (m δ_JK + A_J·Θ A_K) z̈_K − π_3 (e_3 × ż)_J/r² = F_J, where A = (e_2, −e_1)/r
    gives ω = A_J ż_J and π_3 = e_3·Θ ω. A homogeneous ball goes straight on at constant speed.

    **Arguments:**

    - `radius`: r [m].
    - `mass`: m [kg].
    - `inertia`: I about the centre [kg m²], `(3,)` principal moments or `(3, 3)`; the centre of mass
        is the centre.

    Configuration `q = (quaternion (4,), position (2,))`; `u = (ẋ, ẏ)` [m/s]; control: a horizontal
    force (F_x, F_y) [N] on the centre, or None. The multipliers are the friction force (F_x, F_y) [N]
    and the torque about the vertical [N m].

    **Invariants:** energy, where no force acts.

    **Known solution:** the contact's path on the ball has the geodesic curvature of its path on the
    plane. Round a small loop of signed area S the ball turns by −S/r² about the vertical (holonomy,
    the curvature 1/r² of the connection); round a circle of radius R by 2π √(1 + (R/r)²), see
    `turn_of_circle`.

    **Raises:** ValueError for parameters that are not physical.

    Source: Müller 2023, eq. (4.12)–(4.15). With ṗ + ρ × ω = 0 the connection coefficients are
    A^1_5 = 1/R, A^2_4 = −1/R, of the opposite sign to the formula printed below (4.13); the curvature is
    quadratic in them and stays. In (4.15) the metric is m δ + Θ A A, as the Lagrangian (4.14) has it,
    where a minus is printed.
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.2)
    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the centre: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.01, 0.013, 0.016),
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(2))
    n_constraints = 3
    state_names: ClassVar[State | None] = State(
        ROLLING.q, (Part("velocity", ("x_dot", "y_dot"), "m/s", "of the centre"),)
    )
    n_controls: ClassVar[int | None] = 2
    on_ground = True

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "mass"))
        check_inertia("inertia", self.inertia)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(sphere=float(self.radius)),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        spin = 0.5 * jnp.dot(v[:3], inertia_matrix(self.inertia) @ v[:3])
        return spin + 0.5 * self.mass * jnp.dot(v[3:], v[3:])

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = (ẋ − r ω_y, ẏ + r ω_x, ω_z, ẋ, ẏ): slip, vertical spin, then the centre's velocity."""
        rotation = quaternion_matrix(q[0])
        turn = jnp.stack([-self.radius * rotation[1], self.radius * rotation[0], rotation[2]])
        move = jnp.eye(3, dtype=turn.dtype)[:, :2]
        return jnp.concatenate(
            [jnp.concatenate([turn, move], axis=1), jnp.eye(5, dtype=turn.dtype)[3:]]
        )

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """Ω = Λᵀ ω with ω = ((s_2 − ẏ)/r, (ẋ − s_1)/r, ω_z), s the slip."""
        rotation = quaternion_matrix(q[0])
        x, y, z = rotation[0] / self.radius, rotation[1] / self.radius, rotation[2]
        turn = jnp.stack([-y, x, z, y, -x], axis=1)
        return jnp.concatenate([turn, jnp.eye(5, dtype=turn.dtype)[3:]])

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 5"]:
        """Q = (0, 0, 0, F_x, F_y): the force acts at the centre."""
        push = jnp.zeros(2, v.dtype) if control is None else control
        return jnp.concatenate([jnp.zeros(3, v.dtype), push])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre in space axes, the rotation in body axes."""
        none = jnp.zeros((1, 3), v.dtype)
        push = none if control is None else horizontal(control(t))[None]
        centre = Points(self.mass[None], horizontal(v[3:])[None], push, none[0])
        return centre, Spins(inertia_matrix(self.inertia)[None], v[:3][None], none)

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        if control is not None:
            return {}
        return {"energy": self.lagrangian(t, q, self.inverse_frame(t, q)[:, 3:] @ u)}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives a horizontal force, `(2,)`, or is None."""
        if control is not None:
            check_control_value(t, control, (2,), "a horizontal force (F_x, F_y) [N]")

    # --- closed forms and other quantities of this system --------------------------------------

    def angular_velocity(self, u: Float[Array, " 2"]) -> Vector3:
        """ω = e_3 × ż/r in space [rad/s]."""
        return horizontal(quarter(u) / self.radius)

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control = None
    ) -> Float[Array, " 2"]:
        """z̈ from the horizontal moments about the point of contact, in space:

            [(Θ + m r² 1) ω̇ + ω × Θ ω]_h = r e_3 × F ,    z̈ = ω̇ × r e_3 .

        `control` is a value here, the force F [N], or None.
        """
        rotation = quaternion_matrix(q[0])
        theta = rotation @ inertia_matrix(self.inertia) @ rotation.T
        omega = self.angular_velocity(u)
        roll = self.mass * self.radius * self.radius * jnp.eye(2, dtype=u.dtype)
        push = jnp.zeros_like(u) if control is None else self.radius * quarter(control)
        moment = push - cross(omega, theta @ omega)[:2]
        return -self.radius * quarter(symmetric_solve(theta[:2, :2] + roll, moment))

    @own_equations
    def turn_of_circle(self, path_radius: Scalar) -> Scalar:
        """2π √(1 + (R/r)²) [rad]: the ball's turn, about a tilted axis, after one circle of radius R."""
        ratio = path_radius / self.radius
        return 2.0 * jnp.pi * jnp.sqrt(1.0 + ratio * ratio)

    def centre(self, q: Configuration) -> Vector3:
        """The centre in space, (x, y, r) [m]."""
        return jnp.concatenate([q[1], self.radius[None]])
