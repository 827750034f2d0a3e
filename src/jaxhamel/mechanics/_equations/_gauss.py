"""Gauss' principle of least constraint: of all accelerations the constraints allow, the motion has the one that minimises

    G(u̇) = ½ Σ m |a − F/m|² + ½ Σ (I Ω̇ + Ω × I Ω − τ)·I⁻¹(I Ω̇ + Ω × I Ω − τ)      (Massa–Vignolo, eq. 12–15)

over points and bodies; Gibbs–Appell's and Kane's equations are the same normal equations Jᵀ m (a − F/m) = 0, J = ∂v/∂u.
For a system given as points and bodies this needs first derivatives of velocities only, where the Lagrangian routes need
second ones (docs/performance.md#equations-of-motion). For any other Lagrangian the metric is the mass matrix, G = ½ (v̇ −
M⁻¹f)ᵀ M (v̇ − M⁻¹f).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar
from jaxhamel.mechanics._equations._euler_lagrange import euler_lagrange, frame_bias
from jaxhamel.mechanics._kinematics import InverseFrame, derivatives, velocity_of, with_constraints
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, counts, is_ours


class Points(eqx.Module):
    """Masses at points, with velocities in any moving axes: a = V̇ + axes × V.

    **Fields:** `mass` `(b,)` [kg]; `velocity` V, `(b, 3)` [m/s], components in the chosen axes; `force` `(b, 3)` [N], in
    the same axes (a point may have a force and no mass); `axes` `(3,)` [rad/s], the axes' own angular velocity in
    themselves: zero for space axes, Ω for the axes of a body.
    """

    mass: Float[Array, " b"]
    velocity: Float[Array, "b 3"]
    force: Float[Array, "b 3"]
    axes: Float[Array, " 3"]

    def velocities(self) -> Float[Array, "b 3"]:
        """The velocities V, whose time derivatives enter Gauss' function."""
        return self.velocity

    def momentum_rate(self, rate: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """m a − F for the given rate V̇."""
        turning = jnp.cross(
            jnp.broadcast_to(self.axes[None, :], self.velocity.shape), self.velocity
        )
        return self.mass[:, None] * (rate + turning) - self.force

    def weigh(self, column: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """m J for one column J of ∂V/∂u."""
        return self.mass[:, None] * column

    def constraint(self, rate: Float[Array, "b 3"]) -> Scalar:
        """The part of these points in Gauss' function, ½ Σ m |a − F/m|² at the given V̇; −F·a for a point without mass."""
        turning = jnp.cross(
            jnp.broadcast_to(self.axes[None, :], self.velocity.shape), self.velocity
        )
        a = rate + turning
        some = self.mass > 0
        square = jnp.sum(self.force * self.force, axis=1)
        constant = jnp.where(some, 0.5 * square / jnp.where(some, self.mass, 1.0), 0.0)
        return jnp.sum((0.5 * self.mass[:, None] * a - self.force) * a) + jnp.sum(constant)


class Spins(eqx.Module):
    """Rotations of rigid bodies, in their own axes: the rate of the angular momentum is I Ω̇ + Ω × I Ω.

    **Fields:** `inertia` about the centres of mass, `(b, 3, 3)` [kg m²]; `omega` `(b, 3)` [rad/s]; `torque` about the
    centres of mass, `(b, 3)` [N m].
    """

    inertia: Float[Array, "b 3 3"]
    omega: Float[Array, "b 3"]
    torque: Float[Array, "b 3"]

    def velocities(self) -> Float[Array, "b 3"]:
        """The angular velocities Ω, whose time derivatives enter Gauss' function."""
        return self.omega

    def momentum_rate(self, rate: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """I Ω̇ + Ω × I Ω − τ."""
        return self.weigh(rate) + jnp.cross(self.omega, self.weigh(self.omega)) - self.torque

    def weigh(self, column: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """I J for one column J of ∂Ω/∂u."""
        return jnp.einsum("bij,bj->bi", self.inertia, column)

    def constraint(self, rate: Float[Array, "b 3"]) -> Scalar:
        """The part of these bodies in Gauss' function, ½ Σ (I Ω̇ + h)·I⁻¹(I Ω̇ + h) with h = Ω × I Ω − τ; Ω̇·h for an axis
        without inertia.
        """
        bias = self.momentum_rate(jnp.zeros_like(rate))
        linear = jnp.sum((0.5 * self.weigh(rate) + bias) * rate)
        inverse = jax.vmap(lambda inertia: jnp.linalg.pinv(inertia, hermitian=True))(self.inertia)
        return linear + 0.5 * jnp.einsum("bi,bij,bj->", bias, inverse, bias)


def gauss(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " k"]:
    """u̇ that minimises Gauss' function; unchecked, for right-hand sides."""
    return symmetric_solve(*normal_equations(system, t, q, u, control))


def normal_equations(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> "Normal":
    """M and f of M u̇ = f, from the system's bodies if it gives them, otherwise from its Lagrangian."""
    normal = of_bodies if has_bodies(system, t, q, u, control) else of_lagrangian
    return normal(system, t, q, u, control)


def has_bodies(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> bool:
    """Whether the system defines `bodies` that are up to date and not None."""
    if not counts(system, "bodies") or is_ours(system):
        return counts(system, "bodies")
    return system.bodies(t, q, velocity_of(system, t, q, u), control) is not None


class Normal(NamedTuple):
    """The normal equations M u̇ = f, which hold at the minimum of Gauss' function."""

    mass_matrix: Float[Array, "k k"]
    force: Float[Array, " k"]


def of_bodies(system, t, q, u, control) -> Normal:
    """M = Jᵀ m J and f = −Jᵀ (m a − F) at u̇ = 0, from bodies."""
    parts, bias, jacobian = bodies_in_motion(system, t, q, u, control)
    weighed = [jax.vmap(part.weigh)(j) for part, j in zip(parts, jacobian, strict=True)]
    residual = [part.momentum_rate(b) for part, b in zip(parts, bias, strict=True)]
    mass_matrix = _pair(jacobian, weighed, "kbi,lbi->kl")
    return Normal(mass_matrix, -_pair(jacobian, residual, "kbi,bi->k"))


def of_lagrangian(system, t, q, u, control) -> Normal:
    """M = Bᵀ (∂²L/∂v∂v) B and f = Bᵀ (f − M v̇) at u̇ = 0, from the Lagrangian."""
    mass_matrix, force, at_rest, free = lagrangian_in_motion(system, t, q, u, control)
    return Normal(free.T @ mass_matrix @ free, free.T @ (force - mass_matrix @ at_rest))


def bodies_in_motion(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """The bodies, the rates of their velocities at u̇ = 0, and J = ∂(velocities)/∂u, whose first axis is that of u."""
    inverse = InverseFrame.at(system, t, q)

    def bodies_at(t, q, u):
        v = inverse.velocity(t, q, with_constraints(system, u))
        return tuple(system.bodies(t, q, v, control))

    def bodies_and_velocities(t, q, u):
        parts = bodies_at(t, q, u)
        return parts, tuple(part.velocities() for part in parts)

    v = inverse.velocity(t, q, with_constraints(system, u))
    (parts, _), (_, bias), (_, jacobian) = derivatives(
        system, bodies_and_velocities, t, q, v, u, jnp.eye(u.shape[0], dtype=u.dtype)
    )
    return parts, bias, jacobian


def _pair(jacobian: tuple[Array, ...], others: Iterable[Array], indices: str) -> Array:
    pairs = zip(jacobian, others, strict=True)
    return jnp.sum(jnp.stack([jnp.einsum(indices, j, x) for j, x in pairs]), axis=0)


def lagrangian_in_motion(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> tuple[Array, Array, Array, Array]:
    """(M, f, at_rest, free): M v̇ = f without constraints, and the accelerations v̇ = at_rest + free u̇ that they allow."""
    inverse = InverseFrame.at(system, t, q)
    v = inverse.velocity(t, q, with_constraints(system, u))
    mass_matrix, force = euler_lagrange(system, t, q, v, control)
    at_rest = -(inverse(t, q) @ frame_bias(system, t, q, v))
    return mass_matrix, force, at_rest, inverse.independent(t, q)
