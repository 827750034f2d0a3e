"""Compiles a program of scalars as one loop over the lanes, whose intermediate values stay in registers.

By itself XLA divides a program into many loops, and computes shared values again in each loop. A `reduce_window` with a
window of one element accepts any function of scalars, with any number of arguments and results:

    out_i[b] = f_i(shared, x[b]) .

XLA's CPU compiler turns it into one loop, whose body LLVM vectorises. The values that all lanes share are the initial
values of the reduction; LLVM hoists operations that depend on these alone. Timings, and the alternatives that were slower:
docs/performance.md#one-loop.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax import lax

from jaxhamel._lanes._tracing import in_fusions, is_described
from jaxhamel._lanes._xla_cpu._fewer_vectors import with_fewer_vectors
from jaxhamel._lanes._xla_cpu._fusion import fused
from jaxhamel._lanes._xla_cpu._jit import cores
from jaxhamel._lanes._xla_cpu._loop_fusion import (
    LONGEST_PROGRAM_IN_FUSIONS,
    MOST_SHARED,
    SHORTEST_FUSION,
    fused_loop,
)
from jaxhamel._lanes._xla_cpu._one_kernel import SMALL_BATCH, as_one_kernel
from jaxhamel._lanes._xla_cpu._parts import compute, compute_in_parts
from jaxhamel._lanes._xla_cpu._pieces import Split, pieces, total
from jaxhamel._lanes._xla_cpu._straight_line import computed


def run_in_one_loop(
    graph, parts: Split, values: dict[int, Any], size: int, inside: bool = False
) -> dict[int, Any]:
    """Computes the results, (size,) vectors, from the given vectors and scalars.

    A long program becomes several loops, one after the other: see `_pieces`. Each loop computes the lane-independent values
    that it reads, since each scalar passed to a loop costs a vector (docs/performance.md#pieces). A kernel for a few lanes
    is not vectorised; it may be of any length, but its numbers of arguments and results are limited. `inside`: whether the
    program is part of such a kernel, where its operations form one fusion.
    """
    if in_fusions() and size > SMALL_BATCH and jax.device_count() == 1:
        found = _in_fusions(graph, parts, values, size)
        if found is not None:
            return found
    return _in_loops(graph, parts, values, size, inside)


def _in_fusions(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any] | None:
    """Computes the results by fusions over the lanes; returns None if XLA is not known to compile that.

    LLVM does not vectorise a fusion that reads and writes more than `MOST_VECTORS` vectors. So several fusions may compute a
    part of the results each, and repeat the operations that they share (`_fewer_vectors`).
    """
    length = total(graph, parts.inside)
    shared = sum(not np.ndim(values[i]) for i in parts.given)
    least = SHORTEST_FUSION if shared <= MOST_SHARED else 0
    if not least <= length <= LONGEST_PROGRAM_IN_FUSIONS:
        return None
    fusions, found = with_fewer_vectors(graph, parts), {}
    if not all(0 < len(x) <= MOST_VALUES for part in fusions for x in (part.results, part.given)):
        return None
    for part in fusions:
        out = _in_fusion(graph, part, values, size)
        if out is None:
            return None
        found |= out
    return found


def _in_fusion(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any] | None:
    """Computes the results by one fusion over the lanes; returns None if XLA is not known to compile that."""

    def of_one(*given):
        found = dict(zip(parts.given, given, strict=True))
        return computed(graph, parts.inside, parts.results, found)

    def loops(*given):
        found = _in_loops(graph, parts, dict(zip(parts.given, given, strict=True)), size)
        return [found[i] for i in parts.results]

    out = fused_loop(of_one, [values[i] for i in parts.given], size, loops)
    return None if out is None else dict(zip(parts.results, out, strict=False))


def _in_loops(
    graph, parts: Split, values: dict[int, Any], size: int, inside: bool = False
) -> dict[int, Any]:
    """Computes the results by loops over the lanes, one after the other.

    `inside`: whether the loops are part of a kernel; there a single fusion takes their place if XLA compiles it.
    """
    known = dict(values)
    fusable = inside and size and parts.results
    found = _fused(graph, parts, known, size) if fusable else None
    if found is not None:
        return found
    whole = in_one_kernel(size) and 0 < len(parts.results) <= MOST_VALUES >= len(parts.given)
    for piece in [parts] if whole else pieces(graph, parts):
        known.update(run_loop(graph, piece, known, size))
    return {i: known[i] for i in parts.results}


def _fused(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any] | None:
    """Computes the results by one fusion in a kernel; returns None if XLA is not known to compile that."""
    shape = (size, 1) if size > 1 else ()

    def of_one(*given):
        found = dict(zip(parts.given, given, strict=True))
        return computed(graph, parts.inside, parts.results, found)

    # XLA may change the shape of an elementwise operation; the changes of shape inside the fusion keep it from that.
    def of_all(*given):
        entries = [
            jnp.reshape(x, shape) if np.ndim(x) else jnp.broadcast_to(x, shape) for x in given
        ]
        floats = [lax.convert_element_type(jnp.real(x), float) for x in entries]
        out = [jnp.broadcast_to(x, shape) for x in of_one(*entries)]
        return [
            *out,
            sum(floats[1:], floats[0]),
        ]  # the last depends on all arguments; it is dropped

    if not parts.given or (out := fused(of_all, [values[i] for i in parts.given])) is None:
        return None
    return {i: jnp.reshape(x, (size,)) for i, x in zip(parts.results, out[:-1], strict=True)}


def run_loop(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any]:
    """Computes the results of one loop as a `reduce_window`; shared values are its initial values."""
    shared = [i for i in parts.given if not np.ndim(values[i])]
    own = [i for i in parts.given if np.ndim(values[i])]
    slots = _in_two_tasks(graph, parts.inside, _slots(graph, shared, own, parts.results), size)

    def body(initial, element):
        found = dict(_present(slots, "shared", initial)) | dict(_present(slots, "own", element))
        if size > SMALL_BATCH:
            compute_in_parts(graph, parts.inside, parts.results, found)
        else:  # XLA may compile small batches as one kernel, for which the program need not be divided
            compute(graph, parts.inside, found)
        pairs = zip(slots, element, strict=True)
        return tuple(found[slot.result] if slot.result is not None else x for slot, x in pairs)

    def zero(slot):
        return np.zeros((), slot.dtype)

    initial = tuple(zero(s) if s.shared is None else values[s.shared] for s in slots)
    # a slot without an input reads an existing vector: a vector of zeros would be written anew in each turn of an outer loop
    some = {graph.nodes[i].dtype: values[i] for i in own}

    def spare(dtype):
        return some[dtype] if dtype in some else jnp.zeros(size, dtype)

    operands = [spare(s.dtype) if s.own is None else values[s.own] for s in slots]

    def window(xs):
        return lax.reduce_window(tuple(xs), initial, body, (1,), (1,), "VALID")

    results = {i: slot.result for i, slot in enumerate(slots) if slot.result is not None}
    wanted = list(results)
    block = _lanes_at_a_time(slots, size)
    out = window(operands) if block >= size else _in_blocks(window, operands, wanted, block)
    found = out if block >= size else dict(zip(wanted, out, strict=True))
    return {result: found[i] for i, result in results.items()}


# A slot without an input or a result still reads and writes a vector. Loops with more than this many bytes of such vectors
# run block by block, with vectors of `BLOCK` bytes altogether that stay in the cache (docs/performance.md#blocks-of-lanes).
IDLE, BLOCK = 2**23, 2**20


def _lanes_at_a_time(slots: list["_Slot"], size: int) -> int:
    """The number of lanes that a loop computes at a time."""
    idle = sum(slot.dtype.itemsize * (slot.result is None) for slot in slots)
    if idle * size <= IDLE or jax.device_count() > 1:
        return size
    return max(64, BLOCK // sum(slot.dtype.itemsize for slot in slots) // 64 * 64)


def _in_blocks(window: Callable, operands: list, wanted: list[int], block: int) -> list:
    """Computes the wanted results of a loop block by block.

    `dynamic_slice` moves the start of the last block so that the block ends with the last lane.
    """
    size = operands[0].shape[0]

    def turn(i, found):
        start = (i * block,)
        out = window([lax.dynamic_slice(x, start, (block,)) for x in operands])
        pairs = zip(found, wanted, strict=True)
        return [lax.dynamic_update_slice(x, out[j], start) for x, j in pairs]

    empty = [jnp.zeros(size, operands[j].dtype) for j in wanted]
    return lax.fori_loop(0, -(-size // block), turn, empty)


def _in_two_tasks(graph, inside: list[int], slots: list["_Slot"], size: int) -> list["_Slot"]:
    """Adds empty slots until the loop has enough vectors for XLA to divide it between two threads."""
    columns = [s.dtype for s in slots] + [s.dtype for s in slots if s.own is not None]
    more = spare_vectors(columns, total(graph, inside), size)
    return slots + [_Slot(dtype, None, None, None) for dtype in more]


class _Slot(NamedTuple):
    """One position in the lists of initial values, operands and results of the reduction.

    The three have one dtype. `shared`, `own` and `result` are their nodes; None stands for a padding value.
    """

    dtype: np.dtype
    shared: int | None
    own: int | None
    result: int | None


def _slots(graph, shared, own, results) -> list[_Slot]:
    slots = []
    for dtype in sorted({graph.nodes[i].dtype for i in (*shared, *own, *results)}, key=str):
        columns = [
            [i for i in nodes if graph.nodes[i].dtype == dtype] for nodes in (shared, own, results)
        ]
        longest = max(map(len, columns))
        padded = [column + [None] * (longest - len(column)) for column in columns]
        slots += [_Slot(dtype, *each) for each in zip(*padded, strict=True)]
    return slots


def _present(slots, kind: str, values):
    for slot, value in zip(slots, values, strict=True):
        node = getattr(slot, kind)
        if node is not None:
            yield node, value


def one_loop_works() -> bool:
    """Whether the installed XLA compiles a loop over lanes correctly, which `one_loop` writes as a `reduce_window` whose
    window has one element; found by a trial.
    """
    return not is_described() and _trial_results()[0]


def one_kernel_works() -> bool:
    """Whether this XLA compiles a call that is marked as small correctly, with a window inside.

    It is False with several devices: XLA may partition the call among them, and the parts then cannot communicate.
    """
    return not is_described() and jax.device_count() == 1 and _trial_results()[1]


# The most values that one loop reads or writes: XLA ends the process at 1,000 (jaxlib 0.10.2).
MOST_VALUES = 900


def in_one_kernel(size: int) -> bool:
    """Whether a program for this many lanes becomes one kernel."""
    return size <= SMALL_BATCH and one_kernel_works()


# Before this version XLA's fusion emitters, which are on by default, end the process when they compile such a window
# ("operand_maps.size() == 1" in jaxlib 0.10.1). There `_cuts` is used, which is correct and several times as slow.
OLDEST = (0, 10, 2)


@cache
def _trial_results() -> list[bool]:
    if jax.default_backend() != "cpu" or jaxlib.version.__version_info__ < OLDEST:
        return [False, False]
    try:
        return _windows_work(lambda run: run, as_one_kernel)
    except (RuntimeError, TypeError):
        return [*_windows_work(lambda run: run), False]


def _windows_work(*transforms: Callable[[Callable], Callable]) -> list[bool]:
    """Whether a window evaluates its function correctly, one answer for each transform of the program around it.

    All transforms are tested in one program, since a program takes 40 ms to compile.
    """

    def body(a, b):
        return (a[0] * b[1] + b[0] * b[0], b[1] - a[1])

    def run(x, y, s):
        return lax.reduce_window((x, y), (s, s), body, (1,), (1,), "VALID")

    x, y, s = (np.array(v, np.float32) for v in ([1.0, 2.0], [3.0, 5.0], 0.5))
    with jax.ensure_compile_time_eval():
        found = jax.jit(lambda *at: [transform(run)(*at) for transform in transforms])(x, y, s)
    right = s * y + x * x, y - s
    return [all(map(np.array_equal, each, right)) for each in found]


# Makes XLA divide a loop over the lanes between two threads.
#
# XLA's CPU compiler decides by the bytes that a loop reads and writes, not by its operations: one task for each 256 KiB, at
# most √(number of cores) tasks, rounded up (jaxlib 0.10.2). A step of 2,980 operations on 1,024 lanes with 9 vectors was one
# task. So padding vectors of zeros are added to a loop with many operations, until XLA divides it into two tasks. Timings:
# docs/performance.md#threads.


TASK_SIZE = 2**18

# Two tasks are faster than one from this many operations times lanes on (docs/performance.md#threads).
DENSE = 800_000


def spare_vectors(columns: Iterable[np.dtype], operations: int, size: int) -> list[np.dtype]:
    """The dtypes of the padding vectors that make XLA split the loop into two tasks."""
    columns = list(columns)
    if cores() < 2 or operations * size < DENSE:
        return []
    widest = max(columns, key=lambda kind: kind.itemsize)
    missing = 2 * TASK_SIZE - size * sum(kind.itemsize for kind in columns)
    return [widest] * max(0, -(-missing // (size * widest.itemsize)))
