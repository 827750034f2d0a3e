"""A rolling ball with pendula inside, each driven by a torque."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Velocity
from jaxhamel.geometry import SO3, quaternion_matrix, quaternion_multiply, quaternion_rotate
from jaxhamel.mechanics import Points, Spins
from jaxhamel.mechanics._description._declarations import State
from jaxhamel.mechanics._description._drawing import Shape, segment
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_ground, check_inertia, check_inertias, check_pendula
from jaxhamel.systems._descriptions import driven
from jaxhamel.systems._driven_ball import AbstractDrivenBall, Wrench, cross_rows, unit_axes
from jaxhamel.systems._terrain import Terrain


class RollingPendulumBall(AbstractDrivenBall):
    """A ball that rolls without slipping on the plane z = 0, with n pendula in it, each driven about an axis of the ball.

        L = ½ m_0 |ṙ_0|² + ½ Ω·I Ω + Σ_i (½ m_i |ṙ_i|² + ½ ω_i·J_i ω_i) − g Σ_i m_i e₃·r_i
        r_i = z + Λ χ_i ,  χ_i = b_i + R_i c_i ,  R_i = exp(θ_i â_i) ,  ω_i = R_iᵀ Ω + θ̇_i a_i
        ż = ω × r e₃ ,  ω = Λ Ω                                                (two constraint one-forms)

    i = 0 is the shell, z the geometric centre. The masses of `RollingBall` have a prescribed motion θ(t), whereas a
    pendulum is driven by a torque. `drive_torques` gives the torques that produce a given motion θ(t).

    **Arguments:**

    - `radius`: r [m].
    - `shell_mass`: m_0 [kg]; `shell_inertia`: I about the shell's own centre of mass [kg m²], `(3,)` principal or `(3, 3)`;
      `shell_com`: χ_0 from the geometric centre, body frame [m], `(3,)`.
    - `masses`: m_i [kg], `(n,)`.
    - `inertias`: J_i about the pendulum's own centre of mass [kg m²], `(n, 3)` principal or `(n, 3, 3)`, in axes that
      are those of the ball at θ_i = 0. Zero for a point mass.
    - `pivots`: b_i, a point of each axis [m], `(n, 3)`; `axes`: a_i, unit vectors, `(n, 3)`; θ_i counts right-handed.
    - `coms`: c_i, from the pivot to the pendulum's centre of mass where θ_i = 0, body frame [m], `(n, 3)`.
    - `gravity`: g [m/s²], along −z.
    - `ground`: heights of uneven ground, or a surface, as for `RollingBall`; None for the plane.

    Configuration `q = (quaternion (4,), position (2,), angles (n,))`; quasi-velocities `u = (Ω, θ̇)` `(3 + n,)` [rad/s];
    control: the torques τ `(n,)` [N m] of the ball on the pendula, a callable of t or a constant; None for none.

    **Invariants:** energy, where no torque acts; with constant torques the energy less their work, E − τ·θ.

    **Known solution:** one free pendulum about a horizontal axis through the centre, in a ball that rolls across it: with
    A = I + (m_0 + m) r², φ the angle rolled and ψ the pendulum's in space, P = A φ̇ − m r l cos ψ ψ̇ is constant and ψ
    swings or turns with the period ∮ dψ/ψ̇ of E = P²/2A + ½ (J + m l² − (m r l cos ψ)²/A) ψ̇² − m g l cos ψ. In general
    `closed_form` has Newton's and Euler's laws about the point of contact.

    **Raises:** `ValueError` for parameters that are not physical, and for a pendulum without inertia about its axis.

    Source: Putkaradze and Rogers 2018, eq. (B.8), and in addition the equations of motion of the pendula.
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
        "centre of mass of the shell, body frame", "m", (3,), example=(0.0, 0.0, 0.0)
    )
    masses: Array = parameter("of the pendula", "kg", ("n",), positive=True, example=(0.5,))
    inertias: Array = parameter(
        "of the pendula about their centres of mass, principal or matrices; zeros for point masses",
        "kg m²",
        (("n", 3), ("n", 3, 3)),
        example=((0.0, 0.0, 0.0),),
    )
    pivots: Array = parameter(
        "a point of each axis, body frame", "m", ("n", 3), example=((0.0, 0.0, 0.0),)
    )
    axes: Array = parameter(
        "unit vectors along the axes, body frame", "", ("n", 3), example=((1.0, 0.0, 0.0),)
    )
    coms: Array = parameter(
        "from pivot to centre of mass at angle 0, body frame",
        "m",
        ("n", 3),
        example=((0.0, 0.0, -0.1),),
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )
    ground: Terrain | Callable[[Array], Array] | None = parameter(
        "heights of uneven ground; a plane if absent", default=None
    )

    state_names: ClassVar[State | None] = driven("angle")

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "shell_mass"), finite=("gravity",))
        check_inertia("shell_inertia", self.shell_inertia)
        _checks.check_shape("shell_com", self.shell_com, (3,))
        _checks.check_finite("shell_com", self.shell_com)
        _checks.check_shape("masses", self.masses, ("n",), "One entry for each pendulum.")
        _checks.check_positive("masses", self.masses)
        for name in ("pivots", "axes", "coms"):
            _checks.check_shape(
                name, getattr(self, name), (self.n_drives, 3), "One row for each pendulum."
            )
            _checks.check_finite(name, getattr(self, name))
        _checks.check_unit_vectors("axes", self.axes)
        check_inertias("inertias", self.inertias, self.n_drives)
        check_pendula(self.masses, self._own_inertias(), self.axes, self.coms)
        check_ground(self.ground)

    @property
    def n_drives(self) -> int:
        """n, the number of pendula."""
        return self.masses.shape[0]

    def weight(self) -> Array:
        return self.gravity * jnp.sum(self._all_masses())

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        centre = self.centre(q)
        at = [(q[0], centre)]
        for angle, axis, pivot in zip(q[2], unit_axes(self.axes), self.pivots, strict=True):
            turned = quaternion_multiply(q[0], SO3().exp(angle * axis))
            at.append((turned, centre + quaternion_rotate(q[0], pivot)))
        return tuple(at)

    def shapes(self) -> tuple[Shape, ...]:
        arms = [Shape([segment(np.zeros(3), com)], com[None]) for com in np.asarray(self.coms)]
        return (Shape(sphere=float(self.radius)), *arms)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        """The Lagrangian of the ball without its rolling constraints (rows of the frame), from velocities in body axes."""
        rotation = quaternion_matrix(q[0])
        centre = self._centre_velocity(q, v[3:5])
        chi, slope, turned = self._pose(q[2])
        velocity = centre[None] + cross_rows(v[None, :3], chi) + _with_shell(v[5:, None] * slope)
        mass = self._all_masses()
        spins = self._spins(turned, v[:3], v[5:])
        turning = 0.5 * jnp.einsum("bi,bij,bj->", spins.omega, spins.inertia, spins.omega)
        height = chi @ rotation[2] + self.centre(q)[2]
        squared = jnp.sum(velocity * velocity, axis=1)
        return turning + jnp.dot(mass, 0.5 * squared - self.gravity * height)

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The masses as points in the ball's axes, with V_i = Ω × s_i + θ̇_i χ_i′ since the contact point is at rest; the
        rotations, each in its own body's axes.
        """
        up, normal = quaternion_matrix(q[0])[2], self._axes_in_body(q)[2]
        omega, rates = v[:3], v[5:]
        chi, slope, turned = self._pose(q[2])
        mass = self._all_masses()
        arm = chi + self.radius * normal[None]
        velocity = cross_rows(omega[None], arm) + _with_shell(rates[:, None] * slope)
        weight = -self.gravity * mass[:, None] * up[None]
        torque = self._torques(t, v.dtype, control)[:, None] * unit_axes(self.axes)
        reaction = -jnp.sum(torque, axis=0)[None]
        points = Points(mass, velocity, weight, omega)
        return points, self._spins(turned, omega, rates, jnp.concatenate([reaction, torque]))

    def newton_euler(self, q: Configuration, u: QuasiVelocity, u_dot: Float[Array, " k"]) -> Wrench:
        up, normal = quaternion_matrix(q[0])[2], self._axes_in_body(q)[2]
        (omega, rates), (omega_dot, seconds) = (u[None, :3], u[3:, None]), (u_dot[:3], u_dot[3:])
        chi, slope, turned = self._pose(q[2])
        axes, arm = unit_axes(self.axes), chi + self.radius * normal[None]
        chi_dot = _with_shell(rates * slope)
        chi_ddot = _with_shell(seconds[:, None] * slope + rates**2 * cross_rows(axes, slope))
        moving = cross_rows(omega, cross_rows(omega, chi) + 2.0 * chi_dot) + chi_ddot
        if (bend := self._acceleration_of_bend(q, u[:3])) is not None:
            moving = moving + bend[None]
        needed = moving + cross_rows(omega_dot[None], arm) + self.gravity * up[None]
        force = self._all_masses()[:, None] * needed

        inertia = jnp.einsum("bij,bjk,blk->bil", turned, self._own_inertias(), turned)
        spin = omega + rates * axes
        spin_dot = omega_dot[None] + seconds[:, None] * axes + rates * cross_rows(omega, axes)
        couple = _euler(inertia, spin, spin_dot)
        shell = _euler(inertia_matrix(self.shell_inertia)[None], omega, omega_dot[None])
        moment = jnp.sum(cross_rows(arm, force), axis=0) + jnp.sum(couple, axis=0) + shell[0]
        torques = jnp.sum(axes * couple + slope * force[1:], axis=1)
        return Wrench(jnp.sum(force, axis=0), moment, torques)

    def pendulum_positions(self, angles: Float[Array, " n"]) -> Float[Array, "n 3"]:
        """χ_i = b_i + R_i c_i: the pendula's centres of mass in the body frame [m]."""
        return self._pose(angles)[0][1:]

    def _pose(self, angles: Float[Array, " n"]) -> tuple[Array, Array, Array]:
        """χ_i for i = 0 … n; dχ_i/dθ_i and R_i for i = 1 … n."""
        turned = _rotations(unit_axes(self.axes), angles)
        arm = jnp.einsum("nij,nj->ni", turned, self.coms)
        chi = jnp.concatenate([self.shell_com[None], self.pivots + arm])
        return chi, cross_rows(unit_axes(self.axes), arm), turned

    def _spins(self, turned, omega, rates, torque=None) -> Spins:
        """The rotations of the shell and the pendula as `Spins`, each in its own axes."""
        own = jnp.einsum("nji,j->ni", turned, omega) + rates[:, None] * unit_axes(self.axes)
        inertia = jnp.concatenate([inertia_matrix(self.shell_inertia)[None], self._own_inertias()])
        spin = jnp.concatenate([omega[None], own])
        return Spins(inertia, spin, jnp.zeros_like(spin) if torque is None else torque)

    def _own_inertias(self) -> Float[Array, "n 3 3"]:
        if self.inertias.ndim == 2:
            return self.inertias[:, :, None] * jnp.eye(3, dtype=self.inertias.dtype)[None]
        return 0.5 * (self.inertias + jnp.swapaxes(self.inertias, 1, 2))

    def _all_masses(self) -> Float[Array, " n+1"]:
        return jnp.concatenate([self.shell_mass[None], self.masses])


