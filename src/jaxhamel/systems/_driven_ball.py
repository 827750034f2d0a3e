"""Base class of rolling balls with drives inside, whose torques are the control.

A drive is a degree of freedom: its angle is part of the configuration, its torque is the control, and the reaction acts on
the ball. With F and M_P the force and the moment about the contact point P that a motion requires, and τ the torques,

    M_P(q, u, u̇) = 0 ,      τ(q, u, u̇) = control(t) ,      F_c = F(q, u, u̇) ,

all affine in u̇ = (Ω̇, θ̈). A subclass defines (F, M_P, τ); this class solves these equations for the motion or for the
torques.
"""

from abc import abstractmethod
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import (
    Configuration,
    Control,
    QuasiVelocity,
    Time,
    Vector3,
    Velocity,
)
from jaxhamel.geometry import SO3, Euclidean, Product
from jaxhamel.mechanics import Constant, acceleration, energy, symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._declarations import Output
from jaxhamel.mechanics._kinematics import prepare
from jaxhamel.systems._ball_on_ground import AbstractBallOnGround
from jaxhamel.systems._descriptions import ground_force
from jaxhamel.systems._own_equations import own_equations


class Wrench(NamedTuple):
    """Force F [N], moment M_P about the contact point and drive torques τ [N m] that a motion requires; in body axes."""

    force: Vector3
    moment: Vector3
    torques: Float[Array, " n"]


