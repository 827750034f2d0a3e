"""A rolling ball with rotors inside, each driven by a torque: a gyrostat."""

from collections.abc import Callable
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time, Vector3, Velocity
from jaxhamel.geometry import SO3, cross, quaternion_matrix, quaternion_multiply
from jaxhamel.mechanics import Points, Spins
from jaxhamel.mechanics._description._declarations import State
from jaxhamel.mechanics._description._drawing import Shape, wheel
from jaxhamel.mechanics._description._parameters import INERTIA, inertia_matrix, parameter
from jaxhamel.systems._checks import check_ground, check_inertia, check_rotors
from jaxhamel.systems._descriptions import driven
from jaxhamel.systems._driven_ball import AbstractDrivenBall, Wrench, unit_axes
from jaxhamel.systems._terrain import Terrain


class RollingRotorBall(AbstractDrivenBall):
    """A ball that rolls without slipping on the plane z = 0, with n balanced rotors driven about axes fixed in it.

        L = ½ m |ṙ|² + ½ Ω·I Ω + Σ_i j_i (½ ψ̇_i² + ψ̇_i a_i·Ω) − m g e₃·r ,   r = z + Λ χ
        ż = ω × r e₃ ,  ω = Λ Ω                                                (two constraint one-forms)

    The position of a rotor has no effect: its mass and its transverse inertia are part of the ball's.

    **Arguments:**

    - `radius`: r [m].
    - `mass`: m of the ball with its rotors [kg].
    - `inertia`: I of the ball with its rotors held, about the centre of mass [kg m²], `(3,)` principal or `(3, 3)`.
    - `axes`: a_i, unit vectors, body frame, `(n, 3)`; ψ_i counts right-handed.
    - `rotor_inertias`: j_i, moments of inertia of the rotors about their axes [kg m²], `(n,)`.
    - `com`: χ, the centre of mass from the geometric centre, body frame [m], `(3,)`; None for the centre itself.
    - `gravity`: g [m/s²], along −z; on a plane of no effect with the centre of mass in the centre.
    - `ground`: heights of uneven ground, or a surface, as for `RollingBall`; None for the plane.

    Configuration `q = (quaternion (4,), position (2,), rotor angles (n,))`; `u = (Ω, ψ̇)` `(3 + n,)` [rad/s]; control: the
    torques τ `(n,)` [N m] of the ball on the rotors, a callable of t or a constant; None for none.

    **Invariants:** on a plane, with the centre of mass in the centre, and whatever the torques, K = Λ [I Ω + Σ j_i ψ̇_i a_i +
    m r² (Ω − Γ Γ·Ω)], the angular momentum about the point of contact, in space. Energy where no torque acts (with
    constant torques E − τ·ψ), and then also every rotor's own momentum j_i (a_i·Ω + ψ̇_i).

    **Known solution:** a homogeneous ball that starts from rest with one rotor about a horizontal axis a keeps
    (I + m r²) Ω + j ψ̇ = 0 along a, so that it rolls back by r j/(I + m r²) for each radian that the rotor turns relative
    to it.

    **Raises:** `ValueError` for parameters that are not physical, and for rotors with more inertia than the whole.

    Source: Borisov, Kilin and Mamaev 2012, *How to control Chaplygin's sphere using rotors*; Putkaradze and Rogers 2018.
    """

    radius: Array = parameter("radius of the ball", "m", (), positive=True, example=0.2)
    mass: Array = parameter("of the ball with its rotors", "kg", (), positive=True, example=1.0)
    inertia: Array = parameter(
        "with the rotors held, about the centre of mass: principal moments or matrix",
        "kg m²",
        INERTIA,
        example=(0.02, 0.025, 0.03),
    )
    axes: Array = parameter(
        "unit vectors along the rotors' axes, body frame",
        "",
        ("n", 3),
        example=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    )
    rotor_inertias: Array = parameter(
        "of the rotors about their axes", "kg m²", ("n",), positive=True, example=(0.002, 0.002)
    )
    com: Array | None = parameter(
        "centre of mass from the geometric centre, body frame",
        "m",
        (3,),
        none_as=(0.0, 0.0, 0.0),
        default=None,
    )
    gravity: Array = parameter(
        "acceleration of gravity, along −z", "m/s²", (), least=0.0, default=9.81
    )
    ground: Terrain | Callable[[Array], Array] | None = parameter(
        "heights of uneven ground; a plane if absent", default=None
    )

    state_names: ClassVar[State | None] = driven("angle")

    def __check_init__(self) -> None:
        _checks.check_numbers(self, positive=("radius", "mass"), finite=("gravity",))
        check_inertia("inertia", self.inertia)
        _checks.check_shape("rotor_inertias", self.rotor_inertias, ("n",), "One for each rotor.")
        _checks.check_positive("rotor_inertias", self.rotor_inertias)
        _checks.check_shape("axes", self.axes, (self.n_drives, 3), "One row for each rotor.")
        _checks.check_unit_vectors("axes", self.axes)
        check_rotors(self.inertia, self.axes, self.rotor_inertias)
        if self.com is not None:
            _checks.check_shape("com", self.com, (3,))
            _checks.check_finite("com", self.com)
        check_ground(self.ground)

    @property
    def n_drives(self) -> int:
        """n, the number of rotors."""
        return self.rotor_inertias.shape[0]

    def weight(self) -> Array:
        return self.gravity * self.mass

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        centre = self.centre(q)
        rotors = zip(q[2], unit_axes(self.axes), strict=True)
        turned = [quaternion_multiply(q[0], SO3().exp(angle * axis)) for angle, axis in rotors]
        return ((q[0], centre), *((q, centre) for q in turned))

    def shapes(self) -> tuple[Shape, ...]:
        size, axes = float(self.radius), np.asarray(self.axes)
        rotors = [Shape(wheel(0.4 * size, axis, 0.5 * size * axis)) for axis in axes]
        return (Shape(sphere=size), *rotors)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        """The Lagrangian of the ball without its rolling constraints (rows of the frame), from velocities in body axes."""
        rotation, omega, rates = quaternion_matrix(q[0]), v[:3], v[5:]
        com = self._com(v.dtype)
        velocity = self._centre_velocity(q, v[3:5]) + cross(omega, com)
        momentum = inertia_matrix(self.inertia) @ omega + 2.0 * self._rotor_momentum(rates)
        spin = jnp.dot(omega, momentum) + jnp.dot(self.rotor_inertias, rates * rates)
        height = jnp.dot(com, rotation[2]) + self.centre(q)[2]
        kinetic = 0.5 * (self.mass * jnp.dot(velocity, velocity) + spin)
        return kinetic - self.mass * self.gravity * height

    def bodies(self, t: Time, q: Configuration, v: Velocity, control: Control) -> tuple[Any, ...]:
        """The mass as a point; the rotation of the ball, without its rotors' axial inertias; and those of the rotors, with
        the inertia j a aᵀ and the angular velocity Ω + ψ̇ a. All are in the ball's axes.
        """
        up, omega = quaternion_matrix(q[0])[2], v[:3]
        arm = self._com(v.dtype) + self.radius * self._axes_in_body(q)[2]
        weight = -self.gravity * self.mass * up
        centre = Points(self.mass[None], cross(omega, arm)[None], weight[None], omega)
        axes = unit_axes(self.axes)
        torque = self._torques(t, v.dtype, control)[:, None] * axes
        axial = self.rotor_inertias[:, None, None] * axes[:, :, None] * axes[:, None, :]
        carrier = inertia_matrix(self.inertia) - jnp.sum(axial, axis=0)
        spins = Spins(
            jnp.concatenate([carrier[None], axial]),
            jnp.concatenate([omega[None], omega[None] + v[5:, None] * axes]),
            jnp.concatenate([-jnp.sum(torque, axis=0)[None], torque]),
        )
        return centre, spins

    def newton_euler(self, q: Configuration, u: QuasiVelocity, u_dot: Float[Array, " k"]) -> Wrench:
        up, omega, omega_dot = quaternion_matrix(q[0])[2], u[:3], u_dot[:3]
        com, inertia = self._com(u.dtype), inertia_matrix(self.inertia)
        arm, bend = (
            com + self.radius * self._axes_in_body(q)[2],
            self._acceleration_of_bend(q, omega),
        )
        needed = cross(omega_dot, arm) + cross(omega, cross(omega, com)) + self.gravity * up
        needed = needed if bend is None else needed + bend
        momentum = inertia @ omega + self._rotor_momentum(u[3:])
        momentum_dot = inertia @ omega_dot + self._rotor_momentum(u_dot[3:])
        force = self.mass * needed
        moment = momentum_dot + cross(omega, momentum) + cross(arm, force)
        torques = self.rotor_inertias * (unit_axes(self.axes) @ omega_dot + u_dot[3:])
        return Wrench(force, moment, torques)

    def invariants(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> dict[str, Array]:
        found = super().invariants(t, q, u, control)
        if control is None:
            found["rotors' momenta"] = self.rotor_inertias * (unit_axes(self.axes) @ u[:3] + u[3:])
        if self.com is None and self.ground is None:
            found["momentum about the contact"] = self.contact_momentum(q, u)
        return found

    def contact_momentum(self, q: Configuration, u: QuasiVelocity) -> Vector3:
        """Angular momentum about the point of contact, in space: Λ [I Ω + Σ j_i ψ̇_i a_i + m s × (Ω × s)], s = rΓ + χ."""
        rotation, omega = quaternion_matrix(q[0]), u[:3]
        arm = self._com(u.dtype) + self.radius * self._axes_in_body(q)[2]
        own = inertia_matrix(self.inertia) @ omega + self._rotor_momentum(u[3:])
        return rotation @ (own + self.mass * cross(arm, cross(omega, arm)))

    def _rotor_momentum(self, rates: Float[Array, " n"]) -> Vector3:
        """Σ j_i ψ̇_i a_i."""
        return (self.rotor_inertias * rates) @ unit_axes(self.axes)

    def _com(self, dtype) -> Vector3:
        return jnp.zeros(3, dtype) if self.com is None else self.com
