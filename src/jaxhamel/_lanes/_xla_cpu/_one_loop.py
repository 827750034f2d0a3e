"""A program of scalars as one loop over the lanes, whose intermediate values stay in registers.

Left to itself XLA makes of a program as many loops as it likes, and computes shared values again in each. The window of
one element of a `reduce_window` takes any function of scalars, with as many arguments and results as one wants:

    out_i[b] = f_i(shared, x[b]) ,

and XLA's CPU compiler makes of it one loop, whose body LLVM vectorises. The values that all lanes share are the initial
values of the reduction; what depends on them alone LLVM computes before the loop.

Rolling ball with three masses moving differently in each lane, double precision, 1,024 lanes, RK4, one run on two quiet
cores: 304 µs a step with the divisions of `_cuts`, 214 µs in one loop, 66 µs with sines of `_sine`, 54 µs with all four
stages in the loop; compiled in 0.4 s instead of 1.4 s. HLO has the program's 244 multiplications, and 790 with `_cuts`.
Not taken: `lax.reduce` over the stages (146 µs where this took 212, but it relies on the order in which XLA reduces).
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
from jax import lax

from jaxhamel._lanes._described import is_described
from jaxhamel._lanes._xla_cpu._one_kernel import FEW, as_one_kernel
from jaxhamel._lanes._xla_cpu._parts import PART, compute, compute_in_parts, name_of
from jaxhamel._lanes._xla_cpu._pieces import Split, pieces, total
from jaxhamel._lanes._xla_cpu._threads import spare_vectors


def split(graph, ends: Iterable[int]) -> Split:
    """Before the loop: results that no lane changes, what looks into tables, and all that these need.

    Also what the lanes need of what they share, unless a quarter of the vectors that go through the loop is saved where it
    is computed in it, by LLVM ahead of the lanes. Before it, XLA makes a small program of each, and moves out of a loop over
    the steps what stays the same there. Rolling ball with three masses, µs a step of RK4, before and in the loop: all lanes
    the same masses 2.6 and 1.7 with 24 lanes, 33 and 28 with 1,024, 282 and 268 with 16,384 (18 vectors and 12); each its
    own 38 and 43 with 1,024 (49 vectors and 41; medians of four runs).
    """
    ends = list(ends)
    needed = graph.needed(ends)
    early = [i for i in ends if not graph.nodes[i].batched]
    early += [i for i in needed if name_of(graph.nodes[i]) == "pick"]
    before = _split(graph, ends, needed, early + _few_shared(graph, needed))
    inside = _split(graph, ends, needed, early)
    return inside if _vectors(graph, inside) <= 0.75 * _vectors(graph, before) else before


def _split(graph, ends: list[int], needed: list[int], early: list[int]) -> Split:
    before = graph.needed(early)
    known = set(before)
    inside = [i for i in needed if i not in known and graph.nodes[i].primitive is not None]
    own = set(inside)
    used = {j for i in inside for j in graph.nodes[i].operands} - own
    given = sorted(j for j in used if graph.nodes[j].value is None)
    return Split(before, inside, given, list(dict.fromkeys(i for i in ends if i in own)), ends)


# So many numbers that all lanes share, at most, are computed before the loop.
_MOST_SHARED = 40


def _few_shared(graph, needed: list[int]) -> list[int]:
    """What the lanes need of what they share, if it is not much."""
    operands = {j for i in needed if graph.nodes[i].batched for j in graph.nodes[i].operands}
    computed = [
        j for j in operands if not graph.nodes[j].batched and graph.nodes[j].primitive is not None
    ]
    return computed if len(computed) <= _MOST_SHARED else []


def _vectors(graph, parts: Split) -> int:
    """How many go through the loop: scalars that are given take one each, too."""
    own = sum(graph.nodes[i].batched for i in parts.given)
    return max(own, len(parts.given) - own, len(parts.results))


def together(graph, parts: Split, values: dict[int, Any]) -> bool:
    """Whether what is computed before the loop is done, by one kernel: adds the values of what is needed of it.

    XLA would make a kernel of each of a few of them. Not of a long one, which XLA would compute many times over (`_parts`).
    """
    nodes = [graph.nodes[i] for i in parts.before]
    own = {i for i, node in zip(parts.before, nodes, strict=True) if node.primitive is not None}
    if len(own) < 2 or total(graph, list(own)) > PART:
        return False
    if any(name_of(node) == "pick" for node in nodes):
        return False
    values.update(
        {i: n.value for i, n in zip(parts.before, nodes, strict=True) if n.value is not None}
    )
    used = {j for i in own for j in graph.nodes[i].operands} - own
    given = sorted(j for j in used if graph.nodes[j].value is None)
    wanted = [i for i in parts.before if i in own and i in {*parts.given, *parts.ends}]
    of_one = Split([], sorted(own), given, wanted, [])
    found = _run(graph, of_one, values, 1)
    values.update({i: lax.squeeze(x, (0,)) for i, x in found.items()})
    return True


def run_in_one_loop(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any]:
    """The results' values, (size,) vectors, from those of what is given: vectors and scalars.

    A long program is several loops, one after the other: see `_pieces`. What all lanes share is computed in each. Computed
    ahead of them and given as scalars it takes as many vectors, the results of positions that have none: in one run twenty
    masses 0.2e6 steps/s instead of 0.9e6, ten masses 2.7e6 instead of 5.3e6.
    """
    known = dict(values)
    for piece in pieces(graph, parts):
        known.update(_run(graph, piece, known, size))
    return {i: known[i] for i in parts.results}


def _run(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any]:
    shared = [i for i in parts.given if not np.ndim(values[i])]
    own = [i for i in parts.given if np.ndim(values[i])]
    slots = _in_two_tasks(graph, parts.inside, _slots(graph, shared, own, parts.results), size)

    def body(initial, element):
        found = dict(_present(slots, "shared", initial)) | dict(_present(slots, "own", element))
        if size > FEW:
            compute_in_parts(graph, parts.inside, parts.results, found)
        else:  # one kernel, perhaps, which has another compiler
            compute(graph, parts.inside, found)
        pairs = zip(slots, element, strict=True)
        return tuple(found[slot.result] if slot.result is not None else x for slot, x in pairs)

    zero = lambda slot: np.zeros((), slot.dtype)  # noqa: E731
    initial = tuple(zero(s) if s.shared is None else values[s.shared] for s in slots)
    # where a position has nothing to be read, what is there already: zeros XLA would write anew in each turn of a loop
    some = {graph.nodes[i].dtype: values[i] for i in own}
    spare = lambda dtype: some[dtype] if dtype in some else jnp.zeros(size, dtype)  # noqa: E731
    operands = [spare(s.dtype) if s.own is None else values[s.own] for s in slots]
    out = lax.reduce_window(tuple(operands), initial, body, (1,), (1,), "VALID")
    return {slot.result: x for slot, x in zip(slots, out, strict=True) if slot.result is not None}


def _in_two_tasks(graph, inside: list[int], slots: list["_Slot"], size: int) -> list["_Slot"]:
    """With as many positions more, of zeros, as it takes for two threads to have a part of the loop each."""
    columns = [s.dtype for s in slots] + [s.dtype for s in slots if s.own is not None]
    more = spare_vectors(columns, total(graph, inside), size)
    return slots + [_Slot(dtype, None, None, None) for dtype in more]


class _Slot(NamedTuple):
    """One position among initial values, operands and results of the reduction, which have to agree in dtype."""

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
    """Whether XLA here takes a window of one element for what it is: a function of it, whatever the initial value."""
    return not is_described() and _tried()[0]


def one_kernel_works() -> bool:
    """Whether XLA here compiles a call that is marked as small, a window in it, to what it says.

    Not where there are several devices: XLA may divide the call among them, and then finds no way from one to the other.
    """
    return not is_described() and jax.device_count() == 1 and _tried()[1]


# XLA's fusion emitters, which are on unless a flag says otherwise, end the process on windows before this version
# ("operand_maps.size() == 1" in jaxlib 0.10.1): there lanes are divided as in `_cuts`, right and several times as slow.
OLDEST = (0, 10, 2)


@cache
def _tried() -> list[bool]:
    if jax.default_backend() != "cpu" or jaxlib.version.__version_info__ < OLDEST:
        return [False, False]
    try:
        return _give_the_function(lambda run: run, as_one_kernel)
    except (RuntimeError, TypeError):
        return [*_give_the_function(lambda run: run), False]


def _give_the_function(*transforms: Callable[[Callable], Callable]) -> list[bool]:
    """Whether windows do, transformed in each way; one program, because each takes 40 ms to compile."""
    body = lambda a, b: (a[0] * b[1] + b[0] * b[0], b[1] - a[1])  # noqa: E731
    run = lambda x, y, s: lax.reduce_window((x, y), (s, s), body, (1,), (1,), "VALID")  # noqa: E731
    x, y, s = (np.array(v, np.float32) for v in ([1.0, 2.0], [3.0, 5.0], 0.5))
    with jax.ensure_compile_time_eval():
        found = jax.jit(lambda *at: [transform(run)(*at) for transform in transforms])(x, y, s)
    right = s * y + x * x, y - s
    return [all(map(np.array_equal, each, right)) for each in found]
