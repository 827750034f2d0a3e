"""A deadline within which JAX may trace and compile.

XLA cannot be interrupted, but a program is traced, then lowered, then compiled, and each of these parts takes seconds. JAX
tells its listeners (`jax.monitoring`) when one has ended; there the deadline is looked at.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import jax.monitoring

AFTER = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")  # before XLA, which takes longest


class OutOfTime(Exception):
    """The deadline is over before a program is compiled."""


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def compiled_before(deadline: float) -> Iterator[None]:
    """Within it nothing is compiled any more after the deadline; what is compiled already runs.

    **Arguments:** `deadline`: on the clock `time.monotonic`. **Raises:** `OutOfTime`, at once where the deadline is over.
    """
    _listen()
    _look(deadline)
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _look(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise OutOfTime


def _told(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event.endswith(AFTER):
        _look(_DEADLINE.get())


@cache
def _listen() -> None:
    """Registers the listener, once in a process."""
    jax.monitoring.register_event_duration_secs_listener(_told)
