"""Finds the numbers by which the optimal cost has no derivative, because the minimum is one of a family of minima.

All minima w of the family have the same cost, and J*(p) follows the minimum whose cost falls most with p (Danskin 1967):

    dJ*/dp⁺ = min_w ∂L/∂p ,    dJ*/dp⁻ = max_w ∂L/∂p .

So J* has a derivative by a number p only if ∂L/∂p is the same at all minima. Example: if a ball can make its loop in any
direction, J* has no derivative by the direction of the ball's displacement.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel.control._certificate._isolation import FLOOR, STEP
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._derivatives_of_optima._neighbour import barrier_parameter
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._interior_point._interior_point import LOGGED, more_iterations
from jaxhamel.control._interior_point._state import first_state
from jaxhamel.control._scaling._sizes import size_of

TOLERANCE = 1e-9  # tolerance of the search for another minimum
# Two values of ∂L/∂p are different if their relative difference is above this times √ε: 1e-5, in single precision 0.2.
DIFFERENT = 700.0


def another_minimum(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> tuple[CollocationPoint, Duals] | None:
    """Another minimum of the family and its multipliers, found by a search from perturbed controls; None if it fails."""
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
