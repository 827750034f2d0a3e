"""A program of few lanes as one kernel of XLA's CPU runtime.

XLA starts a kernel for each group of operations that it has fused, and a start costs about 50 ns: taking a state of nine
numbers apart and putting its rate together again costs more than the rate. A call that is marked as small is compiled as one
function, its slices, loops and concatenations inside. XLA marks short loops so by itself; the mark is no part of its
documented interface, and `_one_loop` tries it before it is used.

Rolling ball with two masses, one trajectory, Dopri8 at a tolerance of 1e-9, double precision, one run on two quiet cores:
1.82 ms in lanes without, 0.61 ms as one kernel; the gradient by eleven columns 4.0 ms and 2.7, by checkpoints 7.0 and 2.8.
Both marks are needed: without `inlineable` XLA puts the operations in the place of the call.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

# As many lanes at most: a marked call runs on one core.
FEW = 16

_MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}


def as_one_kernel(function: Callable[..., tuple]) -> Callable[..., tuple]:
    """`function` of arrays, at least one result, as one kernel."""

    def run(*values):
        held = [i for i, x in enumerate(values) if np.size(x)]
        like = [jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)) for x in values]

        @jax.jit
        def called(*kept):
            filled = [jnp.zeros(x.shape, x.dtype) for x in like]
            for i, value in zip(held, kept, strict=True):
                filled[i] = value
            return tuple(function(*filled)), _of_each(kept)

        (first, *rest), used = called(*(values[i] for i in held))
        results = set_xla_metadata(first, **_MARKS), *rest
        return jax.lax.optimization_barrier((results, used))[0]

    return run


def _of_each(values):
    """One entry of each array, a result that nothing can take away.

    XLA ends the process at a marked call with an argument that nothing in it uses, be it because the simplifier found so.
    """
    first = [jnp.ravel(x)[0] for x in values]
    return [
        jnp.stack([x for x in first if x.dtype == dtype])
        for dtype in sorted({x.dtype for x in first}, key=str)
    ]
