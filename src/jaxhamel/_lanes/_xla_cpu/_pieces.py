"""A long program as several loops over the lanes, each with what it needs of the numbers that all lanes share.

What one loop hands to the next is a vector for each value, written and read once. So a program is cut where few values are
needed on the other side; its operations may stand in the order in which they were written, or, of a sum over many masses,
mass by mass (`_ranks`), which needs no more than the sums so far and what all masses have in common. Numbers that all lanes
share are computed in every loop that needs them, ahead of the lanes (LLVM moves them there), instead of being handed on.

Rolling ball with twenty masses, a stage of RK4, 1,032 lanes: 1.2e6 trajectory-steps/s and 35 s of compiling when a step was
cut as it was written, 6.3e6 and 2.8 s so (rails in any planes; one run each, two cores). Vectors that its loops write and
read: 181 as it is written, 45 mass by mass; with forty masses 1,154 and 87.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from jaxhamel._lanes._graph._ranks import ranked
from jaxhamel._lanes._xla_cpu._parts import length


class Split(NamedTuple):
    """The nodes computed before the loop, those in it, what it needs from outside, what it gives; all that is wanted."""

    before: list[int]
    inside: list[int]
    given: list[int]
    results: list[int]
    ends: list[int]


# LLVM writes a function of more than some 3,000 of its operations, loads and stores included, not into the loop that calls
# it, and then there are no vectors: a step of the ball backward, 6,800 operations, took 480 µs where a loop for each stage
# takes some 250. Not less either: two loops with 27 values between them take 1.5 to 2 times as long as one. Rolling ball
# with 5, 10 and 20 masses, 1e6 trajectory-steps/s: 7.3, 3.4 and 0.45 with 2,800 here, 8.0, 6.1 and 1.2 with 3,300 (in one
# run; in another 0.87 and 2.2 with 20 masses, 1.1 with 3,500 and 0.5 with 3,800).
LONGEST = 3300
# A program of so many operations is one loop all the same: XLA makes one of 3,930, of 4,290 none (jaxlib 0.10.2; sums and
# products, and its own operations count what loads and stores are).
WHOLE = 3700
# A loop that reads and writes more vectors than this LLVM does not vectorise: with 124 read and as many written it does,
# with 126 not (jaxlib 0.10.2). The gradient of a ball with twenty masses had two such loops a stage, with 200 and 300 values
# between them: 2.0 ms a step and compiled in 31 s, now 1.5 ms and 19 s (1,024 lanes, one run each).
MOST_VECTORS, _SLOWER = 240, 4


def pieces(graph, parts: Split) -> list[Split]:
    """The program in parts that are not too long, cut where few values cross; of the last one asked for it is known."""
    if not parts.results:
        return []
    if graph.cut is None or graph.cut[0] != parts:
        graph.cut = (parts, _best_pieces(graph, parts))
    return graph.cut[1]


def _best_pieces(graph, parts: Split) -> list[Split]:
    whole = [parts] if total(graph, parts.inside) <= WHOLE else []
    if whole and not _too_many(graph, whole):
        return whole
    own = [i for i in parts.inside if graph.nodes[i].batched]
    found = [whole, _pieces(graph, parts, parts.inside, False)]
    found += [_pieces(graph, parts, order, True) for order in (own, ranked(graph, own))]
    return min(filter(None, found), key=lambda each: cost(graph, each))


# As many operations, about, as a vector that one loop hands to the next costs: rolling ball with twenty masses, a stage of
# RK4, 1,032 lanes, 1,256 operations and 186 vectors 51 ns, 1,486 operations and 90 vectors 35 ns. What all lanes share is
# computed once, but compiled: so many of such operations count as one.
_HANDED, _SHARED = 8, 16


def cost(graph, found: list[Split]) -> float:
    """Of a program in loops, by which one is chosen: operations, about."""
    own = sum(total(graph, [i for i in p.inside if graph.nodes[i].batched]) for p in found)
    shared = sum(total(graph, p.inside) for p in found) - own
    slower = _SLOWER if _too_many(graph, found) else 1
    return slower * own + shared / _SHARED + _HANDED * handed_over(graph, found)


def total(graph, nodes: list[int]) -> int:
    """How many operations the nodes are."""
    return sum(length(graph.nodes[i]) for i in nodes)


def handed_over(graph, found: list[Split]) -> int:
    """The vectors that the loops read and write: as many of either."""
    return sum(written for _, written in vectors(graph, found))


def _too_many(graph, found: list[Split]) -> bool:
    return any(sum(n) > MOST_VECTORS for n in vectors(graph, found))


def vectors(graph, found: list[Split]) -> list[tuple[int, int]]:
    """How many each loop reads and writes; it writes one for each that it reads."""
    results = {i for piece in found for i in piece.results}
    read = [sum(graph.nodes[i].batched or i in results for i in p.given) for p in found]
    return [(n, max(n, len(p.results))) for n, p in zip(read, found, strict=True)]


def _pieces(graph, parts: Split, order: list[int], shared_again: bool) -> list[Split]:
    """Of nodes in this order; what is not among them, as all lanes share it, is computed in each that needs it.

    Nothing where that would make even one operation too long.
    """
    needs = _needs(graph, parts.inside if shared_again else [])
    place, last = _uses(graph, order, parts.results)
    crossing, bounds = _crossing(place, last), [0]
    while bounds[-1] < len(order):
        first = bounds[-1]
        cost = np.array(_costs(graph, order[first:], needs))
        low, high = np.searchsorted(cost, [LONGEST // 2, LONGEST], side="right")
        if not high:
            return []
        few = _vectors_if_cut(graph, order[first : first + high], place, last) <= MOST_VECTORS
        bounds.append(first + _best_cut(crossing[first + 1 :], cost, few, low, high))
    return [_piece(graph, parts, order, needs, *each) for each in pairwise(bounds)]


def _needs(graph, inside: list[int]) -> dict[int, list[int]]:
    """Of what all lanes share, each node's operands that are computed in the loop."""
    shared = [i for i in inside if not graph.nodes[i].batched]
    known = set(shared)
    return {i: [j for j in graph.nodes[i].operands if j in known] for i in shared}


