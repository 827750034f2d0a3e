"""The Boltzmann–Hamel equations in any frame on any configuration space, constrained or not.

    d/dt p_a − E_a(ℓ) + p_b γ^b_ac u^c + (rheonomic terms) = Q_a ,     p_a = ∂ℓ/∂u^a ,     E_a = B^r_a e_r

with ℓ(t, q, u) = L(t, q, B(u − a)). Restricting a to the independent directions gives the constrained Hamel equations
(Müller 2021, eq. 14 and 22–24). Everything comes from first derivatives in exponential coordinates φ around q
(From 2012, eq. 57), where v = S(φ) φ̇ with S = 1 − ½ ad_φ + …:

    p_b γ^b_ac u^c = B^r_a [ (∂θ_r/∂φ^s − ∂θ_s/∂φ^r) v^s ] ,   θ(φ) = S(φ)ᵀ A(φ)ᵀ p,   p held fixed.

A frame that depends on time and a drift add p_c (∂A^c_r/∂t − ∂a^c/∂φ^r) inside the brackets: time is one more
coordinate, whose velocity is 1.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Velocity
from jaxhamel.geometry import hamel_contraction
from jaxhamel.mechanics._kinematics import (
    InverseFrame,
    along_motion,
    applied_force,
    covector,
    lagrangian,
    with_constraints,
)
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, overrides


class MomentumRate(NamedTuple):
    """p_a and the parts of its rate: ṗ_a = M_ai u̇^i + bias_a, i independent."""

    momentum: Float[Array, " n"]
    mass_matrix: Float[Array, "n k"]
    bias: Float[Array, " n"]


def boltzmann_hamel(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " k"]:
    """u̇ of the independent quasi-velocities from the Boltzmann–Hamel equations; unchecked, for right-hand sides."""
    inverse = InverseFrame.at(system, t, q)
    u = with_constraints(system, u)
    v = inverse.velocity(t, q, u)

    def reduced_lagrangian(t, q, u):
        """ℓ(t, q, u) = L(t, q, B(u − a)), u all n quasi-velocities."""
        return lagrangian(system, t, q, inverse.velocity(t, q, u), control)

    rate = _momentum_rate(system, reduced_lagrangian, t, q, u, v)
    force = covector(system, q, jax.grad(reduced_lagrangian, argnums=1)(t, q, u))
    force = force - hamel_force(system, t, q, v, rate.momentum)
    if overrides(system, "force"):
        force = force + applied_force(system, t, q, v, control)
    k = slice(system.n_constraints, None)
    along = inverse.independent(t, q).T @ force
    return symmetric_solve(rate.mass_matrix[k], along - rate.bias[k])


def _momentum_rate(system, reduced_lagrangian, t, q, u, v) -> MomentumRate:
    momentum = jax.grad(reduced_lagrangian, argnums=2)
    p, bias = along_motion(system, lambda t, q: momentum(t, q, u), t, q, v)
    n, m = system.space.dim, system.n_constraints
    if n == m:
        return MomentumRate(p, jnp.zeros((n, 0), u.dtype), bias)
    directions = jnp.eye(n, dtype=u.dtype)[m:]
    column = lambda e: jax.jvp(lambda u: momentum(t, q, u), (u,), (e,))[1]  # noqa: E731
    return MomentumRate(p, jax.vmap(column, out_axes=1)(directions), bias)


def hamel_force(
    system: System, t: Scalar, q: Configuration, v: Velocity, p: Float[Array, " n"]
) -> Float[Array, " n"]:
    """(∂_s θ_r − ∂_r θ_s) v^s + p_c (∂_t A^c_r − ∂_r a^c): the γ-term of the equations, as a covector dual to v."""
    if overrides(system, "frame"):
        result = hamel_contraction(lambda q: system.frame(t, q), q, p, v, system.space)
        _, turning = jax.jvp(lambda t: system.frame(t, q).T @ p, (t,), (jnp.ones_like(t),))
        result = result + turning
    else:
        result = -(system.space.ad(v).T @ p)
    if overrides(system, "drift"):
        gradient = jax.grad(lambda q: jnp.dot(p, system.drift(t, q)))(q)
        result = result - covector(system, q, gradient)
    return result


def momentum_of(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control
) -> Float[Array, " n"]:
    """p_a = ∂ℓ/∂u^a = B^r_a ∂L/∂v^r, all n components."""
    gradient = jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)
    return InverseFrame.at(system, t, q)(t, q).T @ gradient
