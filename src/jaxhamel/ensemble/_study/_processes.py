"""Communication between the processes of one run (`jax.distributed`): results, and failures of any process."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import Float


class Elsewhere(RuntimeError):
    """Another process has failed."""


@contextmanager
def together() -> Iterator[None]:
    """If one process fails, the others raise `Elsewhere` at their next collective call instead of hanging."""
    try:
        yield
    except Elsewhere:
        raise
    except Exception:
        _said(wrong=True)
        raise
    all_well()


def all_well() -> None:
    """Exchanges a status flag among all processes. **Raises:** `Elsewhere` if one of them has failed."""
    wrong = np.flatnonzero(_said(wrong=False))
    if len(wrong):
        raise Elsewhere(f"process {wrong[0]} could not go on; its own message says why.")


def gathered(rows: Float[np.ndarray, "..."]) -> Float[np.ndarray, "P ..."]:
    """The rows of every process, after a check that none has failed."""
    all_well()
    return _from_bits(multihost_utils.process_allgather(_bits(rows)))


def of_the_first(rows: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The rows of process 0, sent to all processes."""
    return _from_bits(multihost_utils.broadcast_one_to_all(_bits(rows)))


def _said(wrong: bool) -> np.ndarray:
    if jax.process_count() == 1:
        return np.zeros(1, bool)
    return np.asarray(multihost_utils.process_allgather(np.asarray(wrong)))


# JAX's collectives round to its default precision (single): the bits are sent as integers instead
def _bits(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows).view(np.uint32)


def _from_bits(bits) -> np.ndarray:
    return np.array(bits).view(np.float64)
