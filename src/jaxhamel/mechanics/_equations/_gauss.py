"""Gauss' principle of least constraint: of all accelerations the constraints allow, the motion has the one that minimises

    G(u̇) = ½ Σ m |a − F/m|² + ½ Σ (I Ω̇ + Ω × I Ω − τ)·I⁻¹(I Ω̇ + Ω × I Ω − τ)      (Massa–Vignolo, eq. 12–15)

with sums over points and bodies. Gibbs–Appell's and Kane's equations are the same normal equations Jᵀ m (a − F/m) = 0,
J = ∂v/∂u. For a system given as points and bodies they need only first derivatives of velocities, while the equations of
Lagrange need second derivatives (docs/performance.md#equations-of-motion). For a system given by its Lagrangian the metric
is the mass matrix, G = ½ (v̇ − M⁻¹f)ᵀ M (v̇ − M⁻¹f).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar
from jaxhamel.mechanics._equations._euler_lagrange import (
    euler_lagrange,
    frame_bias,
    momentum_rate,
)
from jaxhamel.mechanics._kinematics import InverseFrame, derivatives, velocity_of, with_constraints
from jaxhamel.mechanics._small_solve import operator_solve, symmetric_solve
from jaxhamel.mechanics._system import System, has_valid, is_ours, overrides


class Points(eqx.Module):
    """Masses at points, with velocities V in axes that may rotate: the accelerations are a = V̇ + axes × V.

    **Fields:**

    - `mass`: the masses [kg], `(b,)`; a point may have a force and no mass.
    - `velocity`: the components of V in the chosen axes [m/s], `(b, 3)`.
    - `force`: the forces in the same axes [N], `(b, 3)`.
    - `axes`: the angular velocity of the axes, in these axes [rad/s], `(3,)`: zero for space axes, Ω for the axes of a body.
    """

    mass: Float[Array, " b"]
    velocity: Float[Array, "b 3"]
    force: Float[Array, "b 3"]
    axes: Float[Array, " 3"]

    def velocities(self) -> Float[Array, "b 3"]:
        """The velocities V, on whose time derivatives Gauss' function depends."""
        return self.velocity

    def momentum_rate(self, rate: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """The vectors m a − F for the given rates V̇."""
        turning = jnp.cross(
            jnp.broadcast_to(self.axes[None, :], self.velocity.shape), self.velocity
        )
        return self.mass[:, None] * (rate + turning) - self.force

    def weigh(self, column: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """The product m J for one column J of ∂V/∂u."""
        return self.mass[:, None] * column

    def constraint(self, rate: Float[Array, "b 3"]) -> Scalar:
        """The terms ½ Σ m |a − F/m|² of these points in Gauss' function, at the given V̇; −F·a for a point without mass."""
        turning = jnp.cross(
            jnp.broadcast_to(self.axes[None, :], self.velocity.shape), self.velocity
        )
        a = rate + turning
        some = self.mass > 0
        square = jnp.sum(self.force * self.force, axis=1)
        constant = jnp.where(some, 0.5 * square / jnp.where(some, self.mass, 1.0), 0.0)
        return jnp.sum((0.5 * self.mass[:, None] * a - self.force) * a) + jnp.sum(constant)


class Spins(eqx.Module):
    """Rotations of rigid bodies, each in its own axes: the rate of its angular momentum is I Ω̇ + Ω × I Ω.

    **Fields:** `inertia`: I about the centres of mass [kg m²], `(b, 3, 3)`; `omega`: the angular velocities Ω [rad/s],
    `(b, 3)`; `torque`: τ about the centres of mass [N m], `(b, 3)`.
    """

    inertia: Float[Array, "b 3 3"]
    omega: Float[Array, "b 3"]
    torque: Float[Array, "b 3"]

    def velocities(self) -> Float[Array, "b 3"]:
        """The angular velocities Ω, on whose time derivatives Gauss' function depends."""
        return self.omega

    def momentum_rate(self, rate: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """The vectors I Ω̇ + Ω × I Ω − τ for the given rates Ω̇."""
        return self.weigh(rate) + jnp.cross(self.omega, self.weigh(self.omega)) - self.torque

    def weigh(self, column: Float[Array, "b 3"]) -> Float[Array, "b 3"]:
        """The product I J for one column J of ∂Ω/∂u."""
        return jnp.einsum("bij,bj->bi", self.inertia, column)

    def constraint(self, rate: Float[Array, "b 3"]) -> Scalar:
        """The terms ½ Σ (I Ω̇ + h)·I⁻¹(I Ω̇ + h) of these bodies in Gauss' function, with h = Ω × I Ω − τ, at the given Ω̇;
        Ω̇·h for an axis without inertia.
        """
        bias = self.momentum_rate(jnp.zeros_like(rate))
        linear = jnp.sum((0.5 * self.weigh(rate) + bias) * rate)
        inverse = jax.vmap(lambda inertia: jnp.linalg.pinv(inertia, hermitian=True))(self.inertia)
        return linear + 0.5 * jnp.einsum("bi,bij,bj->", bias, inverse, bias)


def gauss(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " k"]:
    """The accelerations u̇ that minimise Gauss' function; the arguments are not checked."""
    if has_bodies(system, t, q, u, control):
        return symmetric_solve(*of_bodies(system, t, q, u, control))
    return _from_lagrangian(system, t, q, u, control)


def _from_lagrangian(system, t, q, u, control) -> Float[Array, " k"]:
    """The solution of the normal equations of `of_lagrangian`, without the entries of the mass matrix."""
    inverse = InverseFrame.at(system, t, q)
    v = inverse.velocity(t, q, with_constraints(system, u))
    product, force = momentum_rate(system, t, q, v, control)
    is_free = system.n_independent == system.space.dim
    if is_free and not (overrides(system, "frame") or overrides(system, "drift")):
        return operator_solve(product, force)
    at_rest, free = _allowed_accelerations(system, inverse, t, q, v)
    return operator_solve(lambda x: free.T @ product(free @ x), free.T @ (force - product(at_rest)))


def normal_equations(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> "Normal":
    """The normal equations M u̇ = f, from the system's bodies if it gives them, otherwise from its Lagrangian."""
    normal = of_bodies if has_bodies(system, t, q, u, control) else of_lagrangian
    return normal(system, t, q, u, control)


def has_bodies(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> bool:
    """Whether the system defines `bodies` that are up to date and not None."""
    if not has_valid(system, "bodies") or is_ours(system):
        return has_valid(system, "bodies")
    return system.bodies(t, q, velocity_of(system, t, q, u), control) is not None


class Normal(NamedTuple):
    """The normal equations M u̇ = f, which hold at the minimum of Gauss' function."""

    mass_matrix: Float[Array, "k k"]
    force: Float[Array, " k"]


def of_bodies(system, t, q, u, control) -> Normal:
    """The normal equations with M = Jᵀ m J and f = −Jᵀ (m a − F) at u̇ = 0, from the system's bodies."""
    parts, bias, jacobian = bodies_in_motion(system, t, q, u, control)
    weighed = [jax.vmap(part.weigh)(j) for part, j in zip(parts, jacobian, strict=True)]
    residual = [part.momentum_rate(b) for part, b in zip(parts, bias, strict=True)]
    mass_matrix = _pair(jacobian, weighed, "kbi,lbi->kl")
    return Normal(mass_matrix, -_pair(jacobian, residual, "kbi,bi->k"))


def of_lagrangian(system, t, q, u, control) -> Normal:
    """The normal equations from the Lagrangian: the mass matrix Bᵀ M B with M = ∂²L/∂v∂v, and the force Bᵀ (f − M v̇) with
    v̇ at u̇ = 0; the columns of B are the free directions.
    """
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
    """The sum over all bodies of the products, by `einsum`, of their Jacobians with other arrays."""
    pairs = zip(jacobian, others, strict=True)
    return jnp.sum(jnp.stack([jnp.einsum(indices, j, x) for j, x in pairs]), axis=0)


def lagrangian_in_motion(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> tuple[Array, Array, Array, Array]:
    """The arrays (M, f, at_rest, free): M v̇ = f are the equations without constraints, and v̇ = at_rest + free u̇ are the
    accelerations that the constraints allow.
    """
    inverse = InverseFrame.at(system, t, q)
    v = inverse.velocity(t, q, with_constraints(system, u))
    mass_matrix, force = euler_lagrange(system, t, q, v, control)
    return mass_matrix, force, *_allowed_accelerations(system, inverse, t, q, v)


def _allowed_accelerations(system, inverse: InverseFrame, t, q, v) -> tuple[Array, Array]:
    """The arrays (at_rest, free) of `lagrangian_in_motion`."""
    at_rest = -(inverse(t, q) @ frame_bias(system, t, q, v))
    return at_rest, inverse.independent(t, q)
