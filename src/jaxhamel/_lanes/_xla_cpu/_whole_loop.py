"""A program with its loops as one kernel of XLA's CPU runtime, where that is good and safe.

XLA starts a kernel for each group of operations that it has fused, in a loop in every turn, and a start costs about 50 ns:
most of a step of diffrax. `as_one_kernel` takes loops too, and then nothing is started but once. XLA does so by itself where
a turn touches less than 1,024 bytes, or more if a flag says so, which a package cannot set for its users: as an option of
`jax.jit` XLA refuses it (`xla_backend_extra_options` is a table, and options are single values).

A program is marked only if every operation in it is known to be taken by the compiler of such kernels, which cannot call a
library (LAPACK, sorting, callbacks; for XLA sums over 4,096 numbers and products of matrices are such calls) and says so
only when it compiles: the user's program would fail. What is not known runs as before.

`simulate`, Tsit5 at a tolerance of 1e-9, double precision, medians of one run on two quiet cores, before and with:

|                                    | run, ms      | first, s   | gradient by u0, ms | first, s   |
|------------------------------------|--------------|------------|--------------------|------------|
| heavy top, 46 steps                | 0.22    0.11 | 1.12  0.86 | 0.69          0.20 | 2.35  2.42 |
| underwater body, 37                | 0.55    0.24 | 1.36  1.35 | 1.41          0.73 | 3.00  3.27 |
| rolling disk, 75                   | 0.44    0.14 | 0.99  1.21 | 1.52          0.55 | 2.69  3.03 |
| ball with two masses, 180          | 0.80    0.32 | 1.09  1.31 | 4.29          1.23 | 3.13  3.42 |

With other work on the machine: 100,001 times of a heavy top 66 ms and 5.5; all 25 systems 1.3 to 5 times as fast, 18 of
them with the same bits, the others to 3e-14. Dense output has its buffers copied once more, 0.17 ms and 0.21. Not taken, and
as before: trajectories under `vmap` that write each in its own place (a scatter, which is a call), events (a linear solve),
`Variational`, backward passes through checkpoints (sorting), balls with ten masses and more.
"""

import math
import platform
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax.extend.core import Primitive, jaxpr_as_fun, jaxprs_in_params
from jax.interpreters import ad, batching, mlir

from jaxhamel._lanes._rules._control_flow import CALLS
from jaxhamel._lanes._rules._rules import ELEMENTWISE
from jaxhamel._lanes._xla_cpu._one_kernel import FEW, as_one_kernel
from jaxhamel._lanes._xla_cpu._one_loop import one_kernel_works


def whole_loop(function: Callable, few: int = FEW) -> Callable:
    """`function` of pytrees of arrays, which holds no tracers, as one kernel where it can be; differentiated as it is.

    `few`: so many of it at once, at most, as `vmap` makes of it: a kernel runs on one core.
    """

    def run(*values):
        leaves, structure = jax.tree.flatten(values)
        found = []

        def flat(*leaves):
            out, of_results = jax.tree.flatten(function(*jax.tree.unflatten(structure, leaves)))
            found.append(of_results)
            return out

        program = jax.make_jaxpr(flat)(*leaves)
        return jax.tree.unflatten(found[0], _whole_loop_p.bind(*leaves, program=program, few=few))

    return run


_whole_loop_p = Primitive("jaxhamel_whole_loop")
_whole_loop_p.multiple_results = True


def _plain(*values, program, few):
    del few
    return jaxpr_as_fun(program)(*values)


def _abstract(*values, program, few):
    del values, few
    return program.out_avals


def _compiled(*values, program, few):
    """Decided as late as this, because a `vmap` may be to come before."""
    function = jaxpr_as_fun(program)
    possible = few and program.out_avals and one_kernel_works() and _loops_work()
    if not possible or not fits(program.jaxpr):
        return function(*values)
    return list(as_one_kernel(function, program.out_avals)(*values))


# Of jaxlib and of processors: what all this was seen with. Which sums and products XLA leaves to a library depends on the
# processor, too: on others nothing is marked.
SEEN, PROCESSORS = (0, 10, 2), ("x86_64", "AMD64")


@cache
def _loops_work() -> bool:
    """Whether XLA here takes a loop with a sum, a product and a buffer that it fills into a marked call.

    To try takes 0.12 s; what tests have seen to work is not tried.
    """
    if platform.machine() not in PROCESSORS:
        return False
    return jaxlib.version.__version_info__ == SEEN or tried()


def tried() -> bool:
    def program(a, x, turns):
        turn = lambda i, c: (c[0] @ a / jnp.sum(c[0]), c[1].at[i].set(c[0][0]))  # noqa: E731
        return jax.lax.fori_loop(0, turns, turn, (x, x))

    a, x = np.array([[1, 2], [3, 4]], np.float32), np.array([1, 3], np.float32)
    try:
        with jax.ensure_compile_time_eval():
            y, kept = jax.jit(as_one_kernel(program))(a, x, np.int32(2))
    except (RuntimeError, TypeError):
        return False
    return np.allclose(y, [13 / 6, 19 / 6]) and np.allclose(kept, [1.0, 2.5])


