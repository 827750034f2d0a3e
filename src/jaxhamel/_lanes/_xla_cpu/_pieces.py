"""Splits a long program into several loops over the lanes.

Each value that one loop passes to the next is a vector in memory, written and read once. So a program is cut where few
values cross. Its operations stay in the order in which they were traced, or go mass by mass (`_ranks`), an order in which
only the partial sums and the values common to all masses cross. Lane-independent values are not passed on: every loop
that reads them computes them, and LLVM hoists them out of the loop. Timings: docs/performance.md#pieces.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jaxhamel._lanes._graph._ranks import ranked
from jaxhamel._lanes._xla_cpu._parts import length


class Split(NamedTuple):
    """The nodes of the prologue and of the loop, the loop's inputs and results, and the results of the whole program."""

    before: list[int]
    inside: list[int]
    given: list[int]
    results: list[int]
    ends: list[int]


# The most operations of a piece. LLVM does not inline a function of more than some 3,000 of its operations (loads and
# stores included) into the loop that calls it, and then does not vectorise; shorter pieces pass on more values than they
# save (docs/performance.md#pieces).
LONGEST_PIECE = 3300
# A program of up to this many operations is not cut: XLA makes one loop of 3,930 operations, none of 4,290 (jaxlib 0.10.2).
LONGEST_PROGRAM = 3700
# LLVM does not vectorise a loop that reads and writes more vectors than this: it does with 124 read and 124 written, not
# with 126 each (jaxlib 0.10.2). Such a loop takes about 4 times as long.
MOST_VECTORS, _SLOWER = 240, 4


def pieces(graph, parts: Split) -> list[Split]:
    """Splits the program into loops short enough for LLVM, cut where few values cross. The graph caches the last result."""
    if not parts.results:
        return []
    if graph.cut is None or graph.cut[0] != parts:
        graph.cut = (parts, _best_pieces(graph, parts))
    return graph.cut[1]


def _best_pieces(graph, parts: Split) -> list[Split]:
    whole = [parts] if total(graph, parts.inside) <= LONGEST_PROGRAM else []
    if whole and not _too_many(graph, whole):
        return whole
    own = [i for i in parts.inside if graph.nodes[i].batched]
    found = [whole, _pieces(graph, parts, parts.inside, False)]
    found += [_pieces(graph, parts, order, True) for order in (own, ranked(graph, own))]
    return min(filter(None, found), key=lambda each: cost(graph, each))


# Cost model, in operations: a vector passed from one loop to the next costs 8; 16 lane-independent operations, which run
# once but have to be compiled, cost 1 (measured: docs/performance.md#pieces).
_HANDED, _SHARED = 8, 16


def cost(graph, found: list[Split]) -> float:
    """The cost of a program in loops, in operations; the cheapest split is chosen."""
    own = sum(total(graph, [i for i in p.inside if graph.nodes[i].batched]) for p in found)
    shared = sum(total(graph, p.inside) for p in found) - own
    slower = _SLOWER if _too_many(graph, found) else 1
    return slower * own + shared / _SHARED + _HANDED * vectors_written(graph, found)


def total(graph, nodes: list[int]) -> int:
    """The number of processor operations of the nodes."""
    return sum(length(graph.nodes[i]) for i in nodes)


def vectors_written(graph, found: list[Split]) -> int:
    """The number of vectors that all loops write."""
    return sum(written for _, written in vectors(graph, found))


def _too_many(graph, found: list[Split]) -> bool:
    return any(sum(n) > MOST_VECTORS for n in vectors(graph, found))


def vectors(graph, found: list[Split]) -> list[tuple[int, int]]:
    """(vectors read, vectors written) of each loop; XLA's loop writes at least as many vectors as it reads."""
    results = {i for piece in found for i in piece.results}
    read = [sum(graph.nodes[i].batched or i in results for i in p.given) for p in found]
    return [(n, max(n, len(p.results))) for n, p in zip(read, found, strict=True)]


