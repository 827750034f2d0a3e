"""Work beside other work: XLA's compiler leaves Python, and all cores but one, alone for seconds."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import Any

from jaxhamel.cli._results._machine import cores


@contextmanager
def meanwhile(job: Callable[[], Any]) -> Iterator[None]:
    """The job in a thread: to compile what is computed later on, which meets its errors again. On one core it is left out.

    Figure-eight, two cores, nothing else running: `jaxhamel simulate` 8.5 s without and 5.6 with this and what else was
    done about it (medians of three), `jaxhamel control` 22 and 17 (one run).
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
