"""The processor's cores that this process may use."""

import os


def cores() -> int:
    """The number of cores that this process may run on: those of its affinity mask where the system has one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
