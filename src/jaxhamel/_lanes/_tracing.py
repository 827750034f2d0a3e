"""Contexts in which a program is traced: it will be compiled with fusions over the lanes, or it is only described.

*Fusions over the lanes* (`_xla_cpu/_loop_fusion.py`). XLA has two code generators for fusions, and a compiler option chooses
between them. The newer one, the default, ends the process at a fusion over the lanes. So a program that is compiled with
`OPTIONS` is traced under a name that ends in `SUFFIX`, which is also the name of its module: only in such a module is a
fusion lowered as one.

*Descriptions*. The form in which `lanes` writes out a program depends on the devices and on the number of cores. A program
that is to be compared with one from another machine is traced in the form of `jax.vmap` instead.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from jax.experimental.xla_metadata import set_xla_metadata

from jaxhamel._compiled import without_collections

# The older code generator.
OPTIONS = {"xla_cpu_use_fusion_emitters": False}
SUFFIX = "_in_jaxhamel_fusions"

_IN_FUSIONS: ContextVar[bool] = ContextVar("in_fusions", default=False)


def in_fusions() -> bool:
    """Whether the program that is being traced will be compiled with `OPTIONS`."""
    return _IN_FUSIONS.get()


def takes_fusions(f: Callable) -> Callable:
    """Marks f as the function of a program that is compiled with `OPTIONS`: by its name, and for `in_fusions()`."""

    def traced(*args, **kwargs):
        with _set(True):
            return f(*args, **kwargs)

    name = getattr(f, "__name__", type(f).__name__) + SUFFIX
    functools.update_wrapper(traced, f)
    traced.__name__ = traced.__qualname__ = name
    traced.__signature__ = inspect.signature(f)  # pyright: ignore
    del traced.__wrapped__  # with it, equinox would name the program after f
    return traced


def is_compiled_with_options(context: Any) -> bool:
    """Whether the program that is being lowered is compiled with `OPTIONS`."""
    name = context.module_context.module.operation.attributes["sym_name"]
    return str(name).strip('"').endswith(SUFFIX)


def as_its_program(rule: Callable) -> Callable:
    """Wraps a lowering rule, so that `in_fusions()` inside it is that of the program that is being lowered.

    No garbage is collected meanwhile, since rules trace whole programs.
    """

    @functools.wraps(rule)
    def lowered(context, *values, **params):
        with _set(is_compiled_with_options(context)), without_collections():
            return rule(context, *values, **params)

    return lowered


@contextmanager
def _set(value: bool) -> Iterator[None]:
    token = _IN_FUSIONS.set(value)
    try:
        yield
    finally:
        _IN_FUSIONS.reset(token)


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
