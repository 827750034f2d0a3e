"""Finds the numbers by which the optimal cost has no derivative.

**Families of minima.** All minima w of a family have the same cost, and J*(p) follows the minimum whose cost falls most
with p (Danskin 1967):

    dJ*/dp⁺ = min_w ∂L/∂p ,    dJ*/dp⁻ = max_w ∂L/∂p .

So J* has a derivative by a number p only if ∂L/∂p is the same at all minima. Example: if a ball can make its loop in any
direction, J* has no derivative by the direction of the ball's displacement.

**Conditions at the ends that depend on one another.** If νᵀ ∂F/∂w = 0 for multipliers ν ≠ 0 of the constraints F(w, p) = 0,
a change of p with νᵀ ∂F/∂p ≠ 0 leaves no solution: to first order F cannot be made zero by any w (Fredholm's
alternative). The number p cannot be changed alone, and J* has no derivative by it.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._isolation import FLOOR, STEP
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._derivatives_of_optima._lagrangian import constraints_times
from jaxhamel.control._derivatives_of_optima._neighbour import barrier_parameter
from jaxhamel.control._interior_point._derivatives import Duals, parts_of, values_of
from jaxhamel.control._interior_point._direction import direction
from jaxhamel.control._interior_point._interior_point import LOGGED, more_iterations
from jaxhamel.control._interior_point._state import first_state
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._scaling._sizes import size_of

TOLERANCE = 1e-9  # tolerance of the search for another minimum
# Two values of ∂L/∂p are different if their relative difference is above this times √ε: 1e-5, in single precision 0.2.
DIFFERENT = 700.0
SMALL = 1e-6  # a νᵀ ∂F/∂p below this share of the largest one counts as zero
LEAST = 1e-3  # a ν below this, for a unit change of a multiplier, is rounding: its condition is independent of the others
UNIT, PENALTY = 1.0, 100.0  # curvature in place of that of the cost, and weight of the conditions


def another_minimum(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> tuple[CollocationPoint, Duals] | None:
    """Another minimum of the same cost, with its multipliers, found by a search from perturbed controls.

    **Returns:** None if the search fails.
    """
    noise = np.random.default_rng(0).normal(size=w.c.shape)
    own, dtype = np.asarray(size_of(transcription.sizes, "c")), w.c.dtype
    size = STEP * (float(np.max(np.abs(np.asarray(w.c) / own))) + 1e-3) * own

    def number(x):
        return jnp.asarray(x, dtype)

    perturbed = w._replace(c=w.c + jnp.asarray(size * noise, dtype))
    begin = first_state(transcription, perturbed, barrier_parameter(transcription, w, duals))
    begin = begin._replace(duals=duals, floor=number(FLOOR), estimates=jnp.asarray(False))
    least = 10 * float(jnp.finfo(dtype).eps) ** 0.5
    end, *_ = more_iterations(
        transcription, begin, number(max(TOLERANCE, least)), jnp.asarray(LOGGED)
    )
    return (end.w, end.duals) if bool(end.done) else None


def without_kinks(by: Any, there: Any) -> Any:
    """The derivatives `by`, with NaN where they differ from the derivatives `there` at another minimum."""
    largest = max(float(np.max(np.abs(np.asarray(x)), initial=0.0)) for x in jax.tree.leaves(by))

    def nan_if_different(x: Array, y: Array) -> Array:  # by NumPy, which compiles nothing
        value, other = np.asarray(x), np.asarray(y)
        least = DIFFERENT * float(jnp.finfo(x.dtype).eps) ** 0.5
        differs = np.abs(value - other) > least * (np.abs(value) + 1e-3 * largest)
        return jnp.asarray(np.where(differs, np.nan, value), x.dtype)

    return jax.tree.map(nan_if_different, by, there)


@compiled_with(QUICK)
def open_multipliers(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Duals:
    """Multipliers ν with νᵀ ∂F/∂w = 0, one for each condition at the ends, along a leading axis.

    ν is the derivative of the least-squares multipliers by the previous multipliers of the conditions: least squares keep
    the part of the previous multipliers that the equations do not determine.
    """
    parts = parts_of(transcription, w, duals)
    flat = parts.with_hessians(0.0)
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
    """The product νᵀ ∂F/∂p for each ν: a change of p in its direction leaves no solution (see the module)."""

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
