"""Finds the numbers of a problem that cannot be changed alone, because conditions at the ends depend on one another.

If νᵀ ∂F/∂w = 0 for multipliers ν ≠ 0 of the constraints F(w, p) = 0, a change of p with νᵀ ∂F/∂p ≠ 0 leaves no solution: to
first order F cannot be made zero by any w (Fredholm's alternative). The optimal cost has no derivative by such a number.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._derivatives_of_optima._lagrangian import constraints_times
from jaxhamel.control._interior_point._derivatives import Duals, Parts, parts_of, values_of
from jaxhamel.control._interior_point._direction import direction
from jaxhamel.control._problem._problem import ControlProblem

SMALL = 1e-6  # a νᵀ ∂F/∂p below this share of the largest one counts as zero
LEAST = 1e-3  # a ν below this, for a unit change of a multiplier, is rounding: its condition is independent of the others
UNIT, PENALTY = 1.0, 100.0  # curvature in place of that of the cost, and weight of the conditions


@compiled_with(QUICK)
def open_multipliers(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Duals:
    """Multipliers ν with νᵀ ∂F/∂w = 0, one for each condition at the ends, along a leading axis.

    ν is the derivative of the least-squares multipliers by the previous multipliers of the conditions: least squares keep
    the part of the previous multipliers that the equations do not determine.
    """
    parts = parts_of(transcription, w, duals)
    flat = Parts(*(x._replace(hessian=jnp.zeros_like(x.hessian)) for x in parts))
    residuals = jax.tree.map(jnp.zeros_like, values_of(transcription, w, parts)[1])
    zero = jnp.zeros((), w.X.dtype)
    numbers = zero, zero + UNIT, zero + PENALTY

    def after(conditions) -> Duals:
        last = duals._replace(conditions=conditions)
        return direction(transcription, w, last, flat, residuals, *numbers).duals

    origin = after(duals.conditions)
    units = jnp.eye(duals.conditions.shape[0], dtype=w.X.dtype)
    changed = jax.vmap(lambda unit: after(duals.conditions + unit))(units)
    return jax.tree.map(lambda a, b: a - b[None], changed, origin)


@compiled_with(QUICK)
def _slopes_by_parameters(
    problem: Any, transcription: Transcription, w: CollocationPoint, nu: Duals
) -> Any:
    """νᵀ ∂F/∂p of each ν."""

    def one(nu):
        return eqx.filter_grad(lambda problem: constraints_times(nu, problem, transcription, w))(
            problem
        )

    return jax.vmap(one)(nu)


def without_contradictions(
    by: ControlProblem,
    problem: ControlProblem,
    transcription: Transcription,
    w: CollocationPoint,
    duals: Duals,
) -> ControlProblem:
    """The derivatives `by`, with NaN for each number that cannot be changed alone."""
    if not duals.conditions.size:
        return by
    nu = open_multipliers(transcription, w, duals)
    is_open = np.max(np.abs(np.asarray(nu.conditions)), axis=1) > LEAST
    if not np.any(is_open):
        return by
    slopes = _slopes_by_parameters(
        problem, transcription, w, jax.tree.map(lambda x: x[is_open], nu)
    )
    largest = jax.tree.map(lambda x: np.max(np.abs(np.asarray(x)), axis=0), slopes)
    least = SMALL * max(float(np.max(x, initial=0.0)) for x in jax.tree.leaves(largest))
    return jax.tree.map(lambda x, size: jnp.where(size > least, jnp.nan, x), by, largest)
