"""Starts of searches, interpolated between the optima of other values of the family.

The first searches, of values far from one another, begin at their own guesses. All others begin at a combination of the
optima found, with the weights of polyharmonic splines in the scaled values. Sources: Duchon 1977; Wendland 2004.
"""

import math
from itertools import combinations_with_replacement
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
HIGHEST = 2  # the highest degree of polynomials for which the interpolation is exact
RIDGE = 1e-10  # makes the weights of points in a plane unique
BARRIER = 1e-6  # the least barrier parameter μ at an interpolated start


def coordinates_of(values: Any) -> Float[np.ndarray, "K D"]:
    """The real numbers of all values as rows, from their mean, divided by their range; those that do not differ are left
    out."""
    leaves = [np.asarray(x) for x in jax.tree.leaves(values)]
    rows = [x.reshape(len(x), -1).astype(float) for x in leaves if x.dtype.kind in "fi"]
    table = np.concatenate([np.zeros((len(leaves[0]), 0)), *rows], axis=1)
    spread = np.ptp(table, axis=0)
    centred = table - np.mean(table, axis=0)
    return centred[:, spread > 0] / spread[spread > 0]


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

    They belong to the splines r^(2k+1) with polynomials of degree k, which are exact for these polynomials. The degree is
    the highest one, up to `HIGHEST`, whose polynomials have at most half as many coefficients as there are points.
    """
    points, places = np.unique(known, axis=0, return_index=True)
    degree = _degree(*points.shape)
    own, others = _monomials(points, degree), _monomials(wanted, degree)
    none = -RIDGE * np.eye(own.shape[1])
    matrix = np.block([[_powers(points, points, degree), own], [own.T, none]])
    rows = np.concatenate([_powers(wanted, points, degree), others], axis=1)
    weights = np.zeros((len(wanted), len(known)))
    weights[:, places] = np.linalg.solve(matrix, rows.T)[: len(points)].T
    return weights


def _degree(count: int, dimension: int) -> int:
    fits = [k for k in range(1, HIGHEST + 1) if 2 * math.comb(dimension + k, k) <= count]
    return max(fits, default=0)


def _monomials(points: Float[np.ndarray, "K D"], degree: int) -> Float[np.ndarray, "K T"]:
    """All products of up to `degree` coordinates of each point."""
    each = range(points.shape[1])
    choices = [x for k in range(degree + 1) for x in combinations_with_replacement(each, k)]
    return np.stack([np.prod(points[:, list(choice)], axis=1) for choice in choices], axis=1)


def _powers(
    a: Float[np.ndarray, "A D"], b: Float[np.ndarray, "B D"], degree: int
) -> Float[np.ndarray, "A B"]:
    """The distances between points to the power 2k + 1, or 1 for constants."""
    return np.sum((a[:, None] - b[None]) ** 2, axis=2) ** (degree + 0.5)


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
    combined = jnp.asarray(weights, known.mu.dtype)
    return _begun(problems, transcriptions, guesses, first, combined, given)


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
    weights: Float[Array, "F P"],
    known: tuple[CollocationPoint, Duals],
) -> SearchState:
    """The states at combinations of the optima `known`, in which displacements from `first` stand for the bases, or those
    at the guesses."""
    w, duals = jax.tree.map(lambda x: jnp.tensordot(weights, x, 1), known)

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
