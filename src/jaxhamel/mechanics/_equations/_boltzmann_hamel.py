"""The Boltzmann–Hamel equations in any frame on any configuration space, constrained or not.

    d/dt p_a − E_a(ℓ) + p_b γ^b_ac u^c + (rheonomic terms) = Q_a ,     p_a = ∂ℓ/∂u^a ,     E_a = B^r_a e_r

with ℓ(t, q, u) = L(t, q, B(u − a)). The equations with a restricted to the independent directions are the constrained Hamel
equations (Müller 2021, eq. 14 and 22–24). All terms are computed from first derivatives in exponential coordinates φ around
q (From 2012, eq. 57), where v = S(φ) φ̇ with S = 1 − ½ ad_φ + …:

    p_b γ^b_ac u^c = B^r_a [ (∂θ_r/∂φ^s − ∂θ_s/∂φ^r) v^s ] ,   θ(φ) = S(φ)ᵀ A(φ)ᵀ p with constant p.

A frame that depends on time and a drift add p_c (∂A^c_r/∂t − ∂a^c/∂φ^r) inside the brackets: time is one more
coordinate, whose velocity is 1.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Velocity
from jaxhamel.geometry import hamel_contraction
from jaxhamel.mechanics._kinematics import (
    InverseFrame,
    applied_force,
    covector,
    derivatives,
    lagrangian,
    with_constraints,
)
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, overrides


def boltzmann_hamel(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " k"]:
    """The accelerations u̇ of the independent quasi-velocities by the Boltzmann–Hamel equations; the arguments are not
    checked.
    """
    inverse = InverseFrame.at(system, t, q)
    u = with_constraints(system, u)
    v = inverse.velocity(t, q, u)

    def reduced_lagrangian(t, q, u):
        """The Lagrangian ℓ(t, q, u) = L(t, q, B(u − a)) as a function of all n quasi-velocities u."""
        return lagrangian(system, t, q, inverse.velocity(t, q, u), control)

    gradients = jax.grad(reduced_lagrangian, argnums=(2, 1))
    free = slice(system.n_constraints, None)
    directions = jnp.eye(u.shape[0], dtype=u.dtype)[free]
    # the values p_a and e_r(ℓ); the rate ∂p/∂t + v(p) at fixed u; the derivatives M_ia = ∂p_a/∂u^i
    (p, gradient), (bias, _), (mass_matrix, _) = derivatives(
        system, gradients, t, q, v, u, directions
    )
    force = covector(system, q, gradient)
    force = force - hamel_force(system, t, q, v, p)
    if overrides(system, "force"):
        force = force + applied_force(system, t, q, v, control)
    along = inverse.independent(t, q).T @ force
    return symmetric_solve(mass_matrix[:, free], along - bias[free])


def hamel_force(
    system: System, t: Scalar, q: Configuration, v: Velocity, p: Float[Array, " n"]
) -> Float[Array, " n"]:
    """The term with γ of the equations as a covector dual to v, (∂_s θ_r − ∂_r θ_s) v^s + p_c (∂_t A^c_r − ∂_r a^c)."""
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
    """The momenta p_a = ∂ℓ/∂u^a = B^r_a ∂L/∂v^r of all n quasi-velocities, `(n,)`, those of the constraints included."""
    gradient = jax.grad(lambda v: lagrangian(system, t, q, v, control))(v)
    return InverseFrame.at(system, t, q)(t, q).T @ gradient