def _jvp(primals, tangents, *, program, few):
    del few
    dense = tuple(ad.instantiate_zeros(t) for t in tangents)
    return jax.jvp(lambda *x: jaxpr_as_fun(program)(*x), primals, dense)


def _batch(values, axes, *, program, few):
    size = next(x.shape[i] for x, i in zip(values, axes, strict=True) if i is not None)
    many = jax.make_jaxpr(jax.vmap(jaxpr_as_fun(program), axes, axis_size=size))(*values)
    out = _whole_loop_p.bind(*values, program=many, few=few // size)
    return out, [0] * len(out)


_whole_loop_p.def_impl(_plain)
_whole_loop_p.def_abstract_eval(_abstract)
ad.primitive_jvps[_whole_loop_p] = _jvp
batching.primitive_batchers[_whole_loop_p] = _batch
mlir.register_lowering(_whole_loop_p, mlir.lower_fun(_compiled, multiple_results=True))


# Operations in a kernel, at most: LLVM takes more than twice as long for twice as many. The gradient of the bicycle's motion
# by columns (12,300) took 9.2 s to its first value and 3.4 ms then, as one kernel 12.5 s and 2.6 ms; that of the satellite
# with wheels (8,000), the next, 6.8 s and 5.1 ms, and 7.5 s and 2.8 ms.
LONGEST = 10_000

# Numbers in an array that is summed, at most: XLA takes a library for 4,096, a product of matrices with a side of 8.
LARGEST = 1024
_SIDE = 8

# fmt: off
_MOVES = {
    "broadcast_in_dim", "concatenate", "dynamic_slice", "dynamic_update_slice", "empty", "empty2", "expand_dims", "gather",
    "iota", "pad", "reshape", "rev", "slice", "split", "squeeze", "stack", "transpose", "unstack",
}
_EQUINOX = {
    "nonbatchable", "nondifferentiable_backward", "select_if_vmap", "unvmap_all", "unvmap_any", "unvmap_max",
}
_OURS = {"jaxhamel_linear_map", "jaxhamel_own_derivative", "optimization_barrier", "xla_metadata_value"}
# fmt: on
_LOOPS = {"while", "scan", "cond", "custom_vmap_call"}
_ALWAYS = ELEMENTWISE | _MOVES | _EQUINOX | _OURS | _LOOPS | CALLS.keys()
_SUMS = {f"reduce_{name}" for name in ("and", "max", "min", "or", "prod", "sum", "window")}


def fits(jaxpr) -> bool:
    """Whether every operation of a program, and of the programs in it, is known to be taken, and they are not too many."""
    first = list(islice(_operations(jaxpr), LONGEST + 1))
    return len(first) <= LONGEST and all(_is_taken(e.primitive.name, e) for e in first)


def _operations(jaxpr) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        for inner in _inside(equation):
            yield from _operations(inner)


def _inside(equation) -> Iterable[Any]:
    """The programs in an operation. What is found by tracing, compiling finds in JAX's cache: both call what is jitted."""
    given = [v.aval for v in equation.invars]
    params = equation.params
    if equation.primitive.name == "jaxhamel_own_derivative":
        return [jax.make_jaxpr(jax.jit(params["function"]))(*given).jaxpr]
    if equation.primitive.name == "jaxhamel_linear_map":
        split = given[: params["n"]], given[params["n"] :]
        return [jax.make_jaxpr(jax.jit(params["forward"].run))(*split).jaxpr]
    return jaxprs_in_params(params)


def _is_taken(name: str, equation) -> bool:
    shapes = [v.aval.shape for v in equation.invars]
    if name in _SUMS:
        return math.prod(shapes[0]) <= LARGEST
    if name == "dot_general":
        return _is_small_product(shapes[0], shapes[1], equation.params["dimension_numbers"])
    if name in ("scatter", "scatter-add"):  # in one place
        return math.prod(shapes[1][:-1]) == 1
    if name == "maybe_set":  # equinox's, the same
        return all(math.prod(shape) == 1 for shape in shapes[3:])
    if name == "vprim":  # equinox's, under vmap
        return _is_taken_under_vmap(equation.params)
    return name in _ALWAYS


def _is_small_product(x, y, dimensions) -> bool:
    (summed, _), (batch, _) = dimensions
    count = math.prod(x[i] for i in summed)
    each = count * math.prod(x[i] for i in batch)
    if not each:
        return True
    rows, columns = math.prod(x) // each, math.prod(y) // each
    of_vector = min(rows, columns) == 1 and count * max(rows, columns) <= LARGEST
    return of_vector or max(count, rows, columns) < _SIDE


def _is_taken_under_vmap(params) -> bool:
    name = params["prim"].name
    in_one_place = all(axis is None for axis in params["__batch_axes"][3:])
    return name in _EQUINOX or (name == "maybe_set" and in_one_place)
