"""The ball of Putkaradze and Rogers (2018): rolling on a plane, driven by point masses on internal rails."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, Euclidean, Product, quaternion_matrix
from jaxhamel.mechanics import (
    Constant,
    Points,
    Spins,
    acceleration,
    energy,
    symmetric_solve,
)
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Output, State
from jaxhamel.mechanics._description._drawing import Shape
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.systems._ball_on_ground import AbstractBallOnGround
from jaxhamel.systems._checks import check_ground, check_inertia, check_rails
from jaxhamel.systems._descriptions import ROLLING, ground_force, rail_parameters
from jaxhamel.systems._own_equations import own_equations
from jaxhamel.systems._rails import unit_of_rails
from jaxhamel.systems._terrain import Terrain


class RollingBall(AbstractBallOnGround):
    """A ball that rolls without slipping on the plane z = 0, or on uneven ground, while n point masses move along rails
    inside it.

        L = ½ m_0 |ṙ_0|² + ½ Ω·I Ω + Σ_i ½ m_i |ṙ_i|² − g Σ_i m_i e₃·r_i ,   r_i = z + Λ χ_i ,   χ_i = ζ_i(θ_i(t))
        ż = ω × r e₃ ,   ω = Λ Ω                                                       (two constraint one-forms)

    i = 0 is the shell's centre of mass, z the geometric centre, χ_i are in the body frame. Solved for dΩ/dt this is
    Putkaradze–Rogers eq. (B.8), which `closed_form` evaluates as an independent check.

    **Arguments:**

    - `radius`: r [m].
    - `shell_mass`: m_0 [kg]; `shell_inertia`: I about the shell's own centre of mass [kg m²], `(3,)` principal or `(3, 3)`;
      `shell_com`: χ_0 from the geometric centre, body frame [m], `(3,)`.
    - `masses`: m_i [kg], `(n,)`; zero is allowed. `rails`: θ `(n,)` → body-frame positions `(n, 3)` [m].
    - `gravity`: g [m/s²], along −z, or on inclined ground along −e.
    - `slope`: (s_x, s_y) = (tan α_x, tan α_y), the rise of the ground along x and y; None for level ground. Coordinates are
      those of the ground, z along its normal, and the vertical is e = (s_x, s_y, 1)/√(1 + s_x² + s_y²) in place of e₃.
    - `ground`: a callable of x `(2,)` with the height of uneven ground at x = (x, y) [m], such as `Terrain`, or with the
      point p(x) of a surface, `(3,)`; None for the plane. The ball rolls on the side of its normal
      (`geometry.surface_axes`); ż = ω × r n. See `fit` for ground that bends more than the ball.
    - `external_force`: F_e on the geometric centre, space frame [N], `(3,)`; None for none.

    Configuration `q = (quaternion (4,), position (2,))`, with the coordinates x of the contact point; quasi-velocities
    `u = Ω` `(3,)` [rad/s], control θ(t) `(n,)`, a callable whose rates come from autodiff; a constant keeps the masses
    where they are.

    **Invariants:** energy, where the masses stand still and no force acts; on level ground for a homogeneous empty ball ω,
    for an empty ball with its centre of mass in its centre Λ[I Ω + m r² (Ω − Γ Γ·Ω)]; for a homogeneous empty ball in or
    on a sphere ω·n.

    **Known solution:** a homogeneous empty ball goes straight on at constant ω. With masses at rest below its centre the
    ball is a pendulum: in a plane it is `ActuatedDisk`. In a vertical cylinder a homogeneous ball goes round at a constant
    rate φ̇ and rises and falls at the frequency φ̇ √(I/(I + m r²)).

    **Raises:** `ValueError` for parameters that are not physical.

    Source: Putkaradze and Rogers 2018, eq. (3.23), (B.8); the momentum of an empty ball is Müller's (2021), eq. (142).
    The ball in a cylinder: Neimark and Fufaev 1972.
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.2)
    shell_mass: Array = parameter("mass of the shell", "kg", (), positive=True, example=1.0)
    shell_inertia: Array = parameter(
        "about the shell's centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.02, 0.025, 0.03),
    )
    shell_com: Array = parameter(
        "centre of mass of the shell, body frame", "m", (3,), default=(0.0, 0.0, 0.0)
    )
    masses: Array = parameter("the moving masses, one for each rail", "kg", ("n",), default=())
    rails: Callable[[Array], Array] | None = None
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )
    external_force: Array | None = parameter(
        "on the geometric centre, space frame", "N", (3,), none_as=(0.0, 0.0, 0.0), default=None
    )
    slope: Array | None = parameter(
        "rise of the ground along x and y", "m/m", (2,), none_as=(0.0, 0.0), default=None
    )
    ground: Terrain | Callable[[Array], Array] | None = parameter(
        "heights of uneven ground; a plane if absent", default=None
    )

    space: ClassVar[Product] = Product(SO3(), Euclidean(2))
    prescribed_motion = True
    state_names: ClassVar[State | None] = ROLLING

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "shell_mass"), finite=("gravity",))
        check_inertia("shell_inertia", self.shell_inertia)
        _checks.check_shape("shell_com", self.shell_com, (3,))
        _checks.check_finite("shell_com", self.shell_com)
        _checks.check_shape("masses", self.masses, ("n_masses",))
        _checks.check_not_negative("masses", self.masses)
        if self.external_force is not None:
            _checks.check_shape("external_force", self.external_force, (3,))
            _checks.check_finite("external_force", self.external_force)
        if self.slope is not None:
            _checks.check_shape("slope", self.slope, (2,))
            _checks.check_finite("slope", self.slope)
        check_ground(self.ground)
        check_rails(self.rails, self.n_masses)

    @property
    def n_masses(self) -> int:
        """n, the number of moving masses."""
        return self.masses.shape[0]

    # --- the system, for the general equations -------------------------------------------------------------

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.n_masses

    @property
    def unit_of_parts(self) -> str:
        """The unit of θ, as the rails give it."""
        return unit_of_rails(self.rails)

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        return (
            *rail_parameters(self, t, control),
            ground_force(self, t, q, u, control, self.gravity * jnp.sum(self._all_masses())),
            *self._fit_output(q),
        )

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(sphere=float(self.radius)),)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity, control: Control = None) -> Scalar:
        """The Lagrangian of the ball without its rolling constraints (rows of the frame), from velocities in body axes."""
        rotation = quaternion_matrix(q[0])
        omega = v[:3]
        centre = self._centre_velocity(q, v[3:])
        chi, chi_dot = self._positions_and_rates(t, control)
        velocities = centre[None, :] + _cross(omega, chi) + chi_dot
        mass = self._all_masses()
        spin = 0.5 * jnp.dot(omega, inertia_matrix(self.shell_inertia) @ omega)
        height = chi @ self._vertical(rotation) + self._height(q)
        squared = jnp.sum(velocities * velocities, axis=1)
        return spin + jnp.dot(mass, 0.5 * squared - self.gravity * height)

    def frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """u = A v: the slip of the contact point, on the plane (ẋ − r ω_y, ẏ + r ω_x), ω = Λ Ω; then Ω."""
        return self._rolling_frame(q)

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "5 5"]:
        """B = A⁻¹ in closed form."""
        return self._rolling_inverse_frame(q)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " 5"]:
        """F_e acts at the geometric centre, so only its part along the ground does work: (0, 0, 0, F_e·∂c/∂x); on the plane
        (0, 0, 0, F_x, F_y).
        """
        if self.external_force is None:
            return jnp.zeros(5, v.dtype)
        axes, advance = self._footing(q)
        along = axes[:2] @ self._body_force(q)
        work = along if advance is None else along @ advance
        return jnp.concatenate([jnp.zeros(3, v.dtype), work])

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """Shell and masses as bodies in body axes. The contact point is at rest: V_i = Ω × s_i + χ̇_i with s_i = rΓ +
        χ_i.
        """
        gamma = self._axes_in_body(q)[2]
        omega = v[:3]
        chi, chi_dot = self._positions_and_rates(t, control)
        mass = self._all_masses()
        velocity = _cross(omega, chi + self.radius * gamma[None, :]) + chi_dot
        up = self._vertical(quaternion_matrix(q[0]))
        weight = mass[:, None] * (-self.gravity * up)[None, :]
        points = Points(mass, velocity, weight, omega)
        spin = Spins(
            inertia_matrix(self.shell_inertia)[None], omega[None], jnp.zeros_like(omega)[None]
        )
        return (
            (points, spin) if self.external_force is None else (points, spin, self._push(q, omega))
        )

    def _push(self, q: Configuration, omega: Vector3) -> Points:
        """F_e as a point without mass at the geometric centre."""
        velocity = jnp.cross(omega, self.radius * self._axes_in_body(q)[2])
        no_mass = jnp.zeros(1, omega.dtype)
        return Points(no_mass, velocity[None], self._body_force(q)[None], omega)

    def invariants(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> dict[str, Array]:
        still = self.n_masses == 0 or isinstance(control, Constant)
        return (
            {"energy": energy(self, t, q, u, control)}
            if still and self.external_force is None
            else {}
        )

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives one θ for each mass."""
        if self.n_masses:
            check_control_value(t, control, (self.n_masses,), "the masses' positions theta")

    # --- closed forms and other quantities of this system ------------------------------------------------------

    @compiled
    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """dΩ/dt from Putkaradze–Rogers (B.8), solved for it:

            (I − Σ m_i ŝ_i²) Ω̇ = −Ω × I Ω − r Γ̃ × Γ − Σ m_i s_i × (g Γ + Ω × (Ω × χ_i + 2 χ̇_i) + χ̈_i)

        with Γ = Λᵀ e₃, Γ̃ = Λᵀ F_e; on inclined ground g Λᵀ e in place of g Γ. On uneven ground Γ = Λᵀ n, g Λᵀ e₃ stands
        in place of g Γ, and Ω × r Λᵀ ṅ is added to χ̈_i. Arguments as for `jaxhamel.acceleration`, whose value it equals
        by an independent computation.
        """
        t, q, (omega,), control = prepare(q, u, t=t, control=control)
        rotation = quaternion_matrix(q[0])
        gamma, up = self._axes_in_body(q)[2], self._vertical(rotation)
        chi, rest = self._accelerations_at_rest(t, q, omega, control)
        arm = chi + self.radius * gamma[None, :]
        mass = self._all_masses()
        inertia = inertia_matrix(self.shell_inertia)
        push = self.radius * jnp.cross(self._body_force(q), gamma)
        moment = jnp.cross(arm, rest + self.gravity * up[None, :])
        right = jnp.cross(omega, inertia @ omega) + push + mass @ moment
        square = jnp.sum(arm * arm, axis=1)
        outer = jnp.einsum("i,ij,ik->jk", mass, arm, arm)
        about_contact = inertia + jnp.dot(mass, square) * jnp.eye(3, dtype=inertia.dtype) - outer
        return -symmetric_solve(about_contact, right)

    @compiled
    @own_equations
    def contact_force(
        self, t: Time, q: Configuration, u: Vector3, control: Control = None
    ) -> Vector3:
        """Force of the ground on the ball along t₁, t₂ and n, on the plane in space axes [N]:

            F_c = Λ Σ m_i (g Γ + Ω̇ × s_i + Ω × (Ω × χ_i + 2 χ̇_i) + χ̈_i) − F_e ,

        on inclined or uneven ground with the changes of `closed_form`. Its
        first two components are the multipliers of the rolling
        constraints. Arguments as for `jaxhamel.acceleration`.
        """
        t, q, (omega,), control = prepare(q, u, t=t, control=control)
        omega_dot = acceleration(self, t, q, omega, control)
        rotation = quaternion_matrix(q[0])
        axes = self._axes_in_body(q)
        chi, rest = self._accelerations_at_rest(t, q, omega, control)
        arm = chi + self.radius * axes[2][None, :]
        body = rest + _cross(omega_dot, arm) + self.gravity * self._vertical(rotation)[None, :]
        return axes @ (self._all_masses() @ body - self._body_force(q))

    def mass_positions(self, t: Time, control: Control) -> Float[Array, "n 3"]:
        """ζ_i(θ_i(t)): the moving masses in the body frame [m]."""
        return self._rail_positions(t, control)

    def _rail_positions(self, t, control):
        if self.n_masses == 0:
            return jnp.zeros((0, 3), self.radius.dtype)
        return self.rails(control(t))  # pyright: ignore[reportOptionalCall]

    def _positions_and_rates(self, t, control):
        """χ_i and χ̇_i, i = 0 … n, the shell's centre of mass first."""

        def positions(t):
            return self._rail_positions(t, control)

        chi, chi_dot = jax.jvp(positions, (t,), (jnp.ones_like(t),))
        shell = self.shell_com[None, :]
        return jnp.concatenate([shell, chi]), jnp.concatenate([jnp.zeros_like(shell), chi_dot])

    def _accelerations_at_rest(self, t, q, omega, control):
        """χ_i, and Ω × (Ω × χ_i + 2 χ̇_i) + χ̈_i: the accelerations in body axes without the part of Ω̇; on uneven ground
        with that of its bend.
        """
        (chi, chi_dot), (_, chi_ddot) = jax.jvp(
            lambda t: self._positions_and_rates(t, control), (t,), (jnp.ones_like(t),)
        )
        rest = _cross(omega, _cross(omega, chi) + 2.0 * chi_dot) + chi_ddot
        bend = self._acceleration_of_bend(q, omega)
        return chi, rest if bend is None else rest + bend[None, :]

    def _all_masses(self) -> Float[Array, " n+1"]:
        return jnp.concatenate([self.shell_mass[None], self.masses])

    def _upwards(self) -> Vector3:
        """e, the unit vector along the vertical, in the axes of the ground."""
        slope = jnp.zeros(2, self.gravity.dtype) if self.slope is None else self.slope
        return jnp.concatenate([slope, jnp.ones_like(slope[:1])]) / jnp.sqrt(1.0 + slope @ slope)

    def _vertical(self, rotation: Float[Array, "3 3"]) -> Vector3:
        """Λᵀ e: the vertical in body axes."""
        return rotation[2] if self.slope is None else self._upwards() @ rotation

    def _height(self, q: Configuration) -> Scalar:
        """e·z, the height of the geometric centre along the vertical."""
        if self.slope is None and self.ground is None:
            return self.radius
        return jnp.dot(self._upwards(), self.centre(q))

    def _body_force(self, q: Configuration) -> Vector3:
        if self.external_force is None:
            return jnp.zeros(3, q[0].dtype)
        return self.external_force @ quaternion_matrix(q[0])


def _cross(vector: Vector3, rows: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    return jnp.cross(jnp.broadcast_to(vector[None, :], rows.shape), rows)
