"""Nests a long program in parts, so that XLA compiles it as one loop.

XLA's CPU compiler counts the operations of a computation. Beyond 2,000 it moves values that are used once into functions
of their own. Each function then recomputes the values that it shares with others, recursively: a step of 4,800 operations
took 8 ms a lane instead of 4 µs (jaxlib 0.10.2). So after `PART` operations a long program continues inside a nested
computation, a `reduce_window` of one element, whose inputs are the values still needed. LLVM sees a single function again:
one loop, whose values stay in registers. Timings: docs/performance.md#pieces.
"""

from itertools import zip_longest
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._elementwise import in_one_shape, scalar
from jaxhamel._lanes._xla_cpu._trigonometry import (
    arctangent,
    has_arctangent,
    has_sine,
    sine_and_cosine,
)

# The most operations of one part. XLA's limit also counts, twice, the values that a part takes from the one around it.
PART = 900


def length(node) -> int:
    """The number of processor operations of a node."""
    record = scalar(node)
    return 1 if record is None else record.length


def compute_in_parts(graph, nodes: list[int], wanted: list[int], values: dict[int, Any]) -> None:
    """Computes `nodes` and adds their values to `values`; from a nested part it adds only those of the nodes `wanted`."""
    first, rest = _divided(graph, nodes)
    compute(graph, first, values)
    if rest:
        values.update(_computed_inside(graph, rest, wanted, values))


def _divided(graph, nodes: list[int]) -> tuple[list[int], list[int]]:
    cost = np.cumsum([length(graph.nodes[i]) for i in nodes])
    here = len(nodes) if cost[-1] <= PART else int(np.searchsorted(cost, PART))
    return nodes[:here], nodes[here:]


def _computed_inside(
    graph, nodes: list[int], wanted: list[int], values: dict[int, Any]
) -> dict[int, Any]:
    """The values of those `nodes` that are `wanted`, computed in a nested window, whose initial values are their inputs."""
    own = set(nodes)
    needed = {j for i in nodes for j in graph.nodes[i].operands} - own
    given = [i for i in sorted(needed) if graph.nodes[i].value is None]
    slots = _slots(graph, given, [i for i in wanted if i in own])

    def body(initial, element):
        found = {i: x for (_, i, _), x in zip(slots, initial, strict=True) if i is not None}
        compute_in_parts(graph, nodes, wanted, found)
        pairs = zip(slots, element, strict=True)
        return tuple(x if result is None else found[result] for (_, _, result), x in pairs)

    # Inputs are passed as initial values only: XLA computes a window's elements once more inside its loop, so that with
    # each nested part they would be computed twice as often. Parts are nested, not side by side, so that each takes many
    # values but returns few: with parts side by side, each with hundreds of results, a step of 6,800 operations did not
    # compile in 45 s.
    initial = tuple(np.zeros((), kind) if i is None else values[i] for kind, i, _ in slots)
    zeros = {kind: jnp.zeros(1, kind) for kind, _, _ in slots}
    elements = tuple(zeros[kind] for kind, _, _ in slots)
    out = lax.reduce_window(elements, initial, body, (1,), (1,), "VALID")
    pairs = zip(slots, out, strict=True)
    return {result: lax.squeeze(x, (0,)) for (_, _, result), x in pairs if result is not None}


def _slots(graph, given: list[int], results: list[int]) -> list[tuple[np.dtype, Any, Any]]:
    """(dtype, node of the input, node of the result) for each position of the window; None where there is no such node."""
    kinds = sorted({graph.nodes[i].dtype for i in (*given, *results)}, key=str)

    def of(kind, nodes):
        return [i for i in nodes if graph.nodes[i].dtype == kind]

    return [
        (kind, *pair) for kind in kinds for pair in zip_longest(of(kind, given), of(kind, results))
    ]


def compute(graph, nodes: list[int], values: dict[int, Any]) -> None:
    """Adds the nodes' values, one operation after the other; sine and cosine of one value are computed together.

    The values are scalars or arrays of one shape.
    """
    pairs: dict[int, tuple] = {}
    for i in nodes:
        node = graph.nodes[i]
        operands = [_node_value(graph, j, values) for j in node.operands]
        if name_of(node) in ("sin", "cos") and has_sine(node.dtype):
            of = node.operands[0]
            pairs[of] = pairs.get(of) or sine_and_cosine(operands[0])
            values[i] = pairs[of][name_of(node) == "cos"]
        elif name_of(node) == "atan2" and has_arctangent(node.dtype):
            values[i] = arctangent(*operands)
        elif node.primitive is not None:
            values[i] = node.primitive.bind(
                *in_one_shape(node.primitive, operands), **dict(node.params)
            )


def _node_value(graph, node: int, values):
    constant = graph.nodes[node].value
    return values[node] if constant is None else constant


def name_of(node) -> str | None:
    return None if node.primitive is None else node.primitive.name
