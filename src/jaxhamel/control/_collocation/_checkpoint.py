"""The arrays from which a stopped search goes on."""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.control._collocation._transcription import CollocationPoint
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._interior_point._state import SearchState, strong

SHARES = "shares"


class SearchPoint(NamedTuple):
    """An iterate, its multipliers, μ of the barrier and ν of the merit function."""

    w: CollocationPoint
    duals: Duals
    mu: jax.Array
    weight: jax.Array

    @classmethod
    def of(cls, state: SearchState) -> "SearchPoint":
        """The iterate and multipliers of a state of the search."""
        return cls(state.w, state.duals, state.mu, state.weight)


def to_arrays(shares: jax.Array, state: SearchState) -> dict[str, np.ndarray]:
    """Converts the mesh, the iterate and its multipliers to named arrays, which can be saved in a file."""
    leaves = jax.tree_util.tree_leaves_with_path(SearchPoint.of(state))
    named = {jax.tree_util.keystr(path): np.asarray(x) for path, x in leaves}
    return {SHARES: np.asarray(shares), **named}


def from_arrays(arrays: Mapping[str, np.ndarray], state: SearchState) -> SearchState | None:
    """Restores a state from named arrays. `state`: any state of the same problem and mesh.

    **Returns:** None if an array is missing, has another shape, or is not finite.
    """
    leaves, structure = jax.tree_util.tree_flatten_with_path(SearchPoint.of(state))
    found = []
    for path, like in leaves:
        x = arrays.get(jax.tree_util.keystr(path))
        if x is None or x.shape != like.shape or not np.all(np.isfinite(x)):
            return None
        found.append(jnp.asarray(x, like.dtype))
    point = jax.tree_util.tree_unflatten(structure, found)
    return strong(state._replace(**point._asdict()))
