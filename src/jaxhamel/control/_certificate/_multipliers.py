"""Decides whether an optimum has multipliers, by searching once more with a smaller tolerance, and from a point nearby with
a larger one.

Where the gradients of the active constraints depend on one another, an optimum may have no multipliers. The search then
ends near it, at a point that satisfies the constraints within the tolerance ε only, and the multipliers it finds there grow
without bound as ε falls: like ε^(−1/2) for the constraint x² = 0. A search that ends within rounding errors comes no closer
with a smaller ε; its multipliers then are larger than those with a larger ε.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._typing import Scalar
from jaxhamel.control._certificate._cost_error import cost_error
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._interior_point import LOGGED, more_iterations
from jaxhamel.control._interior_point._state import SearchState, displaced, resumed
from jaxhamel.control._scaling._sizes import of_size, size_of

# Multipliers are examined where an error of the size of the tolerance changes the cost by more than this fraction.
SENSITIVE = 1e-6
TIGHTER = 1e-3  # ratio of the smaller tolerance to the given one, and of this to the larger one
# The search with the larger tolerance starts from states and controls that are changed by this share of their sizes.
NEARBY = 1e-3
GROWTH = 3.0  # multipliers that grow by this factor count as unbounded; ε^(−1/2) gives 30


def largest(state: SearchState) -> float:
    """The largest absolute value among all multipliers of the search."""
    sizes = [np.max(np.abs(np.asarray(x)), initial=0.0) for x in jax.tree.leaves(state.duals)]
    return float(max(sizes))


def unbounded_multipliers(
    transcription: Transcription, state: SearchState, tolerance: Scalar
) -> str:
    """A sentence if the search, continued with a thousandth of the tolerance, finds no multipliers; otherwise empty.

    They then grow, or have grown since a search with a larger one, or are already so large that rounding errors of the
    constraints, times the multipliers, change the cost.

    The search is continued only if an error of the tolerance's size, times the multipliers, changes the cost, and if the
    precision allows the smaller tolerance: in single precision rounding alone changes the multipliers.
    """
    before = largest(state)
    if TIGHTER * float(tolerance) < float(jnp.finfo(tolerance.dtype).eps):
        return ""
    if before * float(tolerance) <= SENSITIVE * (1 + abs(float(state.cost))):
        return ""
    tighter = _tighter(transcription, state, TIGHTER * tolerance)
    after, effect = largest(tighter), cost_error(transcription, tighter.w, tighter.duals)
    if after <= GROWTH * before:
        before, after = _multipliers_nearby(transcription, state, tolerance), before
    grow = after > GROWTH * before
    if not grow and effect <= SENSITIVE:
        return ""
    if grow:
        found = f"they grow from {before:.1e} to {after:.1e} as the tolerance falls by a factor of {TIGHTER:g}"
    else:
        found = f"with those up to {max(before, after):.1e} the violations that are left change the cost by {effect:.1e}"
    return (
        f"multipliers: none were found, {found}: the gradients of the constraints depend on one another, or no point meets "
        "these with any margin"
    )


def _tighter(transcription: Transcription, state: SearchState, tolerance: Scalar) -> SearchState:
    """Continues the search from `state` until it meets the tolerance; returns where it ends."""
    tolerance = jnp.asarray(tolerance, state.mu.dtype)
    begin = resumed(state._replace(mu=jnp.minimum(state.mu, tolerance)))
    return more_iterations(transcription, begin, tolerance, jnp.asarray(LOGGED))[0]


def _multipliers_nearby(
    transcription: Transcription, state: SearchState, tolerance: Scalar
) -> float:
    """The largest multiplier where a search with a larger tolerance ends that begins near `state`, with multipliers
    estimated anew; infinite if it fails.
    """
    tolerance = jnp.asarray(tolerance / TIGHTER, state.mu.dtype)
    begin = displaced(transcription, state, _displaced(transcription, state.w))
    begin = begin._replace(estimates=jnp.asarray(True))
    end = more_iterations(transcription, begin, tolerance, jnp.asarray(LOGGED))[0]
    return largest(end) if bool(end.done) else float("inf")


def _displaced(transcription: Transcription, w: CollocationPoint) -> CollocationPoint:
    """The iterate with all states but the first, and all controls, displaced by `NEARBY` times their sizes."""

    def step(like, name):
        return of_size(jnp.full_like(like, NEARBY), size_of(transcription.sizes, name))

    x = w.x.at[1:].add(step(w.x[1:], "x"))
    return w._replace(x=x, X=w.X + step(w.X, "x"), c=w.c + step(w.c, "c"))
