"""Euler–Lagrange equations with forces of constraint (Lagrange multipliers).

    M v̇ = f + A_αᵀ λ ,      A_α v̇ + Ȧ_α v + ȧ_α = 0 .

M has to be regular here (`_constrained_solve`). For the other routes, λ is the residual of the
unconstrained equations, λ_α = B^r_α (M v̇ − f)_r, which needs no M⁻¹.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, Multiplier, QuasiVelocity, Scalar, Velocity
from jaxhamel.mechanics._constraints._constrained_solve import constrained_solve
from jaxhamel.mechanics._equations._euler_lagrange import euler_lagrange, frame_bias
from jaxhamel.mechanics._kinematics import InverseFrame, velocity_of, with_constraints
from jaxhamel.mechanics._small_solve import symmetric_solve
from jaxhamel.mechanics._system import System, overrides


def multipliers(
    system: System, t: Scalar, q: Configuration, u: QuasiVelocity, control: Control
) -> Float[Array, " k"]:
    """u̇ of the independent quasi-velocities by the multiplier equations; unchecked, for right-hand sides."""
    v = velocity_of(system, t, q, u)
    v_dot, _ = solve_with_multipliers(system, t, q, v, control)
    m = system.n_constraints
    u_dot = system.frame(t, q) @ v_dot if overrides(system, "frame") else v_dot
    return (u_dot + frame_bias(system, t, q, v))[m:]


def solve_with_multipliers(
    system: System, t: Scalar, q: Configuration, v: Velocity, control: Control
) -> tuple[Velocity, Multiplier]:
    """(v̇, λ) of the equations above."""
    mass_matrix, force = euler_lagrange(system, t, q, v, control)
    m = system.n_constraints
    if m == 0:
        return symmetric_solve(mass_matrix, force), jnp.zeros(0, v.dtype)
    rows = system.frame(t, q)[:m]
    return constrained_solve(mass_matrix, force, rows, -frame_bias(system, t, q, v)[:m])


def multiplier_of_motion(
    system: System,
    t: Scalar,
    q: Configuration,
    u: QuasiVelocity,
    u_dot: Float[Array, " k"],
    control: Control,
) -> Multiplier:
    """λ_α = B^r_α (M v̇ − f)_r for the given u̇, which may come from any route."""
    inverse = InverseFrame.at(system, t, q)
    v = inverse.velocity(t, q, with_constraints(system, u))
    basis = inverse(t, q)
    rates = with_constraints(system, u_dot) - frame_bias(system, t, q, v)
    mass_matrix, force = euler_lagrange(system, t, q, v, control)
    return basis[:, : system.n_constraints].T @ (mass_matrix @ (basis @ rates) - force)
