"""A soft-shelled ball driven by a pendulum, rolling in the plane: contact stiffness, rolling and joint friction."""

from dataclasses import fields
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import Euclidean
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import Part, State
from jaxhamel.mechanics._description._drawing import Shape, about_x, segment, wheel
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.systems._own_equations import own_equations


class SoftRollingPendulum(System):
    r"""A ball with a soft, pressurised shell and a pendulum inside, rolling in the plane of e_2, e_3.

        L = ½ m_s R² φ̇² + ½ I_s φ̇² + ½ I_c φ̇² + ½ I_p (φ̇ + θ̇)² + ½ m_c |ẋ_c|² + ½ m_p |ẋ_p|²
            − g (m_c h_c + m_p h_p) − ½ k e^κ (φ − φ_0)² + ½ κ̇² ,        ẏ = −R φ̇
        τ_θ = −(F_j s(θ̇) + c_j θ̇) ,   τ_φ = −(F_g s(φ̇) + c_g φ̇) ,   s(w) = w / √(w² + ε²)
        κ̇ = 0                                                           (constraint one-form)

    The shell touches the ground with a patch, not a point: leaning by φ shifts the resultant of the contact pressure by k
    (φ − φ_0) / (m g) ahead of the centre, which gives a restoring torque of stiffness k. The rolling resistance has a part
    that does not depend on the speed (hysteresis of the shell) and a part proportional to it. The stiffness k e^κ differs
    from one run to the next with the pressure and the side on which the ball lies; κ is a coordinate that a constraint keeps
    constant, so that a run's stiffness is part of its *initial state*. κ = 0 gives the nominal stiffness k.

    **Arguments:**

    - `radius`: R [m]. `shell_mass`: m_s [kg], its centre of mass in the centre; `shell_inertia`: I_s [kg m²].
    - `centre_mass`, `centre_inertia`, `centre_com`: m_c [kg], I_c [kg m²] about the centre of mass of a
        body that turns with the shell, and the position (lateral, vertical) `(2,)` [m] of this centre.
    - `pendulum_mass`, `pendulum_inertia`, `pendulum_com`: the same of the pendulum at θ = φ = 0, m_p, I_p, `(2,)`.
    - `joint_coulomb`: F_j [N m]; `joint_viscous`: c_j [N m s/rad].
    - `contact_stiffness`: k [N m/rad]; `rest_angle`: φ_0 [rad], at which it exerts no torque
        (a slope α of the ground moves it by m g R sin α / k).
    - `rolling_coulomb`: F_g [N m]; `rolling_viscous`: c_g [N m s/rad].
    - `slip_rate`: ε [rad/s]. Below it friction is viscous, so that a joint that sticks creeps at less
        than ε. `gravity`: g [m/s²].

    Configuration `q (3,) = (φ, θ, κ)`: rotation of the shell and of the pendulum relative to it, both
    about e_1 [rad], and κ. `u (2,) = (φ̇, θ̇)`. The ball rolls towards −e_2 as φ grows.

    **Invariants:** κ. Without friction also the energy.

    **Known solution:** held in a stand it is `PendulumInStand`. With a weightless, frictionless
    pendulum and centre, φ swings about φ_0 with ω² = k / (I_s + m_s R²).

    **Raises:** ValueError for parameters that are not physical.

    Source: Pravecek et al. 2025, eq. (8), for the rigid ball, to which `closed_form` adds the soft contact;
    Canudas de Wit et al. 1995 for friction laws that smooth Coulomb's at rest, which they compare with a
    law of their own that has the deflection of bristles as a state.
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.3)
    shell_mass: Array = parameter("mass of the shell", "kg", (), positive=True, example=5.0)
    shell_inertia: Array = parameter(
        "of the shell about its centre", "kg m²", (), positive=True, example=0.3
    )
    centre_mass: Array = parameter(
        "mass of the body that turns with the shell", "kg", (), least=0.0, example=2.0
    )
    centre_inertia: Array = parameter(
        "of that body about its centre of mass", "kg m²", (), least=0.0, example=0.05
    )
    centre_com: Array = parameter(
        "centre of mass of that body: lateral, vertical", "m", (2,), example=(0.0, -0.05)
    )
    pendulum_mass: Array = parameter("mass of the pendulum", "kg", (), least=0.0, example=6.0)
    pendulum_inertia: Array = parameter(
        "of the pendulum about its centre of mass", "kg m²", (), positive=True, example=0.2
    )
    pendulum_com: Array = parameter(
        "centre of mass of the pendulum: lateral, vertical", "m", (2,), example=(0.0, -0.1)
    )
    joint_coulomb: Array = parameter(
        "Coulomb friction of the joint", "N m", (), least=0.0, default=0.0
    )
    joint_viscous: Array = parameter(
        "viscous friction of the joint", "N m s/rad", (), least=0.0, default=0.0
    )
    contact_stiffness: Array = parameter(
        "of the soft contact", "N m/rad", (), least=0.0, default=0.0
    )
    rest_angle: Array = parameter(
        "at which the soft contact does not turn the shell", "rad", (), default=0.0
    )
    rolling_coulomb: Array = parameter(
        "Coulomb friction of rolling", "N m", (), least=0.0, default=0.0
    )
    rolling_viscous: Array = parameter(
        "viscous friction of rolling", "N m s/rad", (), least=0.0, default=0.0
    )
    slip_rate: Array = parameter(
        "below which Coulomb friction is viscous", "rad/s", (), positive=True, default=0.02
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )

    space: ClassVar[Euclidean] = Euclidean(3)
    n_constraints = 1
    state_names: ClassVar[State | None] = State(
        (
            Part(
                "coordinates",
                ("phi", "theta", "kappa"),
                "rad",
                "of shell and pendulum, and κ",
                ("φ", "θ", "κ"),
            ),
        ),
        (Part("rates", ("phi_dot", "theta_dot"), "rad/s", "of shell and pendulum", ("φ̇", "θ̇")),),
    )
    n_controls: ClassVar[int | None] = 0
    on_ground = True

    @classmethod
    def roboball(cls, **changed: Any) -> "SoftRollingPendulum":
        """RoboBall II with the parameters of its design (URDF) and its published joint friction, without soft contact.

        The soft contact does not follow from the design and has to be given or identified. `changed`: parameters with other
        values.
        """
        drawn = {
            "radius": 0.3175,
            "shell_mass": 16.53649,
            "shell_inertia": 1.04,
            "centre_mass": 2.77934,
            "centre_inertia": 0.01841,
            "centre_com": (0.0, -0.05),
            "pendulum_mass": 22.03,
            "pendulum_inertia": 0.44235,
            "pendulum_com": (0.0033714, -0.095),
            "joint_coulomb": 0.45,
            "joint_viscous": 0.204,
        }
        return cls(**(drawn | changed))

    @classmethod
    def of(cls, robot: "SoftRollingPendulum") -> "SoftRollingPendulum":
        """A system of this class with the parameters of `robot`: `PendulumInStand.of(robot)` is the robot in a stand."""
        return cls(**{field.name: getattr(robot, field.name) for field in fields(robot)})

    def __check_init__(self) -> None:
        positive = ("radius", "shell_mass", "shell_inertia", "pendulum_inertia", "slip_rate")
        _checks.check_numbers(self, positive, finite=("rest_angle", "gravity"))
        for name in _NOT_NEGATIVE:
            _checks.check_shape(name, getattr(self, name), ())
            _checks.check_not_negative(name, getattr(self, name))
        for name in ("centre_com", "pendulum_com"):
            _checks.check_shape(name, getattr(self, name), (2,), "(lateral, vertical), in m.")
        for field in fields(self):
            _checks.check_finite(field.name, getattr(self, field.name))

    # --- the system, for the general equations ---------------------------------------------

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        zero = jnp.zeros_like(q[0])
        centre = jnp.stack([zero, -self.radius * q[0], self.radius + zero])
        return (about_x(q[0]), centre), (about_x(q[0] + q[1]), centre)

    def shapes(self) -> tuple[Shape, ...]:
        across, up = np.asarray(self.pendulum_com, dtype=float)
        bob = np.array([0.0, across, up])
        arm = Shape([segment(np.zeros(3), bob)], bob[None])
        return Shape(wheel(float(self.radius), (1.0, 0.0, 0.0))), arm

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        (turn, swing, kappa), (spin, swing_rate, kappa_rate) = map(jnp.unstack, (q, v))
        half = 0.5 * (self.shell_inertia + self.shell_mass * self.radius**2) * spin**2
        bodies = (
            (self.centre_mass, self.centre_inertia, self.centre_com, turn, spin),
            (
                self.pendulum_mass,
                self.pendulum_inertia,
                self.pendulum_com,
                turn + swing,
                spin + swing_rate,
            ),
        )
        for mass, inertia, com, angle, rate in bodies:
            across, height = _turned(com, angle)
            squared = (self.radius * spin + height * rate) ** 2 + (across * rate) ** 2
            half = half + 0.5 * (mass * squared + inertia * rate**2) - mass * self.gravity * height
        lean = turn - self.rest_angle
        contact = 0.5 * self.contact_stiffness * jnp.exp(kappa) * lean**2
        return half - contact + 0.5 * kappa_rate**2

    def frame(self, t: Time, q: Configuration) -> Float[Array, "3 3"]:
        """u = (κ̇, φ̇, θ̇) = A v; the first row is the constraint κ̇ = 0."""
        return jnp.roll(jnp.eye(3, dtype=q.dtype), 1, axis=0)

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "3 3"]:
        return jnp.roll(jnp.eye(3, dtype=q.dtype), 1, axis=1)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 3"]:
        """(τ_φ, τ_θ, 0): rolling and joint friction."""
        rolling = _dry_friction(v[0], self.rolling_coulomb, self.rolling_viscous, self.slip_rate)
        joint = _dry_friction(v[1], self.joint_coulomb, self.joint_viscous, self.slip_rate)
        return jnp.stack([rolling, joint, jnp.zeros_like(joint)])

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control
    ) -> dict[str, Array]:
        return {"contact": q[2]}

    # --- closed forms and other quantities of this system --------------------------------------

    @compiled
    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Float[Array, " 2"], control: Control = None
    ) -> Float[Array, " 2"]:
        """(φ̈, θ̈), from the equations for φ and the absolute angle ψ = φ + θ, in which the mass matrix is short:

            M_11 φ̈ + M_12 ψ̈ = −m_c (g + R φ̇²) a_c − m_p R ψ̇² a_p + τ_φ − τ_θ − k e^κ (φ − φ_0)
            M_12 φ̈ + M_22 ψ̈ = −m_p g a_p + τ_θ
            M_11 = I_s + I_c + m_c |c_c|² + (m_s + m_c + m_p) R² + 2 m_c R b_c ,
            M_12 = m_p R b_p ,    M_22 = I_p + m_p |c_p|² ,

        (a, b) the lateral and vertical position of a centre of mass, turned by φ or ψ.
        Arguments as for `jaxhamel.acceleration`, whose value it equals by an independent computation.
        """
        _, q, (u,), _ = prepare(q, u, t=t, control=control)
        R, g, m_c, m_p = self.radius, self.gravity, self.centre_mass, self.pendulum_mass
        psi_dot = u[0] + u[1]
        a_c, b_c = _turned(self.centre_com, q[0])
        a_p, b_p = _turned(self.pendulum_com, q[0] + q[1])

        def smooth(w):
            return w / jnp.hypot(w, self.slip_rate)

        joint = -self.joint_coulomb * smooth(u[1]) - self.joint_viscous * u[1]
        ground = -self.rolling_coulomb * smooth(u[0]) - self.rolling_viscous * u[0]
        ground = ground - self.contact_stiffness * jnp.exp(q[2]) * (q[0] - self.rest_angle)
        M_11 = self.shell_inertia + self.centre_inertia + m_c * jnp.sum(self.centre_com**2)
        M_11 = M_11 + (self.shell_mass + m_c + m_p) * R**2 + 2 * m_c * R * b_c
        M_12 = m_p * R * b_p
        M_22 = self.pendulum_inertia + m_p * jnp.sum(self.pendulum_com**2)
        f_1 = -m_c * (g + R * u[0] ** 2) * a_c - m_p * R * psi_dot**2 * a_p + ground - joint
        f_2 = -m_p * g * a_p + joint
        determinant = M_11 * M_22 - M_12**2
        phi = (M_22 * f_1 - M_12 * f_2) / determinant
        return jnp.stack([phi, (M_11 * f_2 - M_12 * f_1) / determinant - phi])


_NOT_NEGATIVE = (
    "centre_mass",
    "centre_inertia",
    "pendulum_mass",
    "joint_coulomb",
    "joint_viscous",
    "contact_stiffness",
    "rolling_coulomb",
    "rolling_viscous",
)


def _turned(com: Float[Array, " 2"], angle: Scalar) -> tuple[Scalar, Scalar]:
    """(lateral, vertical) in space of a point of a body turned by `angle` about e_1."""
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    x, y = jnp.unstack(com)
    return x * cos - y * sin, x * sin + y * cos


def _dry_friction(rate: Scalar, coulomb: Scalar, viscous: Scalar, slip_rate: Scalar) -> Scalar:
    """−(F s(w) + c w): viscous friction, and Coulomb's law smoothed at rest so that it has derivatives there."""
    return -(coulomb / jnp.sqrt(rate * rate + slip_rate * slip_rate) + viscous) * rate
