"""jit for one long program that is run some hundred times: compiled in less time, as fast after."""

from collections.abc import Callable
from typing import Any, cast

import equinox as eqx

from jaxhamel._lanes._xla_cpu._jit import known_here

# XLA's newer way of writing loops on a CPU. Gradient of the information of a rolling ball with three masses (ten
# parameters, 21 of the curve, 24,600 lines of StableHLO), CPU seconds of one run: compiled in 25.6 with it and 16.2
# without, a gradient in 0.18 to 0.21 and 0.17 to 0.20.
WITHOUT = {"xla_cpu_use_fusion_emitters": False}


def jit_compiled_sooner(f: Callable) -> Callable:
    """`equinox.filter_jit(f)`, not to be called inside another transform."""
    return cast(Any, eqx.filter_jit)(f, compiler_options=known_here(WITHOUT))
