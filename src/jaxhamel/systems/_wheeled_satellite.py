"""A satellite with reaction wheels in any coordinates: its wheels, Lagrangian and equations of motion."""

from abc import abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control, Scalar, Time, Velocity
from jaxhamel.geometry import (
    SO3,
    quaternion_multiply,
    quaternion_rotate,
)
from jaxhamel.mechanics import Spins, System, symmetric_solve
from jaxhamel.mechanics._checks._system import check_control_value
from jaxhamel.mechanics._description._drawing import Place, Shape, box_of, wheel
from jaxhamel.mechanics._description._parameters import parameter
from jaxhamel.systems._own_equations import own_equations


class AbstractSatellite(System):
    """Base class of satellites with wheels of axial inertia J_i about unit axes a_i, driven by motors.

    L = ½ V·L_0 V + V·K φ̇ + ½ Σ J_i φ̇_i² ,    K_i = (J_i a_i, 0)
    """

    wheel_axes: Array = parameter(
        "unit vectors along the wheels' axes, body frame",
        "",
        ("n", 3),
        example=((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)),
    )
    wheel_inertias: Array = parameter(
        "of the wheels about their axes", "kg m²", ("n",), positive=True, example=(0.05, 0.05)
    )

    def _check_wheels(self) -> None:
        _checks.check_shape("wheel_axes", self.wheel_axes, ("n", 3), "One unit vector a wheel.")
        _checks.check_unit_vectors("wheel_axes", self.wheel_axes)
        wheels = self.wheel_axes.shape[:1]
        _checks.check_shape("wheel_inertias", self.wheel_inertias, wheels, "One entry a wheel.")
        _checks.check_positive("wheel_inertias", self.wheel_inertias)

    @abstractmethod
    def locked_inertia(self) -> Float[Array, "6 6"]:
        """L_0 of V = (ω, v): the whole satellite, wheels locked."""

    def coupling(self) -> Float[Array, "6 n"]:
        """K = ∂Π/∂φ̇: columns (J_i a_i, 0)."""
        spin = self.wheel_inertias[None] * self.wheel_axes.T
        return jnp.concatenate([spin, jnp.zeros_like(spin)])

    def body_momentum(self, v: Velocity) -> Float[Array, " 6"]:
        """Π = L_0 V + K φ̇ (angular about the frame's origin, linear) [N m s, N s], along the frame's axes."""
        return self.locked_inertia() @ v[:6] + self.coupling() @ v[6:]

    @property
    def n_controls(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """One torque for each wheel."""
        return self.wheel_inertias.shape[0]

    @abstractmethod
    def _hull(self, q: Configuration) -> Place:
        """The pose of the body frame."""

    @abstractmethod
    def _wheel_centres(self) -> Array:
        """Positions at which the wheels are drawn, body frame [m], `(n, 3)`."""

    def places(self, t: Time, q: Configuration, control: Control) -> tuple[Any, ...]:
        hull, origin = self._hull(q)
        found = [(hull, origin)]
        for angle, axis, at in zip(q[1], self.wheel_axes, self._wheel_centres(), strict=True):
            turned = quaternion_multiply(hull, SO3().exp(angle * axis))
            found.append((turned, origin + quaternion_rotate(hull, at.astype(hull.dtype))))
        return tuple(found)

    def _drawn(self, inertia: Array, mass: Array, com: np.ndarray) -> tuple[Shape, ...]:
        box = [line + com[None] for line in box_of(inertia, mass)]
        size = 0.2 * max(float(np.max(np.abs(line))) for line in box)
        wheels = [Shape(wheel(size, axis)) for axis in np.asarray(self.wheel_axes, dtype=float)]
        return (Shape(box, trail=com, trail_name="centre", triad=True), *wheels)

    def lagrangian(self, t: Time, q: Configuration, v: Velocity) -> Scalar:
        body = 0.5 * jnp.dot(v[:6], self.locked_inertia() @ v[:6] + 2.0 * self.coupling() @ v[6:])
        return body + 0.5 * jnp.sum(self.wheel_inertias * v[6:] ** 2)

    def force(self, t: Time, q: Configuration, v: Velocity, control: Control) -> Float[Array, " k"]:
        """Q = (0, τ): the torques act on the wheel angles."""
        torque = jnp.zeros_like(v[6:]) if control is None else control
        return jnp.concatenate([jnp.zeros_like(v[:6]), torque])

    def check_control(self, t: Time, control: Control) -> None:
        """Checks that the control gives one torque for each wheel, or is None."""
        if control is not None:
            wheels = self.wheel_inertias.shape
            check_control_value(t, control, wheels, "wheel torques [N m]")

    def invariants(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control
    ) -> dict[str, Array]:
        kept = {"momentum": self.momentum(q, u)}
        return kept if control is not None else {**kept, "energy": self.lagrangian(t, q, u)}

    @abstractmethod
    def momentum(self, q: Configuration, u: Float[Array, " k"]) -> Float[Array, " 6"]:
        """The momentum in space: angular, and linear [N m s, N s]."""

    @own_equations
    def closed_form(
        self, t: Time, q: Configuration, u: Float[Array, " k"], control: Control = None
    ) -> Float[Array, " k"]:
        """(V̇, φ̈) with the wheels eliminated, J_i (φ̈_i + a_i·ω̇) = τ_i:

            (L_0 − Σ K_i K_iᵀ/J_i) V̇ = ad_Vᵀ Π − Σ (a_i, 0) τ_i

        `control` is a value here, the torques [N m], or None.
        """
        torque = jnp.zeros_like(u[6:]) if control is None else control
        K = self.coupling()
        reduced = self.locked_inertia() - (K / self.wheel_inertias[None]) @ K.T
        reaction = jnp.concatenate([self.wheel_axes.T @ torque, jnp.zeros(3, u.dtype)])
        base = symmetric_solve(reduced, self._gyroscopic(u) - reaction)
        return jnp.concatenate([base, torque / self.wheel_inertias - self.wheel_axes @ base[:3]])

    @abstractmethod
    def _gyroscopic(self, u: Float[Array, " k"]) -> Float[Array, " 6"]:
        """The gyroscopic term ad_Vᵀ Π of Π̇."""

    def _spins(
        self, hull: Float[Array, "3 3"], wheels: Float[Array, "n 3 3"], q, v, control: Control, t
    ) -> Spins:
        """The rotations as `Spins`: that of the hull in body axes, that of each wheel in axes that turn with the wheel."""
        torque = jnp.zeros_like(v[6:]) if control is None else control(t)
        exponential = SO3().exp

        def in_wheel(angle, axis, x):
            return quaternion_rotate(exponential(-angle * axis), x)

        omega = v[None, :3] + v[6:, None] * self.wheel_axes
        omega = jax.vmap(in_wheel)(q[1], self.wheel_axes, omega)
        on_wheels = torque[:, None] * self.wheel_axes
        return Spins(
            jnp.concatenate([hull[None], wheels]),
            jnp.concatenate([v[None, :3], omega]),
            jnp.concatenate([-jnp.sum(on_wheels, axis=0)[None], on_wheels]),
        )
