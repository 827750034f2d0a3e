"""One rigid body, free to move, in every usual choice of quasi-velocities."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Control, Frame, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import (
    SE3,
    body_frame,
    cross,
    euler_frame,
    hybrid_frame,
    mixed_frame,
    quaternion_matrix,
    spatial_frame,
)
from jaxhamel.mechanics import Points, Spins, System, symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, box_of
from jaxhamel.mechanics._description._parameters import INERTIA, choice, inertia_matrix, parameter
from jaxhamel.systems._checks import check_inertia
from jaxhamel.systems._own_equations import own_equations

PoseArray = Float[Array, " 7"]
Twist = Float[Array, " 6"]

NAMES = ("body", "spatial", "hybrid", "mixed", "euler")


class RigidBody(System):
    r"""Newton's and Euler's equations, in the quasi-velocities that `representation` names.

        L = ½ m |V + Ω × χ|² + ½ Ω·I Ω − m g e_3·(p + R χ) on SE(3) ,    v = (Ω, V),  V = Rᵀ ṗ

        body       u = (Ω, V)              Θ Ω̇ + Ω × Θ Ω + m χ × (V̇ + Ω × V) = τ
                                           m (V̇ + Ω × V + Ω̇ × χ + Ω × (Ω × χ)) = f
        spatial    u = (ω, ṗ − ω × p)      the same with p + R χ for χ and the inertia about the origin of space
        hybrid     u = (ω, ṗ)              Θ_s ω̇ + ω × Θ_s ω + m d × p̈ = τ ,  m (p̈ + ω̇ × d + ω × (ω × d)) = f
        mixed      u = (Ω, ṗ)              Θ Ω̇ + Ω × Θ Ω + m χ × Rᵀ p̈ = τ ,  m (p̈ + R (Ω̇ × χ + Ω × (Ω × χ))) = f
        euler      u = (φ̇, θ̇, ψ̇, ṗ)        Lagrange's, in Euler's angles z-x-z and p

    with ω = R Ω, d = R χ, Θ = I − m χ̂ χ̂, Θ_s = R Θ Rᵀ. The reference point p is any point of the body.

    **Arguments:**

    - `mass`: m [kg].
    - `inertia`: I about the centre of mass [kg m²], body axes, `(3,)` principal moments or `(3, 3)`.
    - `com`: χ, the centre of mass from the reference point, body axes [m], `(3,)`.
    - `gravity`: g [m/s²], along −z of space; default 0.
    - `representation`: `"body"`, `"spatial"`, `"hybrid"`, `"mixed"` or `"euler"`.

    Configuration `q (7,)`: quaternion and p; `u (6,)` [rad/s, m/s] as above. The control is the
    wrench W = (τ, f) `(6,)` [N m, N] dual to u, of power W·u: for `"body"` about the reference
    point in body axes, for `"spatial"` about the origin of space in space axes, for `"hybrid"` about
    the reference point in space axes, for `"mixed"` τ in body and f in space axes, for `"euler"` the
    generalised forces of the coordinates. None stands for no wrench.

    **Invariants:** without a wrench energy, m ẋ + m g t e_3 (x the centre of mass), R I Ω.

    **Known solution:** the centre of mass falls freely, the rotation about it is `FreeRigidBody`'s.

    **Raises:** ValueError for parameters that are not physical, or an unknown representation.

    Source: Müller 2021, eq. (91), (110)–(111), (124); Massa and Vignolo, eq. (16)–(19), who call
    body, spatial and mixed Kirchhoff's, Newton–Euler's and the hybrid equations.
    """

    mass: Array = parameter("mass", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "about the centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.1, 0.2, 0.25),
    )
    com: Array = parameter(
        "centre of mass from the reference point, body frame", "m", (3,), default=(0.0, 0.0, 0.0)
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=0.0
    )
    representation: str = choice("the quasi-velocities", NAMES, default="body")

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
                "twist",
                ("u_1", "u_2", "u_3", "u_4", "u_5", "u_6"),
                "rad/s, m/s",
                "quasi-velocities of the representation",
            ),
        ),
    )
    n_controls: ClassVar[int | None] = 6

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("mass",), finite=("gravity",))
        check_inertia("inertia", self.inertia)
        _checks.check_shape("com", self.com, (3,))
        _checks.check_finite("com", self.com)
        _checks.check_choice("representation", self.representation, REPRESENTATIONS)

    def shapes(self) -> tuple[Shape, ...]:
        com = np.asarray(self.com, dtype=float)
        lines = [line + com[None] for line in box_of(self.inertia, self.mass)]
        return (Shape(lines, trail=com, trail_name="centre of mass", triad=True),)

    def lagrangian(self, t: Time, q: PoseArray, v: Velocity) -> Scalar:
        of_com = v[3:] + cross(v[:3], self.com)
        spin = jnp.dot(v[:3], inertia_matrix(self.inertia) @ v[:3])
        kinetic = 0.5 * (self.mass * jnp.dot(of_com, of_com) + spin)
        return kinetic - self.mass * self.gravity * self.centre_of_mass(q)[2]

    def frame(self, t: Time, q: PoseArray) -> Frame:
        return REPRESENTATIONS[self.representation](self.space)(q)

    def inverse_frame(self, t: Time, q: PoseArray) -> Frame:
        if self.representation == "spatial":
            return self.space.Ad(self.space.inverse(q))
        if self.representation != "euler":
            return self.frame(t, q).T
        rotation = quaternion_matrix(q[:4])
        x, y, zero = rotation[2, 0], rotation[2, 1], jnp.zeros((3, 3), q.dtype)
        sine = jnp.sqrt(x * x + y * y)
        nodes = jnp.stack([y / sine, -x / sine, jnp.zeros_like(x)])
        columns = [rotation[2], nodes, jnp.eye(3, dtype=q.dtype)[2]]
        return jnp.block([[jnp.stack(columns, axis=1), zero], [zero, rotation.T]])

    def force(self, t: Time, q: PoseArray, v: Velocity, control: Control) -> Twist:
        """Aᵀ W: the wrench dual to the body twist (Ω, V)."""
        return jnp.zeros_like(v) if control is None else self.frame(t, q).T @ control

    def bodies(self, t: Time, q: PoseArray, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point at the centre of mass, and the rotation about it, both in body axes."""
        wrench = self.force(t, q, v, None if control is None else control(t))
        rotation = quaternion_matrix(q[:4])
        push = wrench[3:] - self.mass * self.gravity * rotation[2]
        torque = wrench[:3] - cross(self.com, wrench[3:])
        of_com = v[3:] + cross(v[:3], self.com)
        centre = Points(self.mass[None], of_com[None], push[None], v[:3])
        return centre, Spins(inertia_matrix(self.inertia)[None], v[:3][None], torque[None])

    def invariants(self, t: Time, q: PoseArray, u: Twist, control: Control) -> dict[str, Array]:
        if control is not None:
            return {}
        v = self.inverse_frame(t, q) @ u
        rotation = quaternion_matrix(q[:4])
        momentum = self.mass * (rotation @ (v[3:] + cross(v[:3], self.com)))
        weight = self.mass * self.gravity
        potential = weight * self.centre_of_mass(q)[2]
        fallen = jnp.stack([jnp.zeros_like(weight), jnp.zeros_like(weight), weight * t])
        return {
            "energy": self.lagrangian(t, q, v) + 2.0 * potential,
            "linear momentum": momentum + fallen,
            "spin": rotation @ (inertia_matrix(self.inertia) @ v[:3]),
        }

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives a wrench, `(6,)`, or is None."""
        if control is not None:
            meaning = "the wrench (torque, force) dual to u [N m, N]"
            check_control_value(t, control, (6,), meaning)

    # --- closed forms and other quantities of this system --------------------------------------

    def centre_of_mass(self, q: PoseArray) -> Vector3:
        """x = p + R χ in space [m]."""
        return q[4:] + quaternion_matrix(q[:4]) @ self.com

    def spatial_momentum(self, q: PoseArray, u: Twist) -> Twist:
        """Π_s = (R I Ω + x × m ẋ, m ẋ), about the origin of space; Π̇_s = W_s (Müller 2021, eq. 113)."""
        v = self.inverse_frame(0.0, q) @ u
        rotation = quaternion_matrix(q[:4])
        linear = self.mass * (rotation @ (v[3:] + cross(v[:3], self.com)))
        spin = rotation @ (inertia_matrix(self.inertia) @ v[:3])
        return jnp.concatenate([spin + cross(self.centre_of_mass(q), linear), linear])

    @own_equations
    def closed_form(self, t: Time, q: PoseArray, u: Twist, control: Control = None) -> Twist:
        """u̇ by kinematics from Newton's and Euler's laws at the centre of mass, m ẍ = F and I Ω̇ = τ_c − Ω × I Ω.

        `control` is a value here, the wrench W dual to u, or None. The result equals that of `jaxhamel.acceleration`.
        """
        rotation, inertia = quaternion_matrix(q[:4]), inertia_matrix(self.inertia)
        v = self.inverse_frame(t, q) @ u
        omega, wrench = v[:3], self.force(t, q, v, control)
        torque = wrench[:3] - cross(self.com, wrench[3:])
        turn = symmetric_solve(inertia, torque - cross(omega, inertia @ omega))
        of_com = wrench[3:] / self.mass - self.gravity * rotation[2]
        of_point = of_com - cross(turn, self.com) - cross(omega, cross(omega, self.com))
        return _RATES[self.representation](q, rotation, u, omega, turn, of_point)


REPRESENTATIONS: dict[str, Callable[..., Any]] = {
    "body": body_frame,
    "spatial": spatial_frame,
    "hybrid": hybrid_frame,
    "mixed": mixed_frame,
    "euler": euler_frame,
}


# The following functions (q, R, u, Ω, Ω̇, a) → u̇ `(6,)`, one for each representation, take Ω, Ω̇ and the acceleration a of
# the reference point in body axes.


def _body_rates(q, rotation, u, omega, turn, a):
    """(Ω̇, V̇) with V̇ = a − Ω × V."""
    return jnp.concatenate([turn, a - cross(omega, u[3:])])


def _spatial_rates(q, rotation, u, omega, turn, a):
    """(ω̇, d/dt (ṗ − ω × p)), the latter p̈ − ω̇ × p − ω × ṗ with ṗ = u_v + ω × p."""
    omega_dot, velocity = rotation @ turn, u[3:] + cross(u[:3], q[4:])
    linear = rotation @ a - cross(omega_dot, q[4:]) - cross(u[:3], velocity)
    return jnp.concatenate([omega_dot, linear])


def _hybrid_rates(q, rotation, u, omega, turn, a):
    """(ω̇, p̈) with ω̇ = R Ω̇ and p̈ = R a."""
    return jnp.concatenate([rotation @ turn, rotation @ a])


def _mixed_rates(q, rotation, u, omega, turn, a):
    return jnp.concatenate([turn, rotation @ a])


def _euler_rates(q, rotation, u, omega, turn, a):
    """Ω̇ = E (φ̈, θ̈, ψ̈) + Ė (φ̇, θ̇, ψ̇), solved for the second derivatives of the angles."""
    phi, theta, psi = u[0], u[1], u[2]
    x, y, cosine = rotation[2, 0], rotation[2, 1], rotation[2, 2]
    sine = jnp.sqrt(x * x + y * y)
    s, c = x / sine, y / sine  # of ψ
    bias = (
        phi * theta * cosine * s + phi * psi * sine * c - theta * psi * s,
        phi * theta * cosine * c - phi * psi * sine * s - theta * psi * c,
        -phi * theta * sine,
    )
    first, second, third = (turn[i] - bias[i] for i in range(3))
    phi_dot = (s * first + c * second) / sine
    angles = jnp.stack([phi_dot, c * first - s * second, third - cosine * phi_dot])
    return jnp.concatenate([angles, rotation @ a])


_RATES: dict[str, Callable[..., Any]] = {
    "body": _body_rates,
    "spatial": _spatial_rates,
    "hybrid": _hybrid_rates,
    "mixed": _mixed_rates,
    "euler": _euler_rates,
}
