"""Transposes a linear program of scalars, and multiplies factors that all lanes share only once, before the lanes.

In a program that is linear in some of its inputs, a node is a sum of other nodes, each times a factor. Each such term is
an edge. The cotangents are

    x̄_i = Σ_k c_ki x̄_k ,    over all edges i → k ,

which takes one product and one sum for each edge. A node whose edges all have known or shared factors can be eliminated
first: i → k → l becomes i → l with the product of both factors, which is computed once for all lanes. A node is eliminated
if that does not increase the work in the lanes; single nodes are tried first, then connected groups of nodes. For example,
with rails shared by all balls, the chain from a control amplitude to a mass's position, velocity and acceleration
collapses to three precomputed derivatives for each coordinate.

Every order of elimination gives the same derivatives; to find the cheapest order is a hard problem (Griewank & Walther,
*Evaluating Derivatives*, 2008, chapter 9). Nodes with factors that vary from lane to lane stay: to eliminate them, too, was
measured and saves almost nothing (docs/performance.md#reverse-mode).
"""

from collections.abc import Iterable, Iterator

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._linear_edges import LinearEdges


def transposed(graph: Graph, starts: list[int], ends: Iterable[tuple[int, int]]) -> list[int]:
    """The nodes of the cotangents of `starts`, which are inputs in which the program is linear.

    `ends` has pairs of nodes: a result of the program, and its cotangent.

    **Raises:** `Unsupported`, naming an operation that is not known to be linear.
    """
    ends = list(ends)
    if not starts:
        return []
    dtype = graph.nodes[starts[0]].dtype
    edges = _Edges(graph, starts, [node for node, _ in ends], dtype)
    edges.eliminate_nodes()
    edges.eliminate_groups()
    bars: dict[int, int] = {}
    for node, bar in ends:
        bars[node] = graph.apply(lax.add_p, (bars[node], bar), dtype) if node in bars else bar
    zero = graph.constant(np.zeros((), dtype))
    found = edges.cotangents(bars)
    return [found.get(i, zero) for i in starts]


# Cost model, in operations in the lanes: an edge with factor ±1 costs 1 (a sum), any other edge 2 (a product and a sum).
# Operations that all lanes share run once for all lanes, so 16 of them count as 1.
_SUM, _PRODUCT, _SHARED = 1, 2, 16


class _Edges(LinearEdges):
    """The edges of a program of which single nodes and groups may be eliminated, but none of `starts` and `ends`."""

    def __init__(self, graph: Graph, starts: list[int], ends: list[int], dtype):
        super().__init__(graph, starts, ends, dtype)
        self.fixed = {*starts, *ends}

    def eliminate_nodes(self) -> None:
        """Eliminates single nodes, from the last to the first, as long as one of them lowers the cost.

        The pass is repeated, since an elimination may make that of a neighbour worthwhile.
        """
        waiting = self._removable_nodes()[::-1]
        while waiting:
            left = []
            for i in waiting:
                if self._has_shared_factors(i) and self._cost_of_direct_edges(i) < sum(
                    self._edge_costs(i)
                ):
                    self.eliminate(i)
                else:
                    left.append(i)
            if len(left) == len(waiting):
                return
            waiting = left

    def eliminate_groups(self) -> None:
        """Eliminates connected groups of nodes at once.

        In a chain x → {a, b} → {c, d} → … → y no node alone can be eliminated at a gain, but all of them together can.
        """
        for group in self._groups(self._removable_nodes()):
            if self._costs_no_more(group):
                for i in group:
                    self.eliminate(i)

    def _removable_nodes(self) -> list[int]:
        return [i for i in self.nodes if i not in self.fixed and self._has_shared_factors(i)]

    def _has_shared_factors(self, i: int) -> bool:
        """Whether all lanes share the factors of the node's edges."""
        factors = (*self.before[i].values(), *self.after[i].values())
        return not any(self.graph.nodes[c].batched for c in factors)

    def _cost_of_direct_edges(self, i: int) -> int:
        """The cost by which an elimination of node i raises that of the edges between its neighbours."""
        total = 0
        for j, a in self.before[i].items():
            for k, b in self.after[i].items():
                known = self.before[k].get(j)
                if known is not None:
                    total += _PRODUCT - self._cost(known)
                else:
                    total += _SUM if self._is_unit(a) and self._is_unit(b) else _PRODUCT
        return total

    def _edge_costs(self, i: int) -> Iterator[int]:
        """The cost of each of the node's edges."""
        return map(self._cost, (*self.before[i].values(), *self.after[i].values()))

    def _groups(self, nodes: list[int]) -> list[list[int]]:
        """Divides the nodes into groups that are connected by edges; each group is in the order of computation."""
        left, groups = set(nodes), []
        for i in nodes:
            found, waiting = [], [i]
            while waiting:
                k = waiting.pop()
                if k in left:
                    left.remove(k)
                    found.append(k)
                    waiting += [*self.before[k], *self.after[k]]
            groups += [sorted(found)] if found else []
        return groups

    def _costs_no_more(self, group: list[int]) -> bool:
        """Whether direct edges from the nodes before the group to those after it cost no more than the group's edges."""
        own, reached = set(group), {}
        there, products, ends = -len(group), 0, set()
        for i in group:
            reached[i] = set().union(*(reached.get(j, {j}) for j in self.before[i]))
            there += sum(map(self._cost, self.before[i].values()))
            for k, factor in self.after[i].items():
                products += len(reached[i])
                if k not in own:
                    there += self._cost(factor)
                    ends |= {(j, k) for j in reached[i]}
        return _PRODUCT * len(ends) + products / _SHARED <= there

    def _cost(self, factor: int) -> int:
        return _SUM if self._is_unit(factor) else _PRODUCT

    def _is_unit(self, factor: int) -> bool:
        value = self.graph.value(factor)
        return value is not None and abs(value) == 1

    def cotangents(self, bars: dict[int, int]) -> dict[int, int]:
        """Propagates cotangents from the ends to all nodes; each is ordered like its node along the long axis (`_ranks`)."""
        bars, entries = dict(bars), self.graph.entries
        for k in reversed(self.nodes):
            if k not in bars:
                continue
            if k in entries:
                entries.setdefault(bars[k], entries[k])
            for i, factor in self.before[k].items():
                term = self.apply(lax.mul_p, bars[k], factor)
                bars[i] = self.apply(lax.add_p, bars[i], term) if i in bars else term
        return bars
