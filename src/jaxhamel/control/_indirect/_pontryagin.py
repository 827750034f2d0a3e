"""Pontryagin's conditions, left-trivialised: costates λ = (λ_q, λ_u) are dual to (δ_q, δ_u) at q exp(δ_q), u + δ_u.

H(t, x, c, λ) = ½|r|² + g + λ_q·v + λ_u·u̇ ,      ∂H/∂c = 0
λ̇_q = −∂H/∂δ_q + ad_vᵀ λ_q ,     λ̇_u = −∂H/∂u       (Lie–Poisson equations if ∂H/∂δ_q = 0)
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _lapack
from jaxhamel._typing import Configuration, QuasiVelocity, Scalar, Time
from jaxhamel.control._problem._costs import running_residual
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._problem._scalar_costs import RunningCost, total
from jaxhamel.mechanics import Constant
from jaxhamel.mechanics._acceleration import motion

NEWTON_STEPS = 4  # number of Newton steps for ∂H/∂c = 0; one step is exact if H is quadratic in c

Extended = tuple[Configuration, QuasiVelocity, Float[Array, " n+k"], Scalar]  # (q, u, λ, J)


def rates_and_cost(
    problem: ControlProblem, t: Time, q: Configuration, u: QuasiVelocity, c: Float[Array, " m"]
) -> tuple[Float[Array, " n+k"], Scalar]:
    """The rates (v, u̇) of the state, and the running cost ½|r|² + g."""
    system, control = problem.system, Constant(c)
    v, u_dot = motion(system, t, q, u, control)
    r = running_residual(problem.costs, system, t, q, u, control)
    value = total(RunningCost, problem.costs, system, t, q, u, control)
    return jnp.concatenate([v, u_dot]), 0.5 * jnp.sum(r * r) + value


def hamiltonian(
    problem: ControlProblem,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    c: Float[Array, " m"],
    costate: Float[Array, " n+k"],
) -> Scalar:
    """The control Hamiltonian H = ½|r|² + g + λ·(v, u̇)."""
    rate, cost = rates_and_cost(problem, t, q, u, c)
    return cost + jnp.dot(costate, rate)


def optimal_control(
    problem: ControlProblem,
    t: Time,
    q: Configuration,
    u: QuasiVelocity,
    costate: Float[Array, " n+k"],
    near: Float[Array, " m"],
) -> Float[Array, " m"]:
    """The control c with ∂H/∂c = 0, by Newton's method from `near`; first derivatives by the implicit function theorem."""

    def of_c(c):
        return hamiltonian(problem, t, q, u, c, costate)

    def step(c, _):
        c = jax.lax.stop_gradient(c)
        curvature = jax.lax.stop_gradient(jax.hessian(of_c)(c))
        return c - _lapack.solve(curvature, jax.grad(of_c)(c)), None

    return jax.lax.scan(step, near, None, NEWTON_STEPS)[0]


def control_hessian(
    problem: ControlProblem, t: Time, q: Any, u: Any, c: Array, costate: Array
) -> Float[Array, "m m"]:
    """The Hessian ∂²H/∂c² of the control Hamiltonian."""
    return jax.hessian(lambda c: hamiltonian(problem, t, q, u, c, costate))(c)


def canonical_rates(
    problem: ControlProblem, t: Time, y: Extended, near: Float[Array, " m"]
) -> Extended:
    """The rates (q̇, u̇, λ̇, J̇) of an extremal; q̇ has the form in which q is stored. `near`: a control near the optimal one."""
    q, u, costate, _ = y
    space = problem.system.space
    n = space.dim
    c = optimal_control(problem, t, q, u, costate, near)
    rate, cost = rates_and_cost(problem, t, q, u, c)

    def of_state(delta):
        state = space.retract(q, delta[:n]), u + delta[n:]
        return hamiltonian(problem, t, *state, c, costate)

    slope = jax.grad(of_state)(jnp.zeros_like(costate))
    turning = space.ad(rate[:n]).T @ costate[:n]
    change = jnp.concatenate([turning - slope[:n], -slope[n:]])
    return space.rate(q, rate[:n]), rate[n:], change, cost
