"""A program of few lanes as one kernel of XLA's CPU runtime.

XLA starts a kernel for each group of operations that it has fused, and a start costs about 50 ns: taking a state of nine
numbers apart and putting its rate together again costs more than the rate. A call that is marked as small is compiled as one
function, its slices, loops and concatenations inside. XLA marks short loops so by itself; the mark is no part of its
documented interface, and `_one_loop` tries it before it is used.

Rolling ball with two masses, one trajectory, Dopri8 at a tolerance of 1e-9, double precision, one run on two quiet cores:
1.82 ms in lanes without, 0.61 ms as one kernel; the gradient by eleven columns 4.0 ms and 2.7, by checkpoints 7.0 and 2.8.
Both marks are needed: without `inlineable` XLA puts the operations in the place of the call.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

# As many lanes at most: a marked call runs on one core.
FEW = 16

_MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}


def as_one_kernel(
    function: Callable[..., tuple], shapes: Sequence[jax.ShapeDtypeStruct] | None = None
) -> Callable[..., tuple]:
    """`function` of arrays, at least one result, as one kernel; as it is if no result is a floating-point number.

    `shapes` of the results, where they are known: otherwise the function is traced once more to see them (a gradient of
    `simulate` 1.63 s instead of 1.55).

    XLA ends the process at a marked call with an argument that nothing in it uses. It makes such calls: it removes results
    that nobody wants and what these need, and puts constants that are arguments in the place of their uses. So one entry
    of each argument is part of a result (those of one dtype are one array, of which no pass takes anything away), and
    arguments stand behind a barrier, beyond which constants are not known. Both cost a tenth of the time above.
    """

    def run(*values):
        held = [i for i, x in enumerate(values) if np.size(x)]
        like = [jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)) for x in values]
        out = jax.eval_shape(function, *values) if shapes is None else shapes
        kinds = sorted({x.dtype for x in out}, key=lambda d: (not _is_float(d), str(d)))
        if not _is_float(kinds[0]):
            return function(*values)

        @jax.jit
        def called(*kept):
            filled = [jnp.zeros(x.shape, x.dtype) for x in like]
            for i, value in zip(held, kept, strict=True):
                filled[i] = value
            return _joined(function(*filled), kinds, _of_each(kept, kinds[0]))

        kept = jax.lax.optimization_barrier([jnp.asarray(values[i]) for i in held])
        first, *rest = called(*kept)
        return _divided((set_xla_metadata(first, **_MARKS), *rest), kinds, out)

    return run


def _is_float(dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _of_each(values, dtype) -> list:
    """One entry of each array."""
    return [jax.lax.convert_element_type(jnp.ravel(x)[:1], dtype) for x in values]


def _joined(results, kinds: list, used: list) -> list:
    """The results of each dtype as one vector; after those of the first, `used`."""
    flat = [[jnp.ravel(x) for x in results if x.dtype == kind] for kind in kinds]
    flat[0] += used
    return [jnp.concatenate(each) for each in flat]


def _divided(vectors, kinds: list, shapes) -> tuple:
    places = dict.fromkeys(kinds, 0)
    results = []
    for x in shapes:
        first = places[x.dtype]
        places[x.dtype] = last = first + x.size
        vector = vectors[kinds.index(x.dtype)]
        results.append(jnp.reshape(vector[first:last], x.shape))
    return tuple(results)
