"""Starts of searches, interpolated between the optima of other values of the family.

The first searches, of values far from one another, begin at their own guesses. All others begin at a combination of the
optima found, with the weights of polyharmonic splines r³ in the scaled values. It passes through the optima, and is exact
where they are linear in the value. Sources: Duchon 1977; Wendland 2004.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration
from jaxhamel.control._collocation._tightening import resumed_in_bounds
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._derivatives_of_optima._lagrangian import with_initial_state
from jaxhamel.control._interior_point._derivatives import Duals, evaluate
from jaxhamel.control._interior_point._state import SearchState, resumed
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._scaling._scaled import scaled_residuals

LARGEST = 0.1  # the largest violation, in the problem's sizes, of a start that is used
RIDGE = 1e-10  # makes the weights of points in a plane unique
BARRIER = 1e-6  # the least barrier parameter μ at an interpolated start


def coordinates_of(values: Any) -> Float[np.ndarray, "K D"]:
    """The real numbers of all values as rows, each divided by its range; numbers that do not differ are left out."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(values)]
    rows = [x.reshape(len(x), -1).astype(float) for x in leaves if x.dtype.kind in "fi"]
    table = np.concatenate([np.zeros((len(leaves[0]), 0)), *rows], axis=1)
    spread = np.ptp(table, axis=0)
    return table[:, spread > 0] / spread[spread > 0]


def far_first(points: Float[np.ndarray, "K D"], count: int) -> Int[np.ndarray, " K"]:
    """All indices; the first `count` are those of points far from one another.

    The first one is nearest to the mean, and each next one farthest from those before.
    """
    found = [int(np.argmin(np.sum((points - np.mean(points, axis=0)) ** 2, axis=1)))]
    distance = np.full(len(points), np.inf)
    for _ in range(count - 1):
        distance = np.minimum(distance, np.sum((points - points[found[-1]]) ** 2, axis=1))
        distance[found] = -1.0  # each index only once, also among equal points
        found.append(int(np.argmax(distance)))
    return np.append(found, np.setdiff1d(np.arange(len(points)), found))


def weights_of(
    known: Float[np.ndarray, "P D"], wanted: Float[np.ndarray, "F D"]
) -> Float[np.ndarray, "F P"]:
    """The weights with which the values at the points `known` are combined at the points `wanted`; each row has the sum 1.

    With fewer points than a linear function has numbers, only constants are exact.
    """
    points, places = np.unique(known, axis=0, return_index=True)
    degree = 1 if len(points) > known.shape[1] + 1 else 0
    own, others = _terms(points, degree), _terms(wanted, degree)
    none = -RIDGE * np.eye(own.shape[1])
    matrix = np.block([[_cubes(points, points), own], [own.T, none]])
    rows = np.concatenate([_cubes(wanted, points), others], axis=1)
    weights = np.zeros((len(wanted), len(known)))
    weights[:, places] = np.linalg.solve(matrix, rows.T)[: len(points)].T
    return weights


def _terms(points: Float[np.ndarray, "K D"], degree: int) -> Float[np.ndarray, "K T"]:
    one = np.ones((len(points), 1))
    return np.concatenate([one, points], axis=1) if degree else one


def _cubes(a: Float[np.ndarray, "A D"], b: Float[np.ndarray, "B D"]) -> Float[np.ndarray, "A B"]:
    return np.sum((a[:, None] - b[None]) ** 2, axis=2) ** 1.5


def interpolated(
    problems: Stacked,
    transcriptions: Stacked,
    guesses: SearchState,
    known: SearchState,
    weights: Float[np.ndarray, "F P"],
) -> SearchState:
    """The states from which searches begin: interpolated, or those at their guesses where the former violate the equations.

    **Arguments:** `problems`, `transcriptions`, `guesses`: of these searches; `known`: the optima of others.
    """
    first = along(known.w.q, 0)
    displacements = _displacements(transcriptions.at(0), first, known.w.q)
    given = known.w._replace(q=displacements), known.duals
    w, duals = jax.tree.map(lambda x: np.tensordot(weights, np.asarray(x), 1), given)
    return _begun(problems, transcriptions, guesses, first, w, duals)


@compiled_with(QUICK)
def _displacements(
    transcription: Transcription, first: Configuration, q: Configuration
) -> Float[Array, "P N+1 n"]:
    """The displacements of the bases of all charts from those of the first motion."""
    local = transcription.system.space.local
    return jax.vmap(lambda each: jax.vmap(local)(first, each))(q)


@compiled_with(QUICK)
def _begun(
    problems: Stacked,
    transcriptions: Stacked,
    guesses: SearchState,
    first: Configuration,
    w: CollocationPoint,
    duals: Duals,
) -> SearchState:
    """The states at the unknowns `w`, in which displacements from `first` stand for the bases, or those at the guesses."""

    def one(own, problem, guess, w, duals):
        transcription = eqx.combine(own, transcriptions.shared)
        problem = eqx.combine(problem, problems.shared)
        q = jax.vmap(transcription.system.space.retract)(first, w.q)
        w = with_initial_state(problem, transcription, w._replace(q=q))
        start = _inside(transcription, guess._replace(w=w, duals=duals))
        residuals = scaled_residuals(transcription.sizes, evaluate(transcription, start.w)[1])
        near = residuals.largest() <= LARGEST
        return jax.tree.map(lambda a, b: jnp.where(near, a, b), start, guess)

    return jax.vmap(one)(transcriptions.own, problems.own, guesses, w, duals)


def _inside(transcription: Transcription, state: SearchState) -> SearchState:
    """The state with slacks and parameters between their bounds, and a small barrier parameter if there are any."""
    if not (transcription.limits or state.w.p.size):
        return resumed(state)
    lower, upper = transcription.p_lower, transcription.p_upper
    margin = jnp.minimum(1e-4, 0.01 * (upper - lower))
    p = jnp.clip(state.w.p, lower + margin, upper - margin)
    w = state.w._replace(p=p, slack=jnp.zeros_like(state.w.slack))
    w = w._replace(slack=evaluate(transcription, w)[1].limits)
    least = [jnp.where(jnp.isfinite(x), BARRIER / jnp.abs(p - x), 0.0) for x in (lower, upper)]
    duals = state.duals._replace(
        p_low=jnp.maximum(state.duals.p_low, least[0]),
        p_high=jnp.maximum(state.duals.p_high, least[1]),
    )
    mu = jnp.full_like(state.mu, BARRIER)
    return resumed_in_bounds(transcription, state._replace(w=w, duals=duals, mu=mu))
