"""When XLA divides a loop over the lanes among threads.

XLA's CPU compiler counts the bytes that such a loop reads and writes, not what it computes in between: it makes as many
tasks of it as these are times 256 KiB, at most √(number of cores), rounded up (jaxlib 0.10.2). A step of 2,980 operations on
1,024 lanes with 9 vectors of its own was one task. So a loop that computes much gets vectors of zeros that it writes for
nothing, until there are two tasks of it.

Rolling ball with three masses, 1,024 lanes, RK4, two quiet cores, µs a step without and with them, what all lanes share
being the control and the masses: 66 and 41, with the gradient 239 and 153; each lane's own: 47 as it was, 246 and 179.
"""

import os
from collections.abc import Iterable

import numpy as np

TASK = 2**18

# Operations times lanes from which two tasks are faster than one. The same ball, all loops in two tasks: 512 lanes 34 and 29
# µs a step (each lane's own 38 and 27), 256 lanes 18 and 24 (shortest of 25 runs).
DENSE = 800_000


def spare_vectors(columns: Iterable[np.dtype], operations: int, size: int) -> list[np.dtype]:
    """Of which dtypes vectors are to be added to those that a loop reads and writes, for there to be two tasks."""
    columns = list(columns)
    if _cores() < 2 or operations * size < DENSE:
        return []
    widest = max(columns, key=lambda kind: kind.itemsize)
    missing = 2 * TASK - size * sum(kind.itemsize for kind in columns)
    return [widest] * max(0, -(-missing // (size * widest.itemsize)))


def _cores() -> int:
    """Those that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
