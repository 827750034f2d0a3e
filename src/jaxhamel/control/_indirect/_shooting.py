"""The equations of multiple shooting on Pontryagin's conditions, and their derivatives.

Unknowns are the states and costates at the nodes, the multipliers y of the conditions C = 0 at the end, and the end time T
if it is free:

    Φ_i(x_i, λ_i) = (x_{i+1}, λ_{i+1}) ,   C(T, x_N) = 0 ,   λ_N = ∂φ/∂x + (∂C/∂x)ᵀ y ,   H + ∂φ/∂T + y·∂C/∂T = 0 .
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Scalar
from jaxhamel.control._collocation._points import basis_at, rule
from jaxhamel.control._collocation._transcription import along
from jaxhamel.control._indirect._pontryagin import (
    Extended,
    canonical_rates,
    hamiltonian,
    optimal_control,
)
from jaxhamel.control._problem._costs import constraint_residual, final_residual
from jaxhamel.control._problem._limits import FreeEndTime
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._problem._scalar_costs import FinalCost, total
from jaxhamel.mechanics import Constant
from jaxhamel.simulate._solvers._runge_kutta import looped, tableau

# Points of an interval at which the control is recorded; integration steps end at them.
RECORDED = rule("gauss", 6)


class ExtremalNodes(NamedTuple):
    """An iterate of multiple shooting.

    - `q`, `u`, `costates`: states and costates at the nodes, with a leading axis `(N+1,)`; `y`: the multipliers of the
      conditions at the end; `end`: the last time [s].
    - `c`: controls near those of the extremal, at the points of `RECORDED`, `(N, s, m)`.
    """

    q: Configuration
    u: Float[Array, "N+1 k"]
    costates: Float[Array, "N+1 d"]
    y: Float[Array, " b"]
    end: Scalar
    c: Float[Array, "N s m"]


class Equations(NamedTuple):
    """The residuals of multiple shooting, and their derivatives.

    - `gaps`: the differences of states and costates between the end of an arc and the next node, `(N, 2d)`; `by_start`:
      their derivatives by δx_i and λ_i, `(N, 2d, 2d)`; `by_others`: their derivatives by T and the parameter of a
      continuation, `(N, 2d, 2)`.
    - `last`: residuals of the equations at the end; `by_last`: their derivatives by δx_N, λ_N, y, T and the parameter.
    - `cost`: J; `c`: the controls at the points of `RECORDED`.
    """

    gaps: Float[Array, "N e"]
    by_start: Float[Array, "N e e"]
    by_others: Float[Array, "N e 2"]
    last: Float[Array, " l"]
    by_last: Float[Array, "l v"]
    cost: Scalar
    c: Float[Array, "N s m"]


def has_free_end_time(problem: ControlProblem) -> bool:
    """Whether the end time is an unknown."""
    return any(isinstance(x, FreeEndTime) for x in problem.constraints)


@compiled
def equations(
    problem: ControlProblem,
    shares: Float[Array, " N+1"],
    nodes: ExtremalNodes,
    where: Callable[..., Any] | None = None,
) -> Equations:
    """The residuals and derivatives at an iterate.

    **Arguments:** `shares`: the times of the nodes as shares of the duration; `where`: selects the parameter of a
    continuation in the problem.
    """
    d = nodes.costates.shape[1]
    before, after = along(nodes[:3], slice(None, -1)), along(nodes[:3], slice(1, None))
    lengths = jnp.diff(shares)

    def with_parameter(change):
        return _with_parameter(problem, where, change)

    def one(start, end, c, share, length):
        def place(v):
            changed = with_parameter(v[-1])
            return _arc(changed, nodes.end, start, end, c, share, length, v[:-1])

        gap, by, (cost, controls) = _with_derivative(place, jnp.zeros(2 * d + 2, c.dtype))
        return gap, by[:, :-2], by[:, -2:], cost, controls

    gaps, by_start, by_others, costs, c = jax.vmap(one)(
        before, after, nodes.c, shares[:-1], lengths
    )

    def at_end(v):
        return _residuals_at_end(with_parameter(v[-1]), nodes, v[:-1])

    size = 2 * d + nodes.y.shape[0] + 2
    last, by_last, cost = _with_derivative(at_end, jnp.zeros(size, c.dtype))
    return Equations(gaps, by_start, by_others, last, by_last, jnp.sum(costs) + cost, c)


def _with_parameter(problem: ControlProblem, where: Any, change: Scalar) -> ControlProblem:
    """The problem, with the parameter that `where` selects changed by `change`."""
    if where is None:
        return problem
    return eqx.tree_at(where, problem, where(problem) + change)


def _with_derivative(function, v: Float[Array, " v"]) -> tuple[Array, Array, Any]:
    """(values, their derivatives by v, others) of a function v ↦ (values, others)."""

    def both(v):
        values, others = function(v)
        return values, (values, others)

    jacobian, (values, others) = jax.jacfwd(both, has_aux=True)(v)
    return values, jacobian, others


def _arc(problem, end, start, target, c, share, length, v):
    """Computes (gap at the end of an interval, (its cost, its controls)) after a change v = (δx, δλ, δT) of its start."""
    space, d = problem.system.space, start[2].shape[0]
    n = space.dim
    span = end + v[-1] - problem.ts[0]
    t0, h = problem.ts[0] + share * span, length * span
    q, u = space.retract(start[0], v[:n]), start[1] + v[n:d]
    y = (q, u, start[2] + v[d : 2 * d], jnp.zeros_like(h))
    (q, u, costate, cost), controls = _integrated(problem, y, c, t0, h)
    place = jnp.concatenate([space.local(target[0], q), u - target[1]])
    return jnp.concatenate([place, costate - target[2]]), (cost, controls)


def _integrated(
    problem: ControlProblem, y: Extended, c: Array, t0: Scalar, h: Scalar
) -> tuple[Extended, Float[Array, "s m"]]:
    """The extremal at the end of an interval, and its controls at the points of `RECORDED`."""
    method, space = tableau(diffrax.Dopri8()), problem.system.space

    def near(share):
        return basis_at(RECORDED.points, share) @ c

    def rate(share, y):
        rates = canonical_rates(problem, t0 + share * h, y, near(share))
        return jax.tree.map(lambda x: h * x, rates)

    def step(y, ends):
        a, b = ends
        q, u, costate, cost = looped(rate, method, a, b - a, y)[0]
        q = space.normalise(q)
        control = optimal_control(problem, t0 + b * h, q, u, costate, near(b))
        return (q, u, costate, cost), control

    edges = jnp.asarray(np.array([0.0, *RECORDED.points, 1.0]), h.dtype)
    y, controls = jax.lax.scan(step, y, (edges[:-1], edges[1:]))
    return y, controls[:-1]


def _residuals_at_end(problem: ControlProblem, nodes: ExtremalNodes, v: Float[Array, " v"]):
    """(residuals of the equations at the end, final cost) after a change v = (δx, δλ, δy, δT)."""
    d, n, space = nodes.costates.shape[1], problem.system.space.dim, problem.system.space
    b = nodes.y.shape[0]
    costate, y = nodes.costates[-1] + v[d : 2 * d], nodes.y + v[2 * d : 2 * d + b]
    control = Constant(nodes.c[-1, -1])

    def conditions_and_cost(x, t):
        q = space.retract(along(nodes.q, -1), x[:n])
        at = (problem.system, t, q, nodes.u[-1] + x[n:], control)
        r = final_residual(problem.costs, *at)
        value = 0.5 * jnp.sum(r * r) + total(FinalCost, problem.costs, *at)
        return constraint_residual(problem.constraints, True, *at), value

    def lagrangian(x, t):
        conditions, value = conditions_and_cost(x, t)
        return value + jnp.dot(y, conditions)

    x, t = v[:d], nodes.end + v[-1]
    conditions, value = conditions_and_cost(x, t)
    # The derivatives by (δ_q, δ_u) at x itself, not at its base, need one more displacement.
    by_x = _left_gradient(problem, nodes, lagrangian, x, t)
    parts = [conditions, costate - by_x]
    if has_free_end_time(problem):
        q, u = space.retract(along(nodes.q, -1), x[:n]), nodes.u[-1] + x[n:]
        c = optimal_control(problem, t, q, u, costate, nodes.c[-1, -1])
        energy = hamiltonian(problem, t, q, u, c, costate)
        parts.append((energy + jax.grad(lagrangian, 1)(x, t))[None])
    return jnp.concatenate(parts), value


def _left_gradient(
    problem: ControlProblem, nodes: ExtremalNodes, function, x, t
) -> Float[Array, " d"]:
    """The derivative of a function by (δ_q, δ_u) at the state (q exp(x_q) exp(δ_q), u + x_u + δ_u)."""
    space, n = problem.system.space, problem.system.space.dim
    base = along(nodes.q, -1)

    def displaced(delta):
        q = space.retract(space.retract(base, x[:n]), delta[:n])
        return function(jnp.concatenate([space.local(base, q), x[n:] + delta[n:]]), t)

    return jax.grad(displaced)(jnp.zeros_like(x))