def _with_shared(graph, node: int, needs: dict[int, list[int]], known: set[int]) -> list[int]:
    """What all lanes share and the node needs, beyond what is known, in order; adds it to that."""
    found, waiting = [], [j for j in graph.nodes[node].operands if j in needs]
    while waiting:
        i = waiting.pop()
        if i not in known:
            known.add(i)
            found.append(i)
            waiting += needs[i]
    return sorted(found)


def _costs(graph, order: list[int], needs) -> list[int]:
    """Of the first nodes together, each with what it is the first to need, until they are too many."""
    known: set[int] = set()
    costs, cost = [], 0
    for i in order:
        cost += length(graph.nodes[i]) + total(graph, _with_shared(graph, i, needs, known))
        costs.append(cost)
        if cost > LONGEST:
            break
    return costs


def _best_cut(crossing, cost, few, low: int, high: int) -> int:
    """How many nodes a loop takes of the next `high`, not less than `low` unless it would have too many vectors."""
    low = min(low, high - 1)
    if few.any():
        low = min(low, int(np.flatnonzero(few)[-1]))
        crossing = np.where(few, crossing[:high], np.inf)
    if high == len(cost) and np.isfinite(crossing[high - 1]):
        return high
    return low + int(np.argmin(crossing[low:high] / cost[low:high])) + 1


def _uses(graph, order: list[int], results: list[int]) -> tuple[dict[int, int], dict[int, int]]:
    """Where each node is, and where it is used for the last time: a result after all others."""
    place = {i: n for n, i in enumerate(order)}
    last = {}
    for n, i in enumerate(order):
        last.update({j: n for j in graph.nodes[i].operands if j in place})
    return place, last | {i: len(order) for i in results if i in place}


def _crossing(place: dict[int, int], last: dict[int, int]) -> np.ndarray:
    """How many values are needed on the other side of a cut before the n-th node."""
    change = np.zeros(len(place) + 2, int)
    for i, n in last.items():
        change[place[i] + 1] += 1
        change[n + 1] -= 1
    return np.cumsum(change)


def _vectors_if_cut(graph, nodes: list[int], place, last) -> np.ndarray:
    """How many a loop from the first of these nodes on reads and writes, if it ends after each of them."""
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
