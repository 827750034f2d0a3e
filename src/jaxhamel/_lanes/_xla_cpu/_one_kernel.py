"""Compiles a program with few lanes as one kernel of XLA's CPU runtime.

XLA launches one kernel for each group of fused operations, and a launch costs about 50 ns: splitting a state of nine
numbers and assembling its rate costs more than the rate itself. A call that is marked as small is compiled as one function,
with its slices, loops and concatenations. XLA sets this mark on short loops by itself; the mark is not part of XLA's
documented interface, so `_one_loop` tests it once before it is used. Timings: docs/performance.md#one-kernel.

Both marks are needed: without `inlineable` XLA inlines the call.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

# The most lanes in one kernel: a marked call runs on one core.
SMALL_BATCH = 16

# The results of a kernel are joined into vectors of at most this many bytes; a longer result is a vector of its own. XLA
# runs the operations around a kernel on several threads if one of them reads or writes 512 bytes, and starting another
# thread takes longer than a short motion. The limit is below 512, since one entry of each argument is appended to the
# first vector.
SHORT = 256

_MARKS = {"xla_cpu_small_call": "true", "inlineable": "false"}


def as_one_kernel(
    function: Callable[..., tuple], shapes: Sequence[jax.ShapeDtypeStruct] | None = None
) -> Callable[..., tuple]:
    """Compiles `function` of arrays as one kernel; a function without a floating-point result stays unchanged.

    `shapes`: shapes and dtypes of the results, if they are known. Otherwise the function is traced once more to find them.

    XLA ends the process at a marked call with an unused argument, and its own passes create such calls: they remove unused
    results with their dependencies, and replace constant arguments by their values. So one entry of each argument is made
    part of a result (results of one dtype form one array, from which no pass removes entries), and the arguments pass
    through an optimisation barrier, which hides constants. Both cost about a tenth of the run time.
    """

    def run(*values):
        non_empty = [i for i, x in enumerate(values) if np.size(x)]
        like = [jax.ShapeDtypeStruct(np.shape(x), jnp.result_type(x)) for x in values]
        out = jax.eval_shape(function, *values) if shapes is None else shapes
        if not is_kernel(out):
            return function(*values)
        groups = _groups(out)

        @jax.jit
        def called(*kept):
            some = iter(kept)  # an empty array is no argument
            filled = [next(some) if x.size else jnp.zeros(x.shape, x.dtype) for x in like]
            return _joined_results(function(*filled), groups, kept)

        kept = jax.lax.optimization_barrier([jnp.asarray(values[i]) for i in non_empty])
        first, *rest = called(*kept)
        return _divided((set_xla_metadata(first, **_MARKS), *rest), groups, out)

    return run


def is_kernel(shapes: Sequence[Any]) -> bool:
    """Whether `as_one_kernel` can mark a function with these results: one must be of floating point."""
    return any(_is_float(x.dtype) for x in shapes)


def _is_float(dtype) -> bool:
    return jnp.issubdtype(dtype, jnp.floating)


def _of_each(values, dtype) -> list:
    """The first entry of each array, converted to `dtype`, with shape `(1,)`."""
    return [jax.lax.convert_element_type(jnp.real(jnp.ravel(x)[:1]), dtype) for x in values]


def _groups(shapes: Sequence[Any]) -> list[list[int]]:
    """Divides the results into groups that form one vector each: of one dtype, with at most `SHORT` bytes in all.

    A result that is longer is a group of its own. The first group is of floating point.
    """
    groups: dict[Any, list[list[int]]] = {}
    room: dict[Any, int] = {}
    for i, x in enumerate(shapes):
        size = x.size * x.dtype.itemsize
        if size > room.get(x.dtype, -1):
            groups.setdefault(x.dtype, []).append([])
            room[x.dtype] = SHORT
        groups[x.dtype][-1].append(i)
        room[x.dtype] -= size
    order = sorted(groups, key=lambda d: (not _is_float(d), str(d)))
    return [group for dtype in order for group in groups[dtype]]


def _joined_results(results, groups: list[list[int]], used) -> list:
    """Joins the results of each group into one vector; one entry of each array in `used` is appended to the first vector."""
    flat = [[jnp.ravel(results[i]) for i in group] for group in groups]
    flat[0] += _of_each(used, results[groups[0][0]].dtype)
    return [jnp.concatenate(each) for each in flat]


def _divided(vectors, groups: list[list[int]], shapes) -> tuple:
    found = {}
    for vector, group in zip(vectors, groups, strict=True):
        first = 0
        for i in group:
            last = first + shapes[i].size
            found[i] = jnp.reshape(vector[first:last], shapes[i].shape)
            first = last
    return tuple(found[i] for i in range(len(shapes)))
