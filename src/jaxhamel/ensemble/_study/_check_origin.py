"""Whether the program that is to go on with a run is the one that began it."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel import _checks
from jaxhamel.ensemble._origin._origin import Origin
from jaxhamel.ensemble._study._block_store import BlockStore

# How far trajectories computed again with other versions may be from those kept, relative to the largest of a quantity:
# the root of the precision, which leaves room for rounding that a motion magnifies, and none for another parameter.
_DIGITS = 0.5


def _tolerance() -> float:
    return float(jnp.finfo(jax.dtypes.canonicalize_dtype(float)).eps) ** _DIGITS


def check_origin(
    store: BlockStore, here: Origin, again: Callable[[int], Float[np.ndarray, "B c"]]
) -> None:
    """The folder's program is `here`, to the letter; where it was traced with other versions and differs, the trajectories
    of one block, computed `again`, are those kept.

    **Raises:** `ValueError` for another program, or other numbers. `UserWarning` where versions differ.
    """
    there = store.begun
    if there is None:
        return
    same, versions = there.digest == here.digest, there.versions_not_of(here)
    if not same and not versions:
        raise _checks.another_program(store.folder, there.first_difference(here))
    if not versions:
        return
    rows, by = (0, 0.0) if same else _compared(store, again, versions)
    if store.missing and (same or rows):
        said = _checks.begun_elsewhere(store.folder, versions, same, rows, by)
        warnings.warn(said, UserWarning, stacklevel=5)


def _compared(store: BlockStore, again: Callable[..., Any], versions: str) -> tuple[int, float]:
    """How many trajectories of the first block that is there were compared, and their largest relative difference."""
    done = [index for index in range(store.blocks) if index not in store.missing]
    if not done:
        return 0, 0.0
    kept, found = store[done[0]], again(done[0])
    scale = np.nanmax(np.abs(kept), axis=0, initial=np.finfo(float).tiny)
    away = np.where(np.isnan(kept) & np.isnan(found), 0.0, np.abs(found - kept)) / scale
    worst = np.max(np.where(np.isnan(away), np.inf, away), axis=0)
    column = int(np.argmax(worst))
    if worst[column] > _tolerance():
        raise _checks.other_numbers(store.folder, versions, store.columns[column], worst[column])
    return len(kept), float(worst[column])
