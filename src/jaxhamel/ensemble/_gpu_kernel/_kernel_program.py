"""A program of scalars as it runs inside a GPU kernel: every node a vector of one block of lanes, or a scalar.

What a kernel cannot do is found here, before one is built: a primitive that Triton has no instruction for, and tables looked
up at an index that is data. A window of a table that the kernel is given (the coefficients of a spline) is read from memory
at its place; a short table of computed values is a chain of choices.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph, Node
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import Program
from jaxhamel._lanes._rules._rules import ELEMENTWISE
from jaxhamel._lanes._xla_cpu._sine import has_sine, sine_and_cosine

# Operations of lanes that JAX does not lower to Triton (0.10.1 and 0.10.2).
# fmt: off
NOT_IN_TRITON = {
    "bitcast_convert_type", "clz", "complex", "conj", "copy", "digamma", "erf", "erfc", "imag", "lgamma",
    "population_count", "real", "reduce_precision", "round",
}
# fmt: on

# Comparisons that put −0 below 0 and NaN above all (`jnp.searchsorted`, `jnp.interp`), and what a kernel does instead: a
# place one further on in a table whose entries are equal there.
ORDERED: dict[str, Any] = {"lt_to": lax.lt_p, "le_to": lax.le_p}

# A table of computed values longer than this is no chain of choices any more.
LONGEST_CHAIN = 64


class Window(NamedTuple):
    """A look-up whose table is inputs at equal distances: the numbers of inputs `first`, `first + stride`, …"""

    first: int
    stride: int


class Routine(NamedTuple):
    """A program ready to be evaluated: the nodes in `order`, those of `windows` read from memory.

    `loaded` are the inputs (by their number) that it needs as values.
    """

    graph: Graph
    position: dict[int, int]  # of an input node among all inputs
    outputs: list[int]
    order: list[int]
    windows: dict[int, Window]

    @classmethod
    def of(cls, program: Program) -> "Routine":
        """**Raises:** `Unsupported`, naming what a kernel cannot do."""
        graph, nodes = program.graph, [x for each in program.inputs for x in each.ravel().tolist()]
        position = {node: number for number, node in enumerate(nodes)}
        outputs = [x for each in program.outputs for x in each.ravel().tolist()]
        windows: dict[int, Window] = {}
        order = _needed(graph, outputs, position, windows)
        for i in order:
            _check(graph, i, windows)
        return cls(graph, position, outputs, order, windows)

    @property
    def loaded(self) -> set[int]:
        return {self.position[i] for i in self.order if i in self.position}

    @property
    def operations(self) -> int:
        """How many scalar operations it takes."""
        return sum(self.graph.nodes[i].primitive is not None for i in self.order)

    def __call__(self, inputs: dict[int, Any], read: Callable[[int, int, Any], Any]) -> list:
        """The outputs, from values by number of input; `read(first, stride, index)` is one of a window's inputs."""
        values: dict[int, Any] = {}
        pairs: dict[int, tuple] = {}  # sine and cosine by argument
        for i in self.order:
            node = self.graph.nodes[i]
            if i in self.position:
                values[i] = inputs[self.position[i]]
            elif node.primitive is None:
                values[i] = node.value
            elif i in self.windows:
                values[i] = read(*self.windows[i], values[node.operands[0]])
            else:
                values[i] = _computed(node, values, pairs)
        return [values[i] for i in self.outputs]


def _needed(graph: Graph, outputs: Iterable[int], position, windows) -> list[int]:
    """The nodes that the outputs depend on, in order; of a window read from memory only the index."""
    alive, waiting = set(), list(outputs)
    while waiting:
        i = waiting.pop()
        if i in alive:
            continue
        alive.add(i)
        node = graph.nodes[i]
        window = _window(graph, node, position)
        if window is not None:
            windows[i] = window
        waiting.extend(node.operands[:1] if window is not None else node.operands)
    return sorted(alive)


def _window(graph: Graph, node: Node, position) -> Window | None:
    if node.primitive is None or node.primitive.name != "pick":
        return None
    table = node.operands[1:]
    if not all(x in position for x in table):
        return None
    at = [position[x] for x in table]
    stride = at[1] - at[0] if len(at) > 1 else 1
    even = at == list(range(at[0], at[0] + stride * len(at), stride)) if stride > 0 else False
    return Window(at[0], stride) if even else None


def _check(graph: Graph, i: int, windows) -> None:
    node = graph.nodes[i]
    name = None if node.primitive is None else node.primitive.name
    if name == "pick" and i not in windows and len(node.operands) - 1 > LONGEST_CHAIN:
        raise Unsupported(f"a table of {len(node.operands) - 1} computed values")
    if name is not None and name != "pick" and (name in NOT_IN_TRITON or name not in ELEMENTWISE):
        raise Unsupported(f"the primitive `{name}`")
    if name == "select_n" and len(node.operands) != 3:
        raise Unsupported("a choice among more than two")


def _computed(node: Node, values: dict, pairs: dict):
    if node.primitive.name in ("sin", "cos") and has_sine(node.dtype):
        argument = node.operands[0]
        if argument not in pairs:
            pairs[argument] = sine_and_cosine(values[argument])
        return pairs[argument][node.primitive.name == "cos"]
    return _bind(node, [values[j] for j in node.operands])


def _bind(node: Node, operands: list):
    if node.primitive.name == "pick":
        return _chain(*operands)
    if node.primitive.name in ("select_n", "clamp") and node.batched:
        shape = next(np.shape(x) for x in operands if np.ndim(x))
        operands = [jnp.broadcast_to(jnp.asarray(x), shape) for x in operands]
    primitive: Any = ORDERED.get(node.primitive.name, node.primitive)
    return primitive.bind(*operands, **dict(node.params))


def _chain(index, *table):
    """x_i by one choice after the other: registers have no index."""
    found = table[0]
    for i, entry in enumerate(table[1:], start=1):
        here = lax.eq(index, np.asarray(i, jnp.result_type(index))[()])
        found = jnp.where(here, entry, found)
    return found
