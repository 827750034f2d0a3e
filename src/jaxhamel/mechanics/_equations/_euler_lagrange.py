"""The Euler–Lagrange equations without constraints in left-trivialised velocities, with the mass matrix M and the force f.

    M v̇ = f ,     M = ∂²L/∂v∂v ,     f = Q + e(L) + ad_vᵀ P − (∂P/∂t + v(P)) ,     P = ∂L/∂v .

On R^n these are Lagrange's equations; on a group, the Euler–Poincaré equations with the group's own directions e_r
acting on L. The multiplier route and Gauss' principle both start from here.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, Scalar, Velocity
from jaxhamel.mechanics._kinematics import (
    along_motion,
    applied_force,
    covector,
    derivatives,
    lagrangian,
)
from jaxhamel.mechanics._system import System, dtype_of, overrides


class Unconstrained(NamedTuple):
    """M and f of M v̇ = f, without the forces of constraint."""

    mass_matrix: Float[Array, "n n"]
    force: Float[Array, " n"]


def euler_lagrange(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control
) -> Unconstrained:
    """M(t, q, v) and f(t, q, v, control); the arguments are not checked."""

    gradients = jax.grad(lambda q, v, t: lagrangian(system, t, q, v, control), argnums=(1, 0))
    (p, gradient), (bias, _), (mass_matrix, _) = derivatives(
        system, lambda t, q, v: gradients(q, v, t), t, q, v, v, jnp.eye(v.shape[0], dtype=v.dtype)
    )
    return Unconstrained(mass_matrix, _force(system, t, q, v, control, p, gradient, bias))


def momentum_rate(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control
) -> tuple[Callable[[Array], Array], Float[Array, " n"]]:
    """The function x ↦ M(t, q, v) x, and f(t, q, v, control); the arguments are not checked."""
    gradients = jax.grad(lambda q, v, t: lagrangian(system, t, q, v, control), argnums=(1, 0))
    (p, gradient), (bias, _) = along_motion(system, lambda t, q: gradients(q, v, t), t, q, v)
    _, product = jax.linearize(lambda v: gradients(q, v, t)[0], v)
    return product, _force(system, t, q, v, control, p, gradient, bias)


def _force(system: System, t, q, v, control, p, gradient, bias) -> Float[Array, " n"]:
    """The force f, from the momenta P, ∂L/∂q, and the rate of P at constant v."""
    force = covector(system, q, gradient) + system.space.ad(v).T @ p - bias
    if overrides(system, "force"):
        force = force + applied_force(system, t, q, v, control)
    return force


@compiled
def mass_matrix(
    system: System, t: Scalar, q: Configuration, control: Control
) -> Float[Array, "n n"]:
    """The mass matrix M = ∂²L/∂v∂v at v = 0; the arguments are not checked."""
    at_rest = jnp.zeros(system.space.dim, dtype=dtype_of(q))
    return jax.hessian(lambda v: lagrangian(system, t, q, v, control))(at_rest)


def frame_bias(system: System, t: Scalar, q: Configuration, v: Velocity) -> Float[Array, " n"]:
    """All n rows of Ȧ v + ȧ, the part of u̇ = A v̇ + Ȧ v + ȧ that depends on the velocity."""
    if not (overrides(system, "frame") or overrides(system, "drift")):
        return jnp.zeros_like(v)

    def quasi_velocity(t, q):
        u = system.frame(t, q) @ v if overrides(system, "frame") else v
        return u + system.drift(t, q) if overrides(system, "drift") else u

    return along_motion(system, quasi_velocity, t, q, v)[1]
