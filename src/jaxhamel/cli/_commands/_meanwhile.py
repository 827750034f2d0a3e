"""Runs a job in a thread beside the main thread: XLA's compiler uses one core and releases Python's global lock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from jaxhamel._cores import cores


@contextmanager
def meanwhile(job: Callable[[], Any]) -> Iterator[None]:
    """Runs `job` in a thread, beside the body of the `with` statement, to compile programs before they are needed.

    Exceptions of `job` are dropped, because the code that needs the programs raises them again. On a machine with one core
    `job` is not run. Timings: docs/performance.md#command-line.
    """
    if cores() == 1:
        yield
        return

    def run() -> None:
        with suppress(Exception):
            job()

    thread = Thread(target=run, daemon=True)
    thread.start()
    yield  # an error in the body is raised without waiting for the thread
    thread.join()
