"""Steps of Lie-group methods for one trajectory, which `rollout` runs in lanes.

    q_i = q₀·exp(…) ,   v_i = v(t_i, q_i, rest_i) ,   q₁ = N(q₀·exp(…)·exp(…)…)

The methods are those of `jaxhamel.LieGroup` (Runge–Kutta–Munthe-Kaas), `jaxhamel.CommutatorFree2` and `CommutatorFree4`.
A step is one program of scalars; so are its derivatives in both modes, which are computed from the state before the step.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxhamel._typing import Configuration
from jaxhamel.geometry import AbstractSpace
from jaxhamel.simulate import CommutatorFree2, CommutatorFree4, LieGroup
from jaxhamel.simulate._solvers._base_classes import apply, retracted
from jaxhamel.simulate._solvers._runge_kutta import Tableau, increment, runge_kutta_step, tableau

GroupState = tuple[Configuration, Any]  # (q, rest)
Slope = Callable[[Any, GroupState], tuple]  # (t, (q, rest)) -> (v, d(rest)/dt)


class MuntheKaas(NamedTuple):
    """A Runge–Kutta method in exponential coordinates around q₀: φ̇ = dexp⁻¹_{−φ} v, φ(0) = 0."""

    tableau: Tableau

    def step(self, space: AbstractSpace, slope: Slope, t, h, y: GroupState) -> GroupState:
        q0, rest0 = y

        def rate(t, exponential: GroupState):
            phi, rest = exponential
            v, rest_dot = slope(t, (space.retract(q0, phi), rest))
            return apply("dexpinv", space, -phi, v), rest_dot

        first = slope(t, y)  # at the start of the step φ is zero, and dexp the identity
        start = (jnp.zeros_like(first[0]), rest0)
        phi, rest = runge_kutta_step(rate, self.tableau, t, h, start, first)
        return retracted(space, q0, phi), rest


class CommutatorFree(NamedTuple):
    """A method with several exponentials in each stage. Unlike `simulate`'s solvers, it does not reuse the last slope."""

    nodes: tuple[float, ...]
    exponents: tuple[tuple[tuple[float, ...], ...], ...]

    def step(self, space: AbstractSpace, slope: Slope, t, h, y: GroupState) -> GroupState:
        slopes = [slope(t, y)]
        for node, factors in zip(self.nodes[:-1], self.exponents[:-1], strict=True):
            state = _after_stage(space, h, y, factors, slopes)
            slopes.append(slope(t + h.dtype.type(node) * h, state))
        q, rest = _after_stage(space, h, y, self.exponents[-1], slopes)
        return space.normalise(q), rest


GroupMethod = MuntheKaas | CommutatorFree


def in_velocities(space: AbstractSpace, rate: Callable[..., Any]) -> Slope:
    """Converts a right-hand side with q̇ in storage coordinates to (t, (q, rest)) ↦ (v, d(rest)/dt)."""

    def slope(t, y: GroupState):
        q_dot, rest_dot = rate(t, y)
        return space.velocity(y[0], q_dot), rest_dot

    return slope


def _after_stage(space, h, y: GroupState, factors, slopes) -> GroupState:
    """Applies the exponentials of one stage to q, and the sum of their exponents to the rest."""
    q, rest = y
    for weights in factors:
        if any(weights):
            q = space.retract(q, increment(h, weights, slopes)[0])
    total = [sum(column) for column in zip(*factors, strict=True)]
    return q, jax.tree.map(jnp.add, rest, increment(h, total, slopes)[1])


def method_on(space: AbstractSpace, method: Any) -> Tableau | GroupMethod:
    """Selects the method with which `rollout` integrates on a space.

    Lie-group solvers are group methods. A Runge–Kutta method integrates the stored coordinates if these are independent or
    can be projected to the space; on other spaces it becomes the Munthe-Kaas method of its tableau.

    **Raises:** `TypeError` for a method that is neither "rk4" nor an explicit Runge–Kutta or Lie-group method.
    """
    if isinstance(method, CommutatorFree2 | CommutatorFree4):
        return CommutatorFree(method.tableau.nodes, method.tableau.exponents)
    if isinstance(method, LieGroup):
        return MuntheKaas(tableau(method.solver))
    as_stored = space.independent or space.projects
    return tableau(method) if as_stored else MuntheKaas(tableau(method))
