"""Traces a program only to describe it, in a form that is the same on every machine.

The form in which `lanes` writes out a program depends on the devices and on the number of cores. A program that is to be
compared with one from another machine is traced in the form of `jax.vmap` instead.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from jax.experimental.xla_metadata import set_xla_metadata

_DESCRIBED: ContextVar[bool] = ContextVar("jaxhamel_described", default=False)


@contextmanager
def for_description() -> Iterator[None]:
    """A context in which programs are traced only to be described.

    The context sets metadata for XLA. They are part of the keys of JAX's caches of traced functions, so that JAX never runs
    a program that was traced in this context.
    """
    token = _DESCRIBED.set(True)
    try:
        with set_xla_metadata(jaxhamel="described"):
            yield
    finally:
        _DESCRIBED.reset(token)


def is_described() -> bool:
    """Whether the current trace only serves to describe the program."""
    return _DESCRIBED.get()
