"""A deadline for JAX's tracing and lowering of a program, so that its compilation does not begin too late.

A program is traced, then lowered, then compiled by XLA, and each stage takes seconds. XLA cannot be interrupted, but JAX
calls listeners (`jax.monitoring`) at the end of a stage. A listener here checks the deadline after tracing and after
lowering, and raises `OutOfTime` if it has passed.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import jax.monitoring

# JAX's events at the end of tracing and of lowering; XLA's compilation, the longest stage, comes next
CHECKED_AFTER = ("jaxpr_trace_duration", "jaxpr_to_mlir_module_duration")


class OutOfTime(Exception):
    """The deadline has passed before a program is compiled."""


_DEADLINE: ContextVar[float] = ContextVar("deadline", default=float("inf"))


@contextmanager
def compiled_before(deadline: float) -> Iterator[None]:
    """A context in which no program is compiled after the deadline; compiled programs still run.

    **Arguments:** `deadline`: on the clock `time.monotonic`. **Raises:** `OutOfTime`, at once if the deadline has passed.
    """
    _listen()
    _raise_if_late(deadline)
    token = _DEADLINE.set(deadline)
    try:
        yield
    finally:
        _DEADLINE.reset(token)


def _raise_if_late(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise OutOfTime


def _stage_ended(event: str, duration_secs: float, **kwargs: Any) -> None:
    if event.endswith(CHECKED_AFTER):
        _raise_if_late(_DEADLINE.get())


@cache
def _listen() -> None:
    """Registers the listener, once in a process."""
    jax.monitoring.register_event_duration_secs_listener(_stage_ended)
