"""Splits a program of scalars into a prologue, which runs once, and the loop over the lanes."""

from collections.abc import Iterable
from typing import Any

from jax import lax

from jaxhamel._lanes._xla_cpu._one_loop import run_loop
from jaxhamel._lanes._xla_cpu._parts import PART, name_of
from jaxhamel._lanes._xla_cpu._pieces import Split, total


def split(graph, ends: Iterable[int]) -> Split:
    """Splits a program into a prologue, run once, and the loop over the lanes.

    The prologue holds lane-independent results, table look-ups, and their dependencies. Other lane-independent values join
    it, unless computing them in the loop (LLVM hoists them) removes at least a quarter of the vectors that the loop reads
    and writes. XLA compiles each value of the prologue as a small program, and moves it out of the loop over the steps if
    it is the same in every step. Timings of both choices: docs/performance.md#one-loop.
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


# The most lane-independent values that the prologue computes for the loop.
_MOST_SHARED = 40


def _few_shared(graph, needed: list[int]) -> list[int]:
    """The computed lane-independent values that the lanes read; an empty list if there are more than `_MOST_SHARED`."""
    operands = {j for i in needed if graph.nodes[i].batched for j in graph.nodes[i].operands}
    computed = [
        j for j in operands if not graph.nodes[j].batched and graph.nodes[j].primitive is not None
    ]
    return computed if len(computed) <= _MOST_SHARED else []


def _vectors(graph, parts: Split) -> int:
    """The number of vectors of the loop; each of its scalar arguments takes one, too."""
    own = sum(graph.nodes[i].batched for i in parts.given)
    return max(own, len(parts.given) - own, len(parts.results))


def prologue_in_one_kernel(graph, parts: Split, values: dict[int, Any]) -> bool:
    """Runs the prologue as one kernel and adds its results to `values`; returns False, without running it, if it is long.

    XLA would compile each value of a short prologue as a kernel of its own. The values of a long one would be computed many
    times in a single kernel (`_parts`).
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
    found = run_loop(graph, of_one, values, 1)
    values.update({i: lax.squeeze(x, (0,)) for i, x in found.items()})
    return True
