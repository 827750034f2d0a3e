"""Scalar operations one after the other, a long program in parts that contain each other: XLA makes one loop of them.

XLA's CPU compiler counts the operations of a computation. Beyond 2,000 it gives values that are used once functions of
their own, and what several functions need is computed in each of them anew, and so on to the beginning: a step of 4,800
operations took 8 ms a lane instead of 4 µs (jaxlib 0.10.2). So a long program ends, after some operations, with a
computation inside it, a `reduce_window` of one element, that takes what is still needed and holds the rest. All of it is one
function again before LLVM sees it, one loop, whose values stay in registers.

Rolling ball with 10 and 20 masses, 1,024 lanes, RK4, trajectory-steps/s: 3.5e6 and 7.5e5 without, 5.6e6 and 8.7e5 so (one
run each on two cores).
"""

from itertools import zip_longest
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._xla_cpu._sine import has_sine, sine_and_cosine

# Operations of one part; XLA's limit counts what it takes from the one around it, too, twice.
PART = 900

# What a sine counts; an argument's sine and cosine have one reduction in common.
_SINE = 30


def length(node) -> int:
    """How many operations a node is."""
    return _SINE if name_of(node) in ("sin", "cos") else 1


def compute_in_parts(graph, nodes: list[int], wanted: list[int], values: dict[int, Any]) -> None:
    """Adds the values of the nodes that are wanted, and others."""
    first, rest = _divided(graph, nodes)
    compute(graph, first, values)
    if rest:
        values.update(_inside(graph, rest, wanted, values))


def _divided(graph, nodes: list[int]) -> tuple[list[int], list[int]]:
    cost = np.cumsum([length(graph.nodes[i]) for i in nodes])
    here = len(nodes) if cost[-1] <= PART else int(np.searchsorted(cost, PART))
    return nodes[:here], nodes[here:]


def _inside(graph, nodes: list[int], wanted: list[int], values: dict[int, Any]) -> dict[int, Any]:
    """The rest, in a computation of its own: the values it needs are the initial ones of the window."""
    own = set(nodes)
    needed = {j for i in nodes for j in graph.nodes[i].operands} - own
    given = [i for i in sorted(needed) if graph.nodes[i].value is None]
    slots = _slots(graph, given, [i for i in wanted if i in own])

    def body(initial, element):
        found = {i: x for (_, i, _), x in zip(slots, initial, strict=True) if i is not None}
        compute_in_parts(graph, nodes, wanted, found)
        pairs = zip(slots, element, strict=True)
        return tuple(x if result is None else found[result] for (_, _, result), x in pairs)

    # What is needed comes as initial values only: XLA computes a window's elements once more inside its loop, and so twice
    # as often for each part. And a part takes many values but gives few, the results: of parts side by side, each with
    # hundreds of results, a step of 6,800 operations did not compile in 45 s.
    initial = tuple(np.zeros((), kind) if i is None else values[i] for kind, i, _ in slots)
    zeros = {kind: jnp.zeros(1, kind) for kind, _, _ in slots}
    elements = tuple(zeros[kind] for kind, _, _ in slots)
    out = lax.reduce_window(elements, initial, body, (1,), (1,), "VALID")
    pairs = zip(slots, out, strict=True)
    return {result: lax.squeeze(x, (0,)) for (_, _, result), x in pairs if result is not None}


def _slots(graph, given: list[int], results: list[int]) -> list[tuple[np.dtype, Any, Any]]:
    """(dtype, what is given, what results) of each position; None where one of them is not there."""
    kinds = sorted({graph.nodes[i].dtype for i in (*given, *results)}, key=str)
    of = lambda kind, nodes: [i for i in nodes if graph.nodes[i].dtype == kind]  # noqa: E731
    return [
        (kind, *pair) for kind in kinds for pair in zip_longest(of(kind, given), of(kind, results))
    ]


def compute(graph, nodes: list[int], values: dict[int, Any]) -> None:
    """Adds the nodes' values, one operation after the other; sine and cosine of one value together."""
    pairs: dict[int, tuple] = {}
    for i in nodes:
        node = graph.nodes[i]
        operands = [_read(graph, j, values) for j in node.operands]
        if name_of(node) in ("sin", "cos") and has_sine(node.dtype):
            of = node.operands[0]
            pairs[of] = pairs.get(of) or sine_and_cosine(operands[0])
            values[i] = pairs[of][name_of(node) == "cos"]
        elif node.primitive is not None:
            values[i] = node.primitive.bind(*operands, **dict(node.params))


def _read(graph, node: int, values):
    constant = graph.nodes[node].value
    return values[node] if constant is None else constant


def name_of(node) -> str | None:
    return None if node.primitive is None else node.primitive.name
