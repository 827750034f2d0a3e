"""Checks that a resumed run is continued by the program that began it."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel.ensemble._checks._run_folder import another_program, begun_elsewhere, other_numbers
from jaxhamel.ensemble._origin._origin import Origin
from jaxhamel.ensemble._study._block_store import BlockStore

# Tolerance, as a power of the machine precision, for trajectories computed again with other versions, relative to a
# quantity's largest value. The square root admits rounding errors that the motion amplifies, but no change of a parameter.
_DIGITS = 0.5


def _tolerance() -> float:
    return float(jnp.finfo(jax.dtypes.canonicalize_dtype(float)).eps) ** _DIGITS


def check_origin(
    store: BlockStore, here: Origin, again: Callable[[int], Float[np.ndarray, "B c"]]
) -> None:
    """Checks that the program `here` is the one that began the run in the folder.

    The canonical texts of both programs must be equal. If they differ and the versions of JAX or Python differ too, one
    block is computed `again` instead, and its trajectories must agree with those in the folder.

    **Raises:** `ValueError` if the program or the numbers differ. `UserWarning` if only the versions differ.
    """
    there = store.begun
    if there is None:
        return
    same, versions = there.digest == here.digest, there.versions_not_of(here)
    if not same and not versions:
        raise another_program(store.folder, there.first_difference(here))
    if not versions:
        return
    rows, by = (0, 0.0) if same else _compared(store, again, versions)
    if store.missing and (same or rows):
        said = begun_elsewhere(store.folder, versions, same, rows, by)
        warnings.warn(said, UserWarning, stacklevel=5)


def _compared(store: BlockStore, again: Callable[..., Any], versions: str) -> tuple[int, float]:
    """Computes the first block in the folder again; its number of trajectories and their largest relative difference."""
    done = [index for index in range(store.blocks) if index not in store.missing]
    if not done:
        return 0, 0.0
    kept, found = store[done[0]], again(done[0])
    scale = np.nanmax(np.abs(kept), axis=0, initial=np.finfo(float).tiny)
    away = np.where(np.isnan(kept) & np.isnan(found), 0.0, np.abs(found - kept)) / scale
    worst = np.max(np.where(np.isnan(away), np.inf, away), axis=0)
    column = int(np.argmax(worst))
    if worst[column] > _tolerance():
        raise other_numbers(store.folder, versions, store.columns[column], worst[column])
    return len(kept), float(worst[column])