def _with_shell(rows: Float[Array, "n 3"]) -> Float[Array, "n+1 3"]:
    """The rows of the pendula, preceded by a zero row for the shell, which is at rest in the body."""
    return jnp.concatenate([jnp.zeros((1, 3), rows.dtype), rows])


def _euler(inertia: Array, omega: Array, omega_dot: Array) -> Float[Array, "n 3"]:
    """K ω̇ + ω × K ω for each row, with the inertias K = `inertia`."""

    def times(rows):
        return jnp.einsum("bij,bj->bi", inertia, rows)

    return times(omega_dot) + cross_rows(omega, times(omega))


def _rotations(axes: Float[Array, "n 3"], angles: Float[Array, " n"]) -> Float[Array, "n 3 3"]:
    """exp(θ_i â_i) = cos θ_i 1 + sin θ_i â_i + (1 − cos θ_i) a_i a_iᵀ."""
    x, y, z = axes[:, 0], axes[:, 1], axes[:, 2]
    zero = jnp.zeros_like(x)
    rows = ([zero, -z, y], [z, zero, -x], [-y, x, zero])
    skew = jnp.stack([jnp.stack(row, axis=1) for row in rows], axis=1)
    cos, sin = jnp.cos(angles)[:, None, None], jnp.sin(angles)[:, None, None]
    along = axes[:, :, None] * axes[:, None, :]
    return cos * jnp.eye(3, dtype=axes.dtype)[None] + sin * skew + (1.0 - cos) * along
