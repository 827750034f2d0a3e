"""Runs a job in a thread while the main thread compiles: XLA's compiler releases Python and uses one core."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from jaxhamel._cores import cores


@contextmanager
def meanwhile(job: Callable[[], Any]) -> Iterator[None]:
    """Runs `job` in a thread to warm up compilation. Its exceptions are dropped: the later code raises them again.

    It is skipped on one core. Timings: docs/performance.md#command-line.
    """
    if cores() == 1:
        yield
        return

    def run() -> None:
        with suppress(Exception):
            job()

    thread = Thread(target=run, daemon=True)
    thread.start()
    yield  # where this ends in an error, that is said without waiting
    thread.join()
