"""A `jit` that compiles long programs in less time, for programs that run only some hundred times."""

from collections.abc import Callable
from typing import Any, cast

import equinox as eqx

from jaxhamel._lanes._xla_cpu._jit import known_here

# XLA's newer CPU code generator takes longer to compile (docs/performance.md#identification).
WITHOUT = {"xla_cpu_use_fusion_emitters": False}


def jit_compiled_sooner(f: Callable[..., Any]) -> Callable[..., Any]:
    """`equinox.filter_jit(f)`; it must not be called inside another transform."""
    return cast(Any, eqx.filter_jit)(f, compiler_options=known_here(WITHOUT))
