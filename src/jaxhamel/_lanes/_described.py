"""Tracing a program to describe it, not to run it: the same on every machine.

How `lanes` writes a program out depends on the devices, their number and the cores of a processor. A program that is
traced to be compared with one of another machine is traced as `jax.vmap` has it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jax.experimental.xla_metadata import set_xla_metadata

_DESCRIBED: ContextVar[bool] = ContextVar("jaxhamel_described", default=False)


@contextmanager
def described() -> Iterator[None]:
    """Within it programs are traced to be described. XLA's metadata are part of the key of JAX's caches of traced
    functions, so that none of these programs is ever run."""
    token = _DESCRIBED.set(True)
    try:
        with set_xla_metadata(jaxhamel="described"):
            yield
    finally:
        _DESCRIBED.reset(token)


def is_described() -> bool:
    """Whether the program that is being traced is one to be described."""
    return _DESCRIBED.get()
