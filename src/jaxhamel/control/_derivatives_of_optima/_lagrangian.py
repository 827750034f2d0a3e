"""The Lagrangian of a solved problem as a function of the problem's numbers, with the unknowns kept constant."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._start import first_node
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._interior_point._derivatives import Duals, Residuals, evaluate, weighted
from jaxhamel.control._mesh._moving_nodes import transcribed_like
from jaxhamel.control._problem._problem import ControlProblem


def lagrangian(
    problem: ControlProblem, found: Transcription, w: CollocationPoint, duals: Duals
) -> Scalar:
    """L = J + Σ multipliers · constraints of `problem`, at the unknowns `w` with the initial state of `problem`.

    J and the multipliers are divided by the cost unit of `found`.
    """
    transcription, (cost, residuals) = _evaluated(problem, found, w)
    return cost + _products(duals, transcription, residuals)


def constraints_times(
    duals: Duals, problem: ControlProblem, found: Transcription, w: CollocationPoint
) -> Scalar:
    """Σ multipliers · constraints of `problem`, at the unknowns `w` with the initial state of `problem`."""
    transcription, (_, residuals) = _evaluated(problem, found, w)
    return _products(duals, transcription, residuals)


def _evaluated(problem: ControlProblem, found: Transcription, w: CollocationPoint) -> Any:
    transcription = transcribed_like(found, problem)
    return transcription, evaluate(transcription, with_initial_state(problem, transcription, w))


def _products(duals: Duals, transcription: Transcription, residuals: Residuals) -> Scalar:
    """Σ multipliers · constraints, those of bounds included, up to terms that do not depend on the problem."""
    pairs = (
        (duals.low, _zero_if_infinite(transcription.lower)),
        (-duals.high, _zero_if_infinite(transcription.upper)),
        (duals.p_low, transcription.p_lower),
        (-duals.p_high, transcription.p_upper),
    )
    return sum((jnp.sum(a * b) for a, b in pairs), weighted(duals, residuals))


def with_initial_state(
    problem: ControlProblem, transcription: Transcription, w: CollocationPoint
) -> CollocationPoint:
    """The iterate `w` with the initial state of `problem` as its first node, except for free coordinates."""
    space = problem.system.space
    q = _with_first_row(space.normalise(problem.q0), along(w.q, slice(1, None)))
    free = np.asarray(transcription.free_start, int)
    first = first_node(problem).at[free].set(w.x[0, free])
    return w._replace(q=q, x=jnp.concatenate([first[None], w.x[1:]]))


def _with_first_row(first: Any, others: Any) -> Any:
    return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), first, others)


def _zero_if_infinite(bound):
    return jnp.where(jnp.isfinite(bound), bound, 0.0)
