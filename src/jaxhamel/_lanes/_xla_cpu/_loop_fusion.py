"""Compiles a program of scalars as one fusion over the lanes: one loop of any length, which LLVM vectorises as a whole.

The function of a `reduce_window` (`_one_loop`) is one loop of up to some 3,700 operations; a longer one is cut into
several, which pass vectors to each other. An `mhlo.fusion` of 25,000 operations stays one loop, and compiles in a tenth of
the time. XLA's newer code generator ends the process at such a fusion (of several results only the tuple has a layout,
jaxlib 0.10.2). So only programs that the older generator compiles have fusions (`_tracing`); in any other program the
same primitive is lowered to the loops of `_one_loop`.
Timings: docs/performance.md#fusions-of-ensembles.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxpr_as_fun
from jax.interpreters import ad, mlir

from jaxhamel._lanes._own_primitive import batch_size, own_primitive
from jaxhamel._lanes._tracing import in_fusions, is_compiled_with_options
from jaxhamel._lanes._xla_cpu._fusion import flat_program, fusions_work, lower_fusion

# The fewest operations of a fusion: with fewer a window (`_one_loop`) is faster. Some programs have a shorter form, such as
# a loop over the stages of a step. They become a fusion up to `LONGEST_FUSION` only: 25,000 operations take 18 s to trace
# and compile (docs/performance.md#fusions-of-ensembles).
SHORTEST_FUSION, LONGEST_FUSION = 2_000, 30_000
# A program without a shorter form, such as the transpose of a long stage, is a fusion up to this length: cut into loops it
# takes longer to compile and to run (docs/performance.md#many-vectors).
LONGEST_PROGRAM_IN_FUSIONS = 80_000
# A shorter program with more shared numbers than this is a fusion, too: each of them takes a vector in a window.
MOST_SHARED = 40


def fused_loop(
    function: Callable, values: Sequence[Any], size: int, loops: Callable
) -> list | None:
    """Computes `function` of scalars in `size` lanes by one fusion; returns None if XLA is not known to compile that.

    **Arguments:** `values`: columns `(size,)`, and scalars that all lanes share. `loops`: a function of `values` that
    computes the same results without a fusion.
    """

    def of_all(*given):
        # a scalar is broadcast without `reshape`: XLA would not know the layout of a reshaped one
        entries = [x.reshape(size) if np.ndim(x) else jnp.broadcast_to(x, (size,)) for x in given]
        return [*(jnp.broadcast_to(x, (size,)) for x in function(*entries)), *_uses(entries)]

    # The change of shape keeps XLA from writing a result into the memory of an argument: LLVM could not tell that from a
    # dependence between lanes, and would not vectorise.
    columns = [jnp.reshape(x, (size, 1)) if np.ndim(x) else jnp.asarray(x) for x in values]
    program = flat_program(of_all, columns)

    def of_columns(*columns):
        return loops(*(x[:, 0] if np.ndim(x) else x for x in columns))

    return None if program is None else _called(columns, program, of_columns)


# The most rows that one fusion separates.
MOST_ROWS = 120


def separated(matrix: Any) -> list:
    """Splits a matrix `(n, size)` into its n rows, vectors `(size,)` over the lanes.

    One fusion writes up to `MOST_ROWS` of them. XLA by itself would compile and call a kernel for each row.
    """
    size = matrix.shape[1]

    def rows(vector):
        # of one long vector: XLA knows no layout of a row within a fusion
        return [lax.slice_in_dim(vector, i, i + size) for i in range(0, len(vector), size)]

    vector, found = jnp.ravel(matrix), []
    if not (in_fusions() and fusions_work()):
        return rows(vector)
    for first in range(0, len(vector), MOST_ROWS * size):
        some = vector[first : first + MOST_ROWS * size]
        found += _called([some], jax.make_jaxpr(rows)(some), rows)
    return found


def _called(columns: list, program: Any, loops: Callable) -> list:
    """The results of the fusion in a call of its own, where XLA adds no operation from outside to it.

    A `pad` or an update of a slice, from which a column is made, brings branches into the fusion. After each of them XLA
    computes values again that it already has, and their number grows exponentially: compiling takes all memory.
    """

    @jax.jit
    def apart(*given):
        return _loop_p.bind(*given, program=program, loops=loops)

    # the barrier hides constants, which XLA would put in the place of arguments (see `_one_kernel`)
    first, *rest = apart(*lax.optimization_barrier(columns))
    return [set_xla_metadata(first, inlineable="false"), *rest]


def _uses(values: list) -> list:
    """A list with one more result, which depends on all values, so that XLA removes no argument of the fusion.

    The list is empty if all values are of floating point: XLA keeps them, since it does not simplify their expressions.
    """
    if all(jnp.issubdtype(x.dtype, jnp.floating) for x in values):
        return []
    return [functools.reduce(operator.add, (lax.convert_element_type(x, float) for x in values))]


def _by_loops(*columns, program, loops):
    out = loops(*columns)
    return [*out, *(jnp.zeros(x.shape, x.dtype) for x in program.out_avals[len(out) :])]


def _abstract(*columns, program, loops):
    del columns, loops
    return program.out_avals


def _jvp(primals, tangents, *, program, loops):
    del loops
    dense = tuple(ad.instantiate_zeros(t) for t in tangents)
    return jax.jvp(lambda *x: jaxpr_as_fun(program)(*x), primals, dense)


def _batch(columns, axes, *, program, loops):
    del loops
    size = batch_size(columns, axes)
    out = jax.vmap(jaxpr_as_fun(program), axes, axis_size=size)(*columns)
    return out, [0] * len(out)


def _lowered(context, *columns, program, loops):
    if is_compiled_with_options(context):
        return lower_fusion(context, *columns, program=program)
    by_loops = functools.partial(_by_loops, program=program, loops=loops)
    return mlir.lower_fun(by_loops)(context, *columns)


_loop_p = own_primitive("loop_fusion", run=_by_loops, abstract=_abstract, jvp=_jvp, batch=_batch)
mlir.register_lowering(_loop_p, _lowered, platform="cpu")
