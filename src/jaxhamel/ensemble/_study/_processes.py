"""Several processes of one run (`jax.distributed`): they tell each other their numbers, and when one cannot go on."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import Float


class Elsewhere(RuntimeError):
    """Another process could not go on."""


@contextmanager
def together() -> Iterator[None]:
    """What goes wrong in one process ends the others at their next word, which would wait for it for ever."""
    try:
        yield
    except Elsewhere:
        raise
    except Exception:
        _said(wrong=True)
        raise
    all_well()


def all_well() -> None:
    """A word of every process. **Raises:** `Elsewhere` where one of them says that it cannot go on."""
    wrong = np.flatnonzero(_said(wrong=False))
    if len(wrong):
        raise Elsewhere(f"process {wrong[0]} could not go on; its own message says why.")


def gathered(rows: Float[np.ndarray, "..."]) -> Float[np.ndarray, "P ..."]:
    """Those of every process, once all have said that they are well."""
    all_well()
    return _from_bits(multihost_utils.process_allgather(_bits(rows)))


def of_the_first(rows: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Those of process 0, for all."""
    return _from_bits(multihost_utils.broadcast_one_to_all(_bits(rows)))


def _said(wrong: bool) -> np.ndarray:
    if jax.process_count() == 1:
        return np.zeros(1, bool)
    return np.asarray(multihost_utils.process_allgather(np.asarray(wrong)))


# JAX's exchange rounds to its own precision, single by default: it gets the bits, as whole numbers
def _bits(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows).view(np.uint32)


def _from_bits(bits) -> np.ndarray:
    return np.array(bits).view(np.float64)
