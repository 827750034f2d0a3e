"""Runs the blocks of an ensemble on all devices of this process, or on the cores of a processor, and exchanges results
and failures with the other processes of the run (`jax.distributed`).

Every device runs the same program for a single device on blocks of the same length, so that no digit of a trajectory depends
on the device that computed it. A single program that is partitioned over the devices, as by `jax.shard_map`, is optimised
differently if there are several, and rounds differently (seen with jax 0.10.2 on the rolling ball).
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jaxtyping import Float

from jaxhamel._lanes._xla_cpu._jit import WIDE, cores, known_here

AHEAD = 2  # tasks queued for each thread, so that no thread waits for the reader


class Devices:
    """A model, evaluated block by block on the devices of this process; compiled once for each device.

    **Arguments:** `model`: maps arrays with a leading batch axis to arrays with that axis.
    """

    def __init__(self, model: Callable[[dict[str, Any]], Any]):
        self._program, self._devices = jax.jit(lambda block: model(block)), jax.local_devices()
        self._compiled: list[Any] = [None] * len(self._devices)
        self._locks = [Lock() for _ in self._devices]
        # a precision set by a context holds only in the thread that set it: the worker threads need it, too
        self._double = jax.dtypes.canonicalize_dtype(float) == np.float64
        self.ready: float | None = (
            None  # time at which the first device's program was compiled (monotonic clock)
        )

    @property
    def threads(self) -> int:
        """Number of worker threads: one per device; with a single CPU device one per core, as a lane program uses one."""
        alone = len(self._devices) == 1 and jax.default_backend() == "cpu"
        return cores() if alone else len(self._devices)

    def __call__(self, number: int, sample: dict[str, np.ndarray]) -> Any:
        """Evaluates one block on device `number` modulo the number of devices; safe to call from several threads."""
        with jax.enable_x64(self._double):
            return self._run(number % len(self._devices), sample)

    def _run(self, i: int, sample: dict[str, np.ndarray]) -> Any:
        placed = jax.device_put(sample, self._devices[i])
        with self._locks[i]:
            if self._compiled[i] is None:
                options: Any = known_here(WIDE)
                self._compiled[i] = self._program.lower(placed).compile(compiler_options=options)
                self.ready = self.ready or time.monotonic()
        return self._compiled[i](placed)


def in_order(work: Callable[[Any], Any], tasks: Iterable[Any], threads: int) -> Iterator[Any]:
    """Yields work(task) in the order of the tasks, computed by several threads a few tasks ahead of the reader."""
    waiting: deque[Future] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for task in tasks:
                waiting.append(pool.submit(work, task))
                if len(waiting) > AHEAD * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # also if the reader stops early
            for future in waiting:
                future.cancel()


class Elsewhere(RuntimeError):
    """Another process has failed."""


@contextmanager
def together() -> Iterator[None]:
    """A context in which a failure of one process makes the others raise `Elsewhere` at their next collective call."""
    try:
        yield
    except Elsewhere:
        raise
    except Exception:
        _gathered(wrong=True)
        raise
    all_well()


def all_well() -> None:
    """Exchanges a status flag among all processes. **Raises:** `Elsewhere` if one of them has failed."""
    wrong = np.flatnonzero(_gathered(wrong=False))
    if len(wrong):
        raise Elsewhere(f"process {wrong[0]} could not go on; its own message says why.")


def gathered(rows: Float[np.ndarray, "..."]) -> Float[np.ndarray, "P ..."]:
    """The rows of every process, after a check that none has failed."""
    all_well()
    return _from_bits(multihost_utils.process_allgather(_bits(rows)))


def of_the_first(rows: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """The rows of process 0, sent to all processes."""
    return _from_bits(multihost_utils.broadcast_one_to_all(_bits(rows)))


def _gathered(wrong: bool) -> np.ndarray:
    if jax.process_count() == 1:
        return np.zeros(1, bool)
    return np.asarray(multihost_utils.process_allgather(np.asarray(wrong)))


# JAX's collectives round to its default precision (single); so the bits are sent, as integers
def _bits(rows: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(rows).view(np.uint32)


def _from_bits(bits) -> np.ndarray:
    return np.array(bits).view(np.float64)
