"""A program of scalars that is linear in some of its inputs, as a graph of edges with factors:

    x_k = Σ_i c_ki x_i ,    over all edges i → k .

A node k is eliminated by i → k → l becoming i → l, with the product of both factors.
"""

from collections import defaultdict

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._elementwise import SCALARS
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Unsupported


class LinearEdges:
    """The edges of a program from `starts`, the inputs in which it is linear, to its results `ends`.

    `before[k][i]` and `after[i][k]` are the node of the factor of the edge i → k; `nodes` are the linear nodes in the order
    in which they can be computed.

    **Raises:** `Unsupported`, naming an operation that is not known to be linear.
    """

    def __init__(self, graph: Graph, starts: list[int], ends: list[int], dtype):
        self.graph, self.dtype = graph, dtype
        self.before: dict[int, dict[int, int]] = defaultdict(dict)
        self.after: dict[int, dict[int, int]] = defaultdict(dict)
        linear, inputs = set(starts), set(starts)
        self.nodes = []
        for i in graph.needed(ends):
            operands = graph.nodes[i].operands
            if i in inputs or any(j in linear for j in operands):
                linear.add(i)
                self.nodes.append(i)
            if i not in inputs:
                for k, j in enumerate(operands):
                    if j in linear:
                        self.add(j, i, self._factor(i, k, linear))

    def _factor(self, i: int, k: int, linear: set[int]) -> int:
        """The node of ∂(node i)/∂(its k-th operand)."""
        node = self.graph.nodes[i]
        name = node.primitive.name
        factor = SCALARS[name].factor
        if factor is None or any(
            self.graph.nodes[j].dtype != self.dtype for j in (i, node.operands[k])
        ):
            raise Unsupported(f"the derivative of `{name}`")
        return factor(self, node.operands, k, linear)

    def constant(self, value: float) -> int:
        return self.graph.constant(np.asarray(value, self.dtype))

    def apply(self, primitive, *operands: int) -> int:
        return self.graph.apply(primitive, operands, self.dtype)

    def add(self, i: int, k: int, factor: int) -> None:
        """Adds an edge; its factor is added to that of an existing edge between the same nodes."""
        if i in self.before[k]:
            factor = self.apply(lax.add_p, self.before[k][i], factor)
        self.before[k][i] = self.after[i][k] = factor

    def taken_out(self, i: int) -> tuple[dict[int, int], dict[int, int]]:
        """Removes a node with its edges; returns the factors of the edges before it and after it."""
        before, after = self.before.pop(i, {}), self.after.pop(i, {})
        for j in before:
            del self.after[j][i]
        for k in after:
            del self.before[k][i]
        return before, after

    def eliminate(self, i: int) -> None:
        """Replaces the edges through a node by direct edges between its neighbours."""
        before, after = self.taken_out(i)
        for j, a in before.items():
            for k, b in after.items():
                self.add(j, k, self.apply(lax.mul_p, a, b))
