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
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._one_kernel import FEW, as_one_kernel
from jaxhamel._lanes._parts import compute, compute_in_parts, length, name_of
from jaxhamel._lanes._threads import spare_vectors


class Split(NamedTuple):
    """The nodes computed before the loop, those in it, what it needs from outside, and what it gives."""

    before: list[int]
    inside: list[int]
    given: list[int]
    results: list[int]


def split(graph, ends: Iterable[int]) -> Split:
    """Before the loop: results that no lane changes, what looks into tables, and all that these need.

    Also what the lanes need of what they share, unless a quarter of the vectors that go through the loop is saved where it
    is computed in it, by LLVM ahead of the lanes. Before it, XLA makes a small program of each, and moves out of a loop over
    the steps what stays the same there. Rolling ball with three masses, µs a step of RK4, before and in the loop: all lanes
    the same masses 2.6 and 1.7 with 24 lanes, 33 and 28 with 1,024, 282 and 268 with 16,384 (18 vectors and 12); each its
    own 50 and 84 with 1,024 (49 vectors and 41; two runs).
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
    return Split(before, inside, given, list(dict.fromkeys(i for i in ends if i in own)))


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


def run_in_one_loop(graph, parts: Split, values: dict[int, Any], size: int) -> dict[int, Any]:
    """The results' values, (size,) vectors, from those of what is given: vectors and scalars.

    A long program is several loops, one after the other: see `LONGEST`. What all lanes share goes from one to the next as a
    vector, too. Computed ahead of them and given to each as scalars it takes as many vectors, the results of positions
    that have none: in one run twenty masses 0.2e6 steps/s instead of 0.9e6, ten masses 2.7e6 instead of 5.3e6.
    """
    known = dict(values)
    for piece in pieces(graph, parts):
        known.update(_run(graph, piece, known, size))
    return {i: known[i] for i in parts.results}


# LLVM writes a function of more than some 3,000 of its operations, loads and stores included, not into the loop that calls
# it, and then there are no vectors: a step of the ball backward, 6,800 operations, took 480 µs where a loop for each stage
# takes some 250. Not less either: two loops with 27 values between them take 1.5 to 2 times as long as one. Rolling ball
# with 5, 10 and 20 masses, 1e6 trajectory-steps/s: 7.3, 3.4 and 0.45 with 2,800 here, 8.0, 6.1 and 1.2 with 3,300 (in one
# run; in another 0.87 and 2.2 with 20 masses, 1.1 with 3,500 and 0.5 with 3,800).
LONGEST = 3300


def pieces(graph, parts: Split) -> list[Split]:
    """The program in parts that are not too long, cut where few values cross."""
    cost = np.cumsum([length(graph.nodes[i]) for i in parts.inside], dtype=int)
    many = -(-int(cost[-1]) // LONGEST) if len(cost) else 0
    if many < 2:
        return [parts] if parts.results else []
    crossing = _crossing(graph, parts.inside)
    cuts, first = [], 0
    while cost[-1] - (cost[first - 1] if first else 0) > LONGEST:
        begun = int(cost[first - 1]) if first else 0
        low, high = np.searchsorted(cost, np.array([begun + LONGEST // 2, begun + LONGEST]))
        first = low + 1 + int(np.argmin(crossing[low + 1 : high + 1]))
        cuts.append(first)
    bounds = [0, *cuts, len(parts.inside)]
    return [_piece(graph, parts, *each) for each in pairwise(bounds)]


def _crossing(graph, inside: list[int]) -> np.ndarray:
    """How many values are needed on the other side of a cut before the n-th node."""
    place = {i: n for n, i in enumerate(inside)}
    last = {}
    for n, i in enumerate(inside):
        last.update({place[j]: n for j in graph.nodes[i].operands if j in place})
    change = np.zeros(len(inside) + 2, int)
    for n, end in last.items():
        change[n + 1] += 1
        change[end + 1] -= 1
    return np.cumsum(change)


def _piece(graph, parts: Split, first: int, last: int) -> Split:
    inside, later = parts.inside[first:last], parts.inside[last:]
    used = {j for i in inside for j in graph.nodes[i].operands} - set(inside)
    wanted = {j for i in later for j in graph.nodes[i].operands} | set(parts.results)
    given = sorted(j for j in used if graph.nodes[j].value is None)
    return Split([], inside, given, [i for i in inside if i in wanted])


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
    operands = [jnp.zeros(size, s.dtype) if s.own is None else values[s.own] for s in slots]
    out = lax.reduce_window(tuple(operands), initial, body, (1,), (1,), "VALID")
    return {slot.result: x for slot, x in zip(slots, out, strict=True) if slot.result is not None}


def _in_two_tasks(graph, inside: list[int], slots: list["_Slot"], size: int) -> list["_Slot"]:
    """With as many positions more, of zeros, as it takes for two threads to have a part of the loop each."""
    columns = [s.dtype for s in slots] + [s.dtype for s in slots if s.own is not None]
    operations = sum(length(graph.nodes[i]) for i in inside)
    more = spare_vectors(columns, operations, size)
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
    return _tried()[0]


def one_kernel_works() -> bool:
    """Whether XLA here compiles a call that is marked as small, a window in it, to what it says.

    Not where there are several devices: XLA may divide the call among them, and then finds no way from one to the other.
    """
    return jax.device_count() == 1 and _tried()[1]


@cache
def _tried() -> list[bool]:
    if jax.default_backend() != "cpu":
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
