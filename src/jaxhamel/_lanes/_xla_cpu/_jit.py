"""`jit` for ensembles: a `jax.jit` that asks XLA for the CPU's widest vectors."""

import functools
import os
import re
from collections.abc import Callable
from functools import cache
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from jaxhamel._compiled import compiled
from jaxhamel._lanes._tracing import OPTIONS, takes_fusions
from jaxhamel._lanes._xla_cpu._fusion import fusions_work

P = ParamSpec("P")
T = TypeVar("T")

# XLA prefers vectors of 256 bits even on processors with 512; for lanes 512 bits are nearly twice as fast
# (docs/performance.md#vector-width).
WIDE = {"xla_cpu_prefer_vector_width": 512}

# Options for programs whose compilation takes longer than their runs (docs/performance.md#command-line): `QUICK` for
# programs that run once, `FEW_RUNS` for those that run some thirty times, `MANY_RUNS` for those that run some hundred times.
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_use_fusion_emitters": False,
}
FEW_RUNS = {**QUICK, "xla_backend_optimization_level": 1}
# `IN_KERNEL` is for programs that are one kernel, whose loops over rows of matrices take half the time with all of LLVM.
IN_KERNEL = {k: x for k, x in QUICK.items() if k != "xla_backend_optimization_level"}
MANY_RUNS = {"xla_backend_optimization_level": 1, "xla_cpu_use_fusion_emitters": False}


def jit(f: Callable, **options: Any) -> Callable:
    """`equinox.filter_jit` (`jax.jit` where arrays are traced and all else is static) for programs in lanes:

        run = jaxhamel.ensemble.jit(jax.grad(cost_of_ensemble))

    On CPUs with vectors of 512 bits it is nearly twice as fast. Elsewhere, and inside another `jit`, `vmap` or `grad`,
    where JAX accepts no compiler options, it is the same as `equinox.filter_jit`.

    **Arguments:** `f`: the function. `options`: as for `equinox.filter_jit`.

    **Returns:** a function like `f`.
    """
    plain = compiled(f, **options)
    wide = compiled(f, compiler_options=WIDE, **options)
    fused = compiled(takes_fusions(f), compiler_options=WIDE | OPTIONS, **options)

    def alone():
        if not known_here(WIDE):
            return plain
        return fused if _loops_may_be_fusions() else wide

    @functools.wraps(f)
    def run(*args, **kwargs):
        return (alone() if is_outermost((args, kwargs)) else plain)(*args, **kwargs)

    _OUTERMOST[run] = alone
    return run


_OUTERMOST: WeakKeyDictionary[Callable, Callable[[], Callable]] = WeakKeyDictionary()


def outermost(run: Callable) -> Callable:
    """The function made by `compiled` that `run`, a function made by `jit`, calls if no trace is under way."""
    return _OUTERMOST[run]()


def _loops_may_be_fusions() -> bool:
    """Whether XLA is known to compile fusions over the lanes if it is given `OPTIONS`."""
    set_already = "--xla_cpu_use_fusion_emitters=false" in os.environ.get("XLA_FLAGS", "")
    return fusions_work() and (set_already or known_here(OPTIONS) == OPTIONS)


def compiled_with(options: dict[str, Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator: `compiled` with compiler options, where this XLA knows them and no trace is under way."""

    def decorate(f: Callable[P, T]) -> Callable[P, T]:
        plain = compiled(f)
        other = cache(lambda: compiled(f, compiler_options=known_here(options)))

        @functools.wraps(f)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            return (other() if is_outermost((args, kwargs)) else plain)(*args, **kwargs)

        return run

    return decorate


def is_outermost(arguments) -> bool:
    """Whether no trace is under way: neither the arguments nor, as inside `jit`, new values are tracers."""

    def traced(x):
        return isinstance(x, jax.core.Tracer)

    return not traced(jnp.negative(np.float32(0))) and not any(
        map(traced, jax.tree.leaves(arguments))
    )


def known_here(options: dict[str, Any]) -> dict[str, Any]:
    """The options that this backend accepts, if it is a CPU, without those that the user has set by XLA_FLAGS."""
    flags = re.findall(r"--(\w+)", os.environ.get("XLA_FLAGS", ""))
    free = {name: value for name, value in options.items() if name not in flags}
    if _are_known(*free.items()):
        return free
    return {name: value for name, value in free.items() if _are_known((name, value))}


@cache
def _are_known(*options: tuple[str, Any]) -> bool:
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(jnp.negative, compiler_options=dict(options)).lower(np.float32(0)).compile()
    except (RuntimeError, ValueError):
        return False
    return True


def cores() -> int:
    """The number of cores that this process may run on: those of its affinity mask where the system has one."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
