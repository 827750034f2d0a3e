"""Keeps XLA from dividing the kernels of an inner loop among threads.

XLA's CPU compiler divides a kernel from a few 100,000 operations on, which take tens of microseconds in lanes. Another
thread then wakes up for its half, and looks for further work afterwards: a loop over such kernels takes as long on the clock
as on one thread, and up to twice the processor time (docs/performance.md#closed-loops). A loop inside of a conditional,
which is itself inside of a loop, runs on one thread; this was found by measuring it (jaxlib 0.10.2).
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun


def on_one_thread(function: Callable, hidden: Any, *arguments: Any) -> Any:
    """Returns `function(*arguments)`, a pytree of arrays, computed inside of a conditional that is always taken.

    **Arguments:** `hidden`: a floating-point number that XLA does not know; the result does not depend on it.
    """
    program, results = jax.make_jaxpr(function, return_shape=True)(*arguments)

    def never(*_):
        return [jnp.zeros(x.shape, x.dtype) for x in program.out_avals]

    is_impossible = jax.lax.stop_gradient(hidden) < -jnp.inf
    out = jax.lax.cond(is_impossible, never, jaxpr_as_fun(program), *jax.tree.leaves(arguments))
    return jax.tree.unflatten(jax.tree.structure(results), out)
