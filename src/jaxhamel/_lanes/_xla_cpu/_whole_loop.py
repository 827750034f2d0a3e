"""Compiles a program with its loops as one kernel of XLA's CPU runtime.

XLA launches one kernel for each group of fused operations, in every iteration of a loop, and a launch costs about 50 ns:
most of the time of a diffrax step. `as_one_kernel` accepts loops, too; then there is a single launch. XLA does the same by
itself if an iteration touches less than 1,024 bytes. A flag raises that limit, but a package cannot set it for its users:
XLA refuses it as a compiler option of `jax.jit`.

The compiler of small kernels cannot call libraries (for LAPACK, sorting and callbacks; XLA also uses them for sums over
4,096 numbers and for matrix products) and reports that only at compile time, inside the user's program. So a program is
marked only if the records of all its operations allow it (`_rules/_primitives.py`); all others compile as usual. Not marked
are, for example, trajectories under `vmap` that write to different places (a scatter), events (a linear solve),
`Variational`, backward passes through checkpoints (sorting), and balls with ten masses or more. Timings:
docs/performance.md#whole-loop.
"""

import platform
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, jaxprs_in_params
from jax.interpreters import ad, partial_eval

from jaxhamel._lanes._derivatives._active_inputs import of_active
from jaxhamel._lanes._fused_turns import with_fused_turns
from jaxhamel._lanes._graph._primitive import Kind
from jaxhamel._lanes._own_primitive import batch_size, own_primitive
from jaxhamel._lanes._rules._primitives import primitive_of
from jaxhamel._lanes._xla_cpu._fusion import PROCESSORS, TESTED_JAXLIB
from jaxhamel._lanes._xla_cpu._one_kernel import SMALL_BATCH, as_one_kernel
from jaxhamel._lanes._xla_cpu._one_loop import one_kernel_works

# The most operations of a kernel: LLVM's time grows faster than their number (docs/performance.md#whole-loop).
MOST_OPERATIONS = 10_000


def whole_loop(
    function: Callable,
    few: int = SMALL_BATCH,
    most: int = MOST_OPERATIONS,
    fuse_turns: bool = False,
) -> Callable:
    """Compiles `function` of pytrees of arrays as one kernel where possible; its derivatives are those of `function`.

    The function must not capture tracers. `few`: the largest `vmap` batch that is still compiled as one kernel. A kernel
    runs on one core, so larger batches are left to XLA. `most`: the largest number of operations of a kernel. `fuse_turns`:
    whether short turns of its loops are written out as one fusion each (`_fused_turns`).
    """

    def run(*values):
        program, results = jax.make_jaxpr(function, return_shape=True)(*values)
        options = {"few": few, "most": most, "fuse_turns": fuse_turns}
        leaves, program = jax.tree.leaves(values), _without_unused(program)
        out = _whole_loop_p.bind(*leaves, program=program, **options)
        return jax.tree.unflatten(jax.tree.structure(results), out)

    return run


def _without_unused(program: ClosedJaxpr) -> ClosedJaxpr:
    """The program without operations on which no result depends.

    A backward pass made by `jax.vjp` contains the function itself. XLA finds only late that its loop is unused
    (docs/performance.md#first-values).
    """
    jaxpr, _ = partial_eval.dce_jaxpr(program.jaxpr, used_outputs=True, instantiate=True)
    return ClosedJaxpr(jaxpr, program.consts)


def _plain(*values, program, few, most, fuse_turns):
    del few, most, fuse_turns
    return jaxpr_as_fun(program)(*values)


def _abstract(*values, program, few, most, fuse_turns):
    del values, few, most, fuse_turns
    return program.out_avals


def _compiled(*values, program, few, most, fuse_turns):
    """The function that is lowered: one kernel if possible, otherwise the program unchanged.

    This is decided at lowering, because the size of a `vmap` is known only then.
    """
    function = jaxpr_as_fun(program)
    possible = few and program.out_avals and loops_work()
    if not possible or not fits(program.jaxpr, most):
        return function(*values)
    if fuse_turns:
        fast = jax.make_jaxpr(with_fused_turns(program))(*values)
        function = jaxpr_as_fun(fast) if fits(fast.jaxpr, most) else function
    return list(as_one_kernel(function, program.out_avals)(*values))


def loops_work() -> bool:
    """Whether this XLA compiles a call with loops that is marked as small."""
    return one_kernel_works() and _loops_are_taken()


@cache
def _loops_are_taken() -> bool:
    """Whether this XLA accepts a loop with a sum, a product and a buffer in a marked call.

    The trial takes 0.12 s and is skipped for the version that the tests cover. The processor decides which sums and products
    XLA leaves to a library: on other processors nothing is marked.
    """
    if platform.machine() not in PROCESSORS:
        return False
    return jaxlib.version.__version_info__ == TESTED_JAXLIB or trial_succeeds()


def trial_succeeds() -> bool:
    def program(a, x, turns):
        def turn(i, c):
            return (c[0] @ a / jnp.sum(c[0]), c[1].at[i].set(c[0][0]))

        return jax.lax.fori_loop(0, turns, turn, (x, x))

    a, x = np.array([[1, 2], [3, 4]], np.float32), np.array([1, 3], np.float32)
    try:
        with jax.ensure_compile_time_eval():
            y, kept = jax.jit(as_one_kernel(program))(a, x, np.int32(2))
    except (RuntimeError, TypeError):
        return False
    return np.allclose(y, [13 / 6, 19 / 6]) and np.allclose(kept, [1.0, 2.5])


def _jvp(primals, tangents, *, program, few, most, fuse_turns):
    del few, most, fuse_turns
    moving = [i for i, t in enumerate(tangents) if not isinstance(t, ad.Zero)]
    # of inputs with tangents only, since a `linear_map` inside counts its inputs
    of_moving, at = of_active(jaxpr_as_fun(program), moving, primals)
    return jax.jvp(of_moving, at, [tangents[i] for i in moving])


def _batch(values, axes, *, program, few, most, fuse_turns):
    size = batch_size(values, axes)

    def one(
        *x,
    ):  # named, since JAX would write a function without a name, and the whole program with it, into its debug information
        return jaxpr_as_fun(program)(*x)

    many = jax.make_jaxpr(jax.vmap(one, axes, axis_size=size))(*values)
    out = _whole_loop_p.bind(*values, program=many, few=few // size, most=most, fuse_turns=False)
    return out, [0] * len(out)


_whole_loop_p = own_primitive(
    "whole_loop", run=_plain, abstract=_abstract, jvp=_jvp, batch=_batch, lowered=_compiled
)


def fits(jaxpr, most: int = MOST_OPERATIONS) -> bool:
    """Whether a program has at most `most` operations, those of nested programs included, and a kernel may contain each."""
    first = list(islice(_operations(jaxpr), most + 1))
    return len(first) <= most and all(map(_is_taken, first))


def calls_library(jaxpr) -> bool:
    """Whether a program, nested programs included, solves or factorises matrices by a library."""
    return any(
        primitive_of(equation).kind is Kind.LINEAR_ALGEBRA and not _is_taken(equation)
        for equation in _operations(jaxpr)
    )


def _operations(jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inner_programs(equation):
            yield from _operations(inner)


def _inner_programs(equation) -> Iterable[Any]:
    programs = primitive_of(equation).programs
    return jaxprs_in_params(equation.params) if programs is None else programs(equation)


def _is_taken(equation) -> bool:
    taken = primitive_of(equation).cpu_kernel
    return taken(equation) if callable(taken) else taken