class AbstractDrivenBall(AbstractBallOnGround):
    """A ball with n driven angles: q = (quaternion, position, angles), u = (Ω, rates of the angles)."""

    @property
    @abstractmethod
    def n_drives(self) -> int:
        """n, the number of drives."""

    @abstractmethod
    def newton_euler(self, q: Configuration, u: QuasiVelocity, u_dot: Float[Array, " k"]) -> Wrench:
        """(F, M_P, τ) of the motion with the given u̇, by Newton's and Euler's laws in the body frame; unchecked."""

    @property
    def space(self) -> Product:  # pyright: ignore[reportIncompatibleVariableOverride]
        """SO(3) × R² × Rⁿ: the drives' angles are not wrapped, so that turns are counted."""
        return Product(SO3(), Euclidean(2), Euclidean(self.n_drives))

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One torque for each drive."""
        return self.n_drives

    def outputs(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> tuple[Output, ...]:
        return ground_force(self, t, q, u, control, self.weight()), *self._fit_output(q)

    @abstractmethod
    def weight(self) -> Array:
        """Weight of the whole ball [N]."""

    def frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """u = A v: the slip of the contact point, on the plane (ẋ − r ω_y, ẏ + r ω_x), then Ω, then the rates of the
        angles.
        """
        return _block_and_identity(self._rolling_frame(q), self.n_drives)

    def inverse_frame(self, t: Time, q: Configuration) -> Float[Array, "n n"]:
        """B = A⁻¹ in closed form."""
        return _block_and_identity(self._rolling_inverse_frame(q), self.n_drives)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " n"]:
        """Q = (0, 0, τ): a torque acts between ball and drive, so it does work on the drive's relative angle only."""
        torques = jnp.zeros(self.n_drives, v.dtype) if control is None else control
        return jnp.concatenate([jnp.zeros(5, v.dtype), torques])

    def invariants(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> dict[str, Array]:
        if control is None:
            return {"energy": energy(self, t, q, u)}
        if isinstance(control, Constant):
            work = jnp.dot(control.value, q[2])
            return {"energy less the drives' work": energy(self, t, q, u) - work}
        return {}

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives one torque for each drive, or is None (no torque)."""
        if control is not None:
            check_control_value(
                t, control, (self.n_drives,), "the drives' torques, or None for no torque"
            )

    @compiled
    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
    ) -> Float[Array, " k"]:
        """u̇ from M_P = 0 and τ = control(t), by Newton's and Euler's laws, independently of the Lagrangian.

        Arguments as for `jaxhamel.acceleration`, whose value it equals.
        """
        t, q, (u,), control = prepare(q, u, t=t, control=control)
        torques = self._torques(t, u.dtype, control)
        matrix, bias = _affine(lambda u_dot: _equations(self.newton_euler(q, u, u_dot)), u)
        given = jnp.concatenate([jnp.zeros(3, u.dtype), torques])
        return symmetric_solve(matrix, given - bias)

    @compiled
    def drive_torques(
        self, q: Configuration, u: QuasiVelocity, angle_acceleration: Float[Array, " n"]
    ) -> Float[Array, " n"]:
        """The torques τ for given accelerations θ̈ of the drives' angles (inverse dynamics of the drives).

        M_P(q, u, (Ω̇, θ̈)) = 0 is solved for Ω̇; then τ = τ(q, u, (Ω̇, θ̈)).

        **Arguments:** `q`, `u` as for `jaxhamel.acceleration`; `angle_acceleration`: θ̈ `(n,)` [rad/s²].

        **Returns:** τ `(n,)` [N m]. With these torques the ball moves like one whose inner masses have the prescribed motion
        θ(t).
        """
        _, q, (u, rate), _ = prepare(q, u, angle_acceleration, t=0.0, control=None)

        def motion(omega_dot):
            return self.newton_euler(q, u, jnp.concatenate([omega_dot, rate]))

        matrix, bias = _affine(lambda omega_dot: motion(omega_dot).moment, u[:3])
        return motion(-symmetric_solve(matrix, bias)).torques

    @compiled
    @own_equations
    def contact_force(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control = None
    ) -> Vector3:
        """Force of the ground on the ball along t₁, t₂ and n, on the plane in space axes [N]: F_c = Λ Σ m_i (g Λᵀ e₃ + a_i).

        Its first two components are the multipliers of the rolling constraints. Arguments as for
        `jaxhamel.acceleration`.
        """
        t, q, (u,), control = prepare(q, u, t=t, control=control)
        u_dot = acceleration(self, t, q, u, control)
        return self._axes_in_body(q) @ self.newton_euler(q, u, u_dot).force

    def _torques(self, t: Time, dtype, control: Control) -> Float[Array, " n"]:
        return jnp.zeros(self.n_drives, dtype) if control is None else control(t)


def unit_axes(axes: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """Unit vectors along the axes; the length of an axis has no effect, neither on values nor on gradients."""
    return axes / jnp.sqrt(jnp.sum(axes * axes, axis=1, keepdims=True))


def cross_rows(a: Float[Array, "n 3"], b: Float[Array, "n 3"]) -> Float[Array, "n 3"]:
    """a_i × b_i for each row; a single row of a or b is used for all rows of the other."""
    rows = (max(a.shape[0], b.shape[0]), 3)
    return jnp.cross(jnp.broadcast_to(a, rows), jnp.broadcast_to(b, rows))


def _equations(wrench: Wrench) -> Float[Array, " k"]:
    return jnp.concatenate([wrench.moment, wrench.torques])


def _affine(function, like: Array) -> tuple[Array, Array]:
    """The matrix ∂f/∂x and the value f(0) of an affine function f of arrays like `like`, by one batched derivative."""
    zero = jnp.zeros_like(like)

    def push(tangent):
        return jax.jvp(function, (zero,), (tangent,))

    bias, columns = jax.vmap(push, out_axes=(None, 1))(jnp.eye(like.shape[0], dtype=like.dtype))
    return columns, bias


def _block_and_identity(block: Float[Array, "5 5"], n: int) -> Float[Array, "n n"]:
    """[[block, 0], [0, 1]]."""
    above, below = jnp.zeros((5, n), block.dtype), jnp.zeros((n, 5), block.dtype)
    return jnp.block([[block, above], [below, jnp.eye(n, dtype=block.dtype)]])
