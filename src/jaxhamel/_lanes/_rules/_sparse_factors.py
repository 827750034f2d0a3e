"""Solves M x = b, where M x is a program of scalars that is linear in x, without computing the entries of M.

M x has intermediate values z, such as the velocities of the bodies and the forces on them. Each value is a sum of others
with factors (`_linear_edges`), so M x = b is a larger system of equations with few entries in each row. Its unknowns are
eliminated one after the other, as in sparse elimination: first all z between x_i and (M x)_i; then

    (M x)_i = d_i x_i + Σ_j a_ij z_j = b_i     gives     x_i = (b_i − Σ_j a_ij z_j) / d_i ,

which is inserted into all rows that contain x_i. A z is inserted without a division, so the only pivots are the d_i, the
same numbers as in M = L D Lᵀ with the x_i in this order. An x_i with the fewest z is first. For a chain or a tree of bodies
this is the recursion of articulated bodies (Featherstone, *Rigid Body Dynamics Algorithms*, 2008, chapter 7), from the
leaves to the root, whose cost grows like n. Timings: docs/performance.md#elimination-without-a-matrix.

Where the entries of M are computed, `elimination_order` chooses the order of the unknowns. Eliminating unknown i makes an
entry for each pair of its neighbours, the unknowns with which it still has an entry. With the fewest neighbours first
(minimum degree: Tinney and Walker, Proceedings of the IEEE 55, 1967) a tree's matrix, whose entries are those of links and
their ancestors, is eliminated from the leaves to the root and keeps all its zeros.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import MOST_SCALARS, Graph
from jaxhamel._lanes._graph._linear_edges import LinearEdges
from jaxhamel._lanes._graph._nodes import Unsupported


class Elimination(NamedTuple):
    """The elimination of one value: it is Σ before[j] · (value j), plus a known number.

    `after`: the factors with which it enters other values; `row`: i for the unknown x_i, with `inverse` the node of 1/d_i;
    None for an intermediate value.
    """

    node: int
    before: dict[int, int]
    after: dict[int, int]
    row: int | None = None
    inverse: int | None = None


class SparseFactors(NamedTuple):
    """The steps of an elimination, for any number of right-hand sides."""

    edges: LinearEdges
    starts: list[int]
    steps: list[Elimination]

    def solution(self, rhs: Sequence[int]) -> list[int]:
        """The nodes of x, from those of b."""
        known = self._known_parts(rhs)
        values: dict[int, int] = {}
        zero = self.edges.constant(0.0)
        for step in reversed(self.steps):
            total = known.get(step.node, zero)
            for j, factor in step.before.items():
                total = self._plus(total, factor, values[j])
            values[step.node] = total
        return [values[i] for i in self.starts]

    def _known_parts(self, rhs: Sequence[int]) -> dict[int, int]:
        """The part of each value that does not depend on the values which are eliminated later."""
        known: dict[int, int] = {}
        zero = self.edges.constant(0.0)
        for step in self.steps:
            if step.row is not None and step.inverse is not None:
                rest = known.get(_result(step.row), zero)
                rest = self.edges.apply(lax.sub_p, rhs[step.row], rest)
                known[step.node] = self.edges.apply(lax.mul_p, rest, step.inverse)
            if step.node in known:
                for k, factor in step.after.items():
                    known[k] = self._plus(known.get(k, zero), factor, known[step.node])
        return known

    def _plus(self, total: int, x: int, y: int) -> int:
        return self.edges.apply(lax.add_p, total, self.edges.apply(lax.mul_p, x, y))


def sparse_factors(edges: "ProductEdges") -> SparseFactors | None:
    """The elimination of M x = b; None if it takes more operations than the entries of M with LDLᵀ.

    **Raises:** `Unsupported` if both take more operations than the graph may have nodes.
    """
    reach = _reached(edges)
    zero = [[not _bit(reach.get(_result(i), 0), j) for j in edges.rows] for i in edges.rows]
    entries = _operations_of_entries(edges, reach)
    edges.most = entries + solution_operations(np.array(zero), range(len(zero)))
    edges.most += len(edges.graph.nodes)
    try:
        steps = [step for i in _order(edges, reach) for step in edges.steps(i)]
    except _TooLong:
        if entries > edges.graph.largest:
            raise Unsupported(f"more than {edges.graph.largest} scalars") from None
        return None
    return SparseFactors(edges, edges.starts, steps)


class _TooLong(Exception):
    """The elimination takes more operations than allowed, or has a pivot of zero."""


def _result(i: int) -> int:
    """The key under which the node of the i-th component of the product M x is stored."""
    return -1 - i


class ProductEdges(LinearEdges):
    """The edges of M x, with one more node for each result, since a result may be an input, and two results the same node.

    **Arguments:** `starts`: the nodes of x, which are inputs; `ends`: the nodes of M x.

    **Raises:** `Unsupported`, naming an operation that is not known to be linear.
    """

    def __init__(self, graph: Graph, starts: list[int], ends: list[int], dtype):
        super().__init__(graph, starts, ends, dtype)
        self.starts, self.rows = starts, range(len(starts))
        self.most = MOST_SCALARS  # the largest number of nodes in the graph
        linear = set(self.nodes)
        for i, end in enumerate(ends):
            if end in linear:  # else a zero row of M: no inertia belongs to x_i
                self.add(end, _result(i), self.constant(1.0))

    def steps(self, i: int) -> Iterator[Elimination]:
        """Eliminates the values between x_i and (M x)_i, those with the fewest products first, and then x_i."""
        between = self._between(self.starts[i], _result(i))
        waiting = [(self._products(z), z) for z in between]
        heapify(waiting)
        while waiting:
            products, z = heappop(waiting)
            if products != self._products(z):  # this has changed since z was queued
                heappush(waiting, (self._products(z), z))
                continue
            self._check_room(products)
            before, after = dict(self.before[z]), dict(self.after[z])
            self.eliminate(z)
            yield Elimination(z, before, after)
        yield self._solved(i)

    def _products(self, z: int) -> int:
        return len(self.before[z]) * len(self.after[z])

    def _between(self, start: int, end: int) -> set[int]:
        """The values on the paths from one node to another."""
        return _connected(self.after, start) & _connected(self.before, end)

    def _check_room(self, operations: int) -> None:
        if len(self.graph.nodes) + operations > self.most:
            raise _TooLong

    def _solved(self, i: int) -> Elimination:
        """Inserts x_i = (b_i − Σ_j a_j z_j) / d into all rows."""
        x, end = self.starts[i], _result(i)
        pivot = self.before[end].pop(x, None)
        if pivot is None or self.graph.value(pivot) == 0:
            raise _TooLong
        del self.after[x][end]
        self._check_room(len(self.before[end]) * len(self.after[x]))
        inverse = self.apply(lax.div_p, self.constant(1.0), pivot)
        row, _ = self.taken_out(end)
        _, after = self.taken_out(x)
        for j, a in row.items():
            for k, b in after.items():
                self.add(j, k, self.apply(lax.neg_p, self._product(a, b, inverse)))
        before = {
            j: self.apply(lax.neg_p, self.apply(lax.mul_p, a, inverse)) for j, a in row.items()
        }
        return Elimination(x, before, after, i, inverse)

    def _product(self, a: int, b: int, inverse: int) -> int:
        """a b / d, as one node for a b and b a: M is symmetric."""
        first, second = sorted((a, b))
        return self.apply(lax.mul_p, self.apply(lax.mul_p, first, inverse), second)


def _connected(edges: dict[int, dict[int, int]], start: int) -> set[int]:
    """The nodes that are connected with `start` by edges in one direction, without `start`."""
    found, waiting = set(), [start]
    while waiting:
        for i in edges.get(waiting.pop(), ()):
            if i not in found:
                found.add(i)
                waiting.append(i)
    return found


def _bit(number: int, i: int) -> bool:
    return bool(number >> i & 1)


def _reached(edges: ProductEdges) -> dict[int, int]:
    """For each node the unknowns x_i on which it depends, as the bits of a number."""
    index = {x: i for i, x in enumerate(edges.starts)}
    found: dict[int, int] = {}
    for k in (*edges.nodes, *map(_result, edges.rows)):
        total = 1 << index[k] if k in index else 0
        for j in edges.before.get(k, ()):
            total |= found[j]
        found[k] = total
    return found


def _used(edges: ProductEdges) -> dict[int, int]:
    """For each node the results (M x)_i that depend on it, as the bits of a number."""
    found = {_result(i): 1 << i for i in edges.rows}
    for k in reversed(edges.nodes):
        total = 0
        for j in edges.after.get(k, ()):
            total |= found[j]
        found[k] = total
    return found


def _order(edges: ProductEdges, reach: dict[int, int]) -> list[int]:
    """The order in which the x_i are eliminated: those with the fewest values between x_i and (M x)_i first."""
    used = _used(edges)
    on_paths = [reach[k] & used[k] for k in edges.nodes]
    counts = [sum(_bit(x, i) for x in on_paths) for i in edges.rows]
    return sorted(edges.rows, key=lambda i: (counts[i], -i))


def _operations_of_entries(edges: ProductEdges, reach: dict[int, int]) -> int:
    """The number of operations of the lower triangle of M, column by column by forward propagation."""
    used, total = _used(edges), 0
    for k in edges.nodes:
        wanted = reach[k] & ((1 << used[k].bit_length()) - 1)
        terms = 0
        for j, factor in edges.before.get(k, {}).items():
            columns = (reach[j] & wanted).bit_count()
            is_product = j not in edges.starts and abs(edges.graph.value(factor) or 0) != 1
            total += columns * is_product
            terms += columns
        total += terms - wanted.bit_count() if k not in edges.starts else 0
    return total


def elimination_order(zero: np.ndarray) -> list[int]:
    """The natural order 0, 1, …, n − 1 of the unknowns, or that of minimum degree if it takes fewer operations.

    **Arguments:** `zero`, `(n, n)`: whether an entry of the lower triangle is known to be zero. With a known zero on the
    diagonal the natural order is kept: in another order a pivot might be zero.
    """
    natural = list(range(len(zero)))
    if not np.any(np.tril(zero)) or np.any(np.diag(zero)):
        return natural
    return min(natural, _by_degree(zero), key=lambda order: solution_operations(zero, order))


def solution_operations(zero: np.ndarray, order: Sequence[int]) -> int:
    """The number of operations of LDLᵀ and of one solution with it, if the unknowns are eliminated in this order."""
    degrees = (len(rest) for _, rest in _elimination_steps(zero, order))
    return sum(d * (d + 1) + 5 * d + 2 for d in degrees)


def _by_degree(zero: np.ndarray) -> list[int]:
    return [i for i, _ in _elimination_steps(zero, None)]


def _elimination_steps(zero: np.ndarray, order: Sequence[int] | None):
    """Yields each unknown, in the order in which they are eliminated, with its neighbours at that moment.

    Two unknowns are neighbours while their entry is not zero. Without an `order` one with the fewest neighbours is next.
    """
    n = len(zero)
    related = ~np.tril(zero, -1) & np.tri(n, k=-1, dtype=bool)
    near = {i: {*np.flatnonzero(related[i] | related[:, i]).tolist()} for i in range(n)}
    for k in range(n):
        i = min(near, key=lambda j: (len(near[j]), j)) if order is None else order[k]
        rest = near.pop(i)
        for j in rest:
            near[j] = (near[j] | rest) - {i, j}
        yield i, rest


def lu_operations(zero: np.ndarray) -> int:
    """Counts the operations that factorise a matrix A as P A = L U with partial pivoting, if some entries are known zeros.

    At each step every row that may hold the pivot is exchanged with the diagonal's row, entry by entry, if it is larger. As
    this is decided only at run time, both rows count as having the non-zero entries of either.

    **Arguments:** `zero`: whether each entry of A is known to be zero, `(n, n)`.
    """
    filled, total = ~zero, 0
    for j in range(min(zero.shape)):
        candidates = [i for i in range(j + 1, len(filled)) if filled[i, j]]
        for i in candidates:
            filled[[j, i]] = filled[j] | filled[i]
            total += 5 + 2 * int(np.count_nonzero(filled[j]))
        right = int(np.count_nonzero(filled[j, j + 1 :]))
        total += len(candidates) * (1 + 2 * right)
        filled[candidates, j + 1 :] |= filled[j, j + 1 :]
    return total
