"""The gradient of the optimal cost by all numbers of the problem, and by the state: the costates."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._checks._collocation import check_has_optimum
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._derivatives_of_optima._lagrangian import lagrangian
from jaxhamel.control._derivatives_of_optima._missing_derivatives import (
    another_minimum,
    without_contradictions,
    without_kinks,
)
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._problem._problem import ControlProblem

FAMILY = "minimum, not isolated"


def sensitivity(result: Any) -> ControlProblem:
    """dJ*/dp: the derivative of the optimal cost by each number p of the problem, by the envelope theorem,

        dJ*/dp = ∂L/∂p ,    L = J + Σ multipliers · constraints , at the optimum.

    **Arguments:** `result`: the result of `solve` with `Collocation`.

    **Returns:** a `ControlProblem` with these derivatives in place of its numbers, for instance
    `sensitivity(result).system.mass`, in the unit of the cost per unit of the number. The derivatives by q0 are by its
    stored numbers, such as those of a quaternion; the derivatives in the tangent space are `result.costates[0]`.

    **Raises:** `TypeError` for the result of another method.

    Some derivatives do not exist (see the certificate). If conditions at the ends depend on one another, so that multipliers
    are not unique, the derivative by a number that cannot be changed alone is NaN: a rolling disk whose place and angle at
    the end are both given cannot have another radius. If limits depend on one another, the derivative is not unique. If the
    minimum is not isolated, the derivative is NaN by numbers for which ∂L/∂p differs among the minima: J* has a kink there.

    Sources: Fiacco 1983, theorem 3.4.1; Danskin 1967.
    """
    check_has_optimum(result)
    at = (result.problem, *result.optimum)
    by = _gradient(*at)
    if result.certificate.second_order == FAMILY:
        other = another_minimum(*result.optimum)
        by = by if other is None else without_kinks(by, _gradient(at[0], at[1], *other))
    return by if result.certificate.multipliers_unique else without_contradictions(by, *at)


@compiled_with(QUICK)
def _gradient(problem, transcription: Transcription, w: CollocationPoint, duals: Duals) -> Any:
    def of_problem(problem):
        return transcription.cost_unit * lagrangian(problem, transcription, w, duals)

    return eqx.filter_grad(of_problem)(problem)


@compiled_with(QUICK)
def costates_of(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> Float[Array, "N+1 d"]:
    """The costates λ_i = ∂J/∂(δ_q, δ_u) at the state (q_i exp(δ_q), u_i + δ_u) of node i.

    The multipliers of the transcription belong to coordinates (ξ, u) about the bases. The bases are the nodes, except for
    the first one if the initial state is free: there λ_0 = (∂ξ/∂δ_q)ᵀ multiplier.
    """
    costates = transcription.cost_unit * duals.costates
    if not transcription.free_start:
        return costates
    space, n = transcription.system.space, transcription.system.space.dim
    base, (q, _) = along(w.q, 0), transcription.initial_state(w, w.p)

    def of_node(delta):
        return space.local(base, space.retract(q, delta))

    _, pulled = jax.vjp(of_node, jnp.zeros(n, w.x.dtype))
    return costates.at[0, :n].set(pulled(costates[0, :n])[0])
