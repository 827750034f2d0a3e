"""Makes XLA divide a loop over the lanes between two threads.

XLA's CPU compiler decides by the bytes that a loop reads and writes, not by its operations: one task for each 256 KiB, at
most √(number of cores) tasks, rounded up (jaxlib 0.10.2). A step of 2,980 operations on 1,024 lanes with 9 vectors was one
task. So a loop with many operations is given padding vectors of zeros, until XLA makes two tasks of it. Timings:
docs/performance.md#threads.
"""

import os
from collections.abc import Iterable

import numpy as np

TASK_SIZE = 2**18

# Two tasks are faster than one from this many operations times lanes on (docs/performance.md#threads).
DENSE = 800_000


def spare_vectors(columns: Iterable[np.dtype], operations: int, size: int) -> list[np.dtype]:
    """The dtypes of the padding vectors that make XLA split the loop into two tasks."""
    columns = list(columns)
    if _cores() < 2 or operations * size < DENSE:
        return []
    widest = max(columns, key=lambda kind: kind.itemsize)
    missing = 2 * TASK_SIZE - size * sum(kind.itemsize for kind in columns)
    return [widest] * max(0, -(-missing // (size * widest.itemsize)))


def _cores() -> int:
    """The number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