def _pieces(graph, parts: Split, order: list[int], shared_again: bool) -> list[Split]:
    """Cuts the nodes in this order. Lane-independent nodes that are not in it are computed in each piece that reads them.

    Returns an empty list if a single node with its lane-independent dependencies is too long for a piece.
    """
    needs = _needs(graph, parts.inside if shared_again else [])
    place, last = _uses(graph, order, parts.results)
    crossing, bounds = _crossing(place, last), [0]
    while bounds[-1] < len(order):
        first = bounds[-1]
        cost = np.array(_costs(graph, order[first:], needs))
        low, high = np.searchsorted(cost, [LONGEST_PIECE // 2, LONGEST_PIECE], side="right")
        if not high:
            return []
        few = _vectors_if_cut(graph, order[first : first + high], place, last) <= MOST_VECTORS
        bounds.append(first + _best_cut(crossing[first + 1 :], cost, few, low, high))
    return [_piece(graph, parts, order, needs, *each) for each in pairwise(bounds)]


def _needs(graph, inside: list[int]) -> dict[int, list[int]]:
    """For each lane-independent node of `inside`, its operands that are lane-independent nodes of `inside` as well."""
    shared = [i for i in inside if not graph.nodes[i].batched]
    known = set(shared)
    return {i: [j for j in graph.nodes[i].operands if j in known] for i in shared}


def _with_shared(graph, node: int, needs: dict[int, list[int]], known: set[int]) -> list[int]:
    """The lane-independent dependencies of a node that are not in `known`, in order; adds them to `known`."""
    found, waiting = [], [j for j in graph.nodes[node].operands if j in needs]
    while waiting:
        i = waiting.pop()
        if i not in known:
            known.add(i)
            found.append(i)
            waiting += needs[i]
    return sorted(found)


def _costs(graph, order: list[int], needs) -> list[int]:
    """The costs of the first 1, 2, 3, … nodes with their lane-independent dependencies, up to the first above the limit."""
    known: set[int] = set()
    costs, cost = [], 0
    for i in order:
        cost += length(graph.nodes[i]) + total(graph, _with_shared(graph, i, needs, known))
        costs.append(cost)
        if cost > LONGEST_PIECE:
            break
    return costs


def _best_cut(crossing, cost, few, low: int, high: int) -> int:
    """The number of nodes in the next loop: above `low`, unless that takes too many vectors, and at most `high`."""
    low = min(low, high - 1)
    if few.any():
        low = min(low, int(np.flatnonzero(few)[-1]))
        crossing = np.where(few, crossing[:high], np.inf)
    if high == len(cost) and np.isfinite(crossing[high - 1]):
        return high
    return low + int(np.argmin(crossing[low:high] / cost[low:high])) + 1


def _uses(graph, order: list[int], results: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """The position of each node and of its last use; a result is used after all others."""
    place = {i: n for n, i in enumerate(order)}
    last = {}
    for n, i in enumerate(order):
        last.update({j: n for j in graph.nodes[i].operands if j in place})
    return place, last | {i: len(order) for i in results if i in place}


def _crossing(place: dict[int, int], last: dict[int, int]) -> np.ndarray:
    """For each n, the number of values that cross a cut before the n-th node."""
    change = np.zeros(len(place) + 2, int)
    for i, n in last.items():
        change[place[i] + 1] += 1
        change[n + 1] -= 1
    return np.cumsum(change)


def _vectors_if_cut(graph, nodes: list[int], place, last) -> np.ndarray:
    """The number of vectors that a loop over the first 1, 2, 3, … of these nodes reads and writes."""
    first, read, found = place[nodes[0]], set(), []
    ends = np.zeros(len(nodes) + 1, int)
    for n, i in enumerate(nodes):
        for j in graph.nodes[i].operands:
            if place.get(j, -1) < first and (graph.nodes[j].batched or j in place):
                read.add(j)
        until = min(last.get(i, place[i]) - first, len(nodes))
        ends[n] += 1
        ends[until] -= 1
        found.append(len(read))
    written = np.cumsum(ends[:-1])
    return np.array(found) + np.maximum(found, written)


def _piece(graph, parts: Split, order: list[int], needs, first: int, last: int) -> Split:
    known: set[int] = set()
    inside = [j for i in order[first:last] for j in (*_with_shared(graph, i, needs, known), i)]
    used = {j for i in inside for j in graph.nodes[i].operands} - set(inside)
    wanted = {j for i in order[last:] for j in graph.nodes[i].operands} | set(parts.results)
    given = sorted(j for j in used if graph.nodes[j].value is None)
    return Split([], inside, given, [i for i in order[first:last] if i in wanted], [])
