"""A primal–dual interior-point method with a filter line search.

    min J(w) − μ Σ log(s − lower) − μ Σ log(upper − s)   subject to   residuals(w, s) = 0 ,   μ → 0 .

Wächter and Biegler 2006 (IPOPT) give the update of μ, the step to the boundary, the filter, the correction of the inertia
and the second-order correction. After each step the nodes become the bases of their charts.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import (
    Parts,
    Residuals,
    no_parts,
    parts_of,
    values_of,
)
from jaxhamel.control._interior_point._filter import emptied
from jaxhamel.control._interior_point._line_search import after_step
from jaxhamel.control._interior_point._state import SearchState, errors_of

LOGGED = 32  # the largest number of iterations in one call
STUCK = 5  # a search ends after this many successive steps of the shortest length


class HistoryRow(NamedTuple):
    """The numbers of one iteration in the history."""

    cost: Scalar
    gradient_norm: Scalar
    violation: Scalar
    barrier: Scalar
    step: Scalar


@compiled_with(FEW_RUNS)
def more_iterations(
    transcription: Transcription, state: SearchState, tolerance: Scalar, many: Int[Array, ""]
) -> tuple[SearchState, Parts, HistoryRow, Int[Array, ""]]:
    """Makes up to `many` iterations.

    **Returns:** (state after them, derivatives at the last iterate, rows of the history, number of rows in use).
    """
    empty = jnp.zeros(LOGGED, state.mu.dtype)

    def goes_on(carry):
        state, _, _, k = carry
        return (k < many) & ~state.done & (state.stuck < STUCK)

    def body(carry):
        before, _, rows, k = carry
        state, parts, row = _iteration(transcription, before, tolerance)
        rows = jax.tree.map(lambda all_rows, x: all_rows.at[k].set(x), rows, row)
        estimated = before.estimates & ~state.done
        return state, parts, rows, jnp.where(estimated, k, k + 1)

    carry = state, no_parts(transcription, state.w), HistoryRow(*[empty] * 5), jnp.zeros((), int)
    return jax.lax.while_loop(goes_on, body, carry)


def _iteration(
    transcription: Transcription, state: SearchState, tolerance: Scalar
) -> tuple[SearchState, Parts, HistoryRow]:
    """One iteration: updates the errors and μ, and makes a step unless the iterate is a solution."""
    state, parts, residuals = examined(transcription, state, tolerance)

    def stay(state):
        return (state, jnp.zeros_like(state.mu))

    def go(state):
        return after_step(transcription, state, parts, residuals)

    errors, mu = state.errors, state.mu
    new, length = jax.lax.cond(state.done, stay, go, state)
    row = HistoryRow(state.cost, errors.stationarity, errors.violation, mu, length)
    return new, parts, row


def examined(
    transcription: Transcription, state: SearchState, tolerance: Scalar
) -> tuple[SearchState, Parts, Residuals]:
    """(state, derivatives, residuals) of the iterate. The state has its cost and errors, the next μ, and whether to end."""
    w, duals = state.w, state.duals
    parts = parts_of(transcription, w, duals)
    cost, residuals = values_of(transcription, w, parts)
    errors = errors_of(transcription, w, duals, parts, residuals, jnp.zeros_like(state.mu))
    close = jnp.maximum(10 * tolerance, 1e4 * jnp.finfo(tolerance.dtype).eps)  # 1e-3 or 2e-12
    near = jnp.where(errors.largest() <= close, state.near + 1, 0)
    # five successive iterates as close as this: rounding does not let them come closer
    done = (errors.largest() <= tolerance) | (near >= 5)
    own = errors_of(transcription, w, duals, parts, residuals, state.mu).largest()
    smaller = jnp.maximum(tolerance / 10, jnp.minimum(0.2 * state.mu, state.mu**1.5))
    lowers = (own <= 10 * state.mu) & (state.mu > 0) & ~state.estimates
    mu = jnp.where(lowers, smaller, state.mu)
    known = jax.tree.map(lambda a, b: jnp.where(lowers, a, b), emptied(state.filter), state.filter)
    state = state._replace(cost=cost, errors=errors, done=done, mu=mu, near=near, filter=known)
    return state, parts, residuals
