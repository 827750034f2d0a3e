"""Runs a program of scalars inside a GPU kernel: every node is a scalar, or a vector over one block of lanes.

Unsupported operations are found here, before a kernel is built: primitives without a Triton instruction, and look-ups in
long tables of computed values. A look-up in a table of inputs (the coefficients of a spline) is read from memory; one in a
short table of computed values becomes a chain of selections.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._elementwise import SCALARS, broadcast
from jaxhamel._lanes._graph._graph import Graph, Node
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import Program
from jaxhamel._lanes._xla_cpu._trigonometry import has_sine, sine_and_cosine

# The longest table of computed values that becomes a chain of selections.
LONGEST_CHAIN = 64


class Window(NamedTuple):
    """A look-up in a table that consists of the inputs number `first`, `first + stride`, `first + 2 stride`, …"""

    first: int
    stride: int


class Routine(NamedTuple):
    """A scalar program prepared for evaluation.

    - `position`: the index of each input node among all inputs; `outputs`: the nodes of the results.
    - `order`: the nodes to compute, in order; `windows`: those of them that are look-ups read from memory.
    """

    graph: Graph
    position: dict[int, int]
    outputs: list[int]
    order: list[int]
    windows: dict[int, Window]

    @classmethod
    def of(cls, program: Program) -> "Routine":
        """Prepares a program. **Raises:** `Unsupported`, naming an operation that a kernel cannot do."""
        graph, nodes = program.graph, [x for each in program.inputs for x in each.ravel().tolist()]
        position = {node: number for number, node in enumerate(nodes)}
        outputs = [x for each in program.outputs for x in each.ravel().tolist()]
        windows: dict[int, Window] = {}
        order = _needed(graph, outputs, position, windows)
        for i in order:
            _check_operation(graph, i, windows)
        return cls(graph, position, outputs, order, windows)

    @property
    def loaded(self) -> set[int]:
        """The indices of the inputs whose values the program needs; those that only look-ups read are not among them."""
        return {self.position[i] for i in self.order if i in self.position}

    @property
    def operations(self) -> int:
        """The number of scalar operations."""
        return sum(self.graph.nodes[i].primitive is not None for i in self.order)

    def listing(self) -> tuple:
        """The operations and their operands, equal for equal programs."""
        nodes = [(i, self.graph.nodes[i]) for i in self.order]
        return tuple((i, str(node.primitive), *node.operands) for i, node in nodes)

    def __call__(self, inputs: dict[int, Any], read: Callable[[int, int, Any], Any]) -> list:
        """Computes the outputs from the inputs by index; `read(first, stride, index)` reads an entry of a `Window`."""
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
    """The nodes on which the outputs depend, in order; adds the look-ups that are read from memory to `windows`.

    Such a look-up depends on its index only.
    """
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


def _check_operation(graph: Graph, i: int, windows) -> None:
    node = graph.nodes[i]
    if node.primitive is None:
        return
    name = node.primitive.name
    if name == "pick" and i not in windows and len(node.operands) - 1 > LONGEST_CHAIN:
        raise Unsupported(f"a table of {len(node.operands) - 1} computed values")
    if not SCALARS[name].gpu_kernel:
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
        return _selected_by_comparisons(*operands)
    primitive: Any = SCALARS[node.primitive.name].on_gpu or node.primitive
    return primitive.bind(*broadcast(node, operands), **dict(node.params))


def _selected_by_comparisons(index, *table):
    """Selects x_i by a chain of comparisons, because registers cannot be indexed."""
    found = table[0]
    for i, entry in enumerate(table[1:], start=1):
        here = lax.eq(index, np.asarray(i, jnp.result_type(index))[()])
        found = jnp.where(here, entry, found)
    return found
