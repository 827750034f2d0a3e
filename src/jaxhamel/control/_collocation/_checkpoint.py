"""Saves a search as named arrays, and restores its state from them."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._search._saved import is_finite_array, named_arrays, restored
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._barrier import barrier_function
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._interior_point._state import SearchState, strong

SHARES, COST_UNIT, POINTS = "shares", "cost_unit", "points"


class SearchPoint(NamedTuple):
    """The saved part of a search's state: the iterate, its multipliers and the barrier parameter μ."""

    w: CollocationPoint
    duals: Duals
    mu: jax.Array

    @classmethod
    def of(cls, state: SearchState) -> "SearchPoint":
        """The part of `state` that is saved."""
        return cls(state.w, state.duals, state.mu)


def to_arrays(transcription: Transcription, state: SearchState) -> dict[str, np.ndarray]:
    """Converts the mesh, its points, the cost unit, the iterate and its multipliers to named arrays, which can be saved in a
    file."""
    own = {
        SHARES: transcription.shares,
        COST_UNIT: transcription.cost_unit,
        POINTS: transcription.constants("points"),
    }
    return {
        **{name: np.asarray(x) for name, x in own.items()},
        **named_arrays(SearchPoint.of(state)),
    }


def unit_of(arrays: Mapping[str, np.ndarray]) -> float:
    """The cost unit of a saved search; 1 if the saved array is missing or is not a positive number."""
    unit = arrays.get(COST_UNIT)
    if not is_finite_array(unit) or unit.shape != () or not float(unit) > 0:
        return 1.0
    return float(unit)


def points_of(arrays: Mapping[str, np.ndarray]) -> str | None:
    """The kind of the collocation points of a saved search, "gauss" or "radau"; None if it is not saved."""
    points = arrays.get(POINTS)
    if not is_finite_array(points) or points.ndim != 1 or not points.size:
        return None
    return "radau" if points[-1] == 1.0 else "gauss"


def mesh_of(arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The mesh of a saved search, from 0 to 1; None if the saved array is missing or is not a mesh."""
    shares = arrays.get(SHARES)
    if not is_finite_array(shares) or shares.ndim != 1 or shares.size < 2:
        return None
    ends = shares[0] == 0.0 and shares[-1] == 1.0
    return shares if ends and np.all(np.diff(shares) > 0.0) else None


def from_arrays(
    arrays: Mapping[str, np.ndarray], transcription: Transcription, state: SearchState
) -> SearchState | None:
    """Restores the state of a search from named arrays.

    **Arguments:** `state`: any state of a search on the same problem and mesh. The restored one has its initial state
    (q0, u0), except for free coordinates.

    **Returns:** the state. None if an array is missing, has another shape, or is not finite; or if a configuration is not in
    the system's space, a slack or parameter violates its bounds, or a multiplier of a bound is negative.
    """
    point = restored(arrays, SearchPoint.of(state))
    if point is None or not _holds(transcription, point, state):
        return None
    q = jax.tree.map(lambda x, first: x.at[0].set(first[0]), point.w.q, state.w.q)
    free, p = np.asarray(transcription.free_start, int), point.w.p
    first = state.w.x[0].at[free].set(p[int(transcription.free_time) : transcription.n_own])
    w = point.w._replace(q=q, x=point.w.x.at[0].set(first))
    return strong(state._replace(**point._replace(w=w)._asdict()))


def _holds(transcription: Transcription, point: SearchPoint, like: SearchState) -> bool:
    """Whether saved values are valid: configurations in the space, slacks and parameters within bounds, multipliers ≥ 0."""
    w, duals = point.w, point.duals
    normal = jax.vmap(transcription.system.space.normalise)(w.q)
    off = [
        np.max(np.abs(x - y), initial=0.0)
        for x, y in zip(jax.tree.leaves(normal), jax.tree.leaves(w.q), strict=True)
    ]
    bounds = (duals.low, duals.high, duals.p_low, duals.p_high)
    return (
        max(off) < 1e3 * float(jnp.finfo(w.x.dtype).eps)
        and bool((point.mu > 0) == (like.mu > 0))
        and bool(np.isfinite(barrier_function(transcription, w)))
        and all(bool(np.all(np.asarray(z) >= 0.0)) for z in bounds)
    )
