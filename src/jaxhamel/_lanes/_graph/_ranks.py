"""Orders operations entry by entry along the longest shared axis, for example mass by mass.

Most arrays of a program share one axis: the masses. A scalar's *entry* is its index along that axis; a scalar computed from
several entries, such as a partial sum, is ordered after the last of these entries. A value that was summed over all entries
and is then used for each of them begins a new *pass* through the entries.
"""

from collections import Counter
from collections.abc import Iterator

# Shorter axes belong to vectors, quaternions and matrices.
SHORTEST = 5

# (pass, entry)
Rank = tuple[int, int]

_FIRST: Rank = (0, -1)


def entries_axis(closed) -> int | None:
    """The length of the axis that most numbers of a jaxpr's arrays share; None if there is no long axis."""
    numbers: Counter = Counter()
    for shape in _result_shapes(closed.jaxpr):
        size = 1
        for n in shape:
            size *= n
        numbers.update({n: size for n in set(shape) if n >= SHORTEST})
    return max(numbers, key=lambda n: (numbers[n], n), default=None)


def _result_shapes(jaxpr) -> Iterator[tuple[int, ...]]:
    for equation in jaxpr.eqns:
        yield from (v.aval.shape for v in equation.outvars)
        for value in equation.params.values():
            called = getattr(value, "jaxpr", value)
            if hasattr(called, "eqns"):
                yield from _result_shapes(called)


def ranked(graph, nodes: list[int]) -> list[int]:
    """Sorts nodes by pass and entry; the result is again an order in which they can be computed."""
    ranks = _ranks(graph, nodes)
    return sorted(nodes, key=lambda i: (ranks[i], i))


def _ranks(graph, nodes: list[int]) -> dict[int, Rank]:
    ranks: dict[int, Rank] = {}
    for i in nodes:
        passes, at = max((ranks[j] for j in graph.nodes[i].operands if j in ranks), default=_FIRST)
        own = graph.entries.get(i, at)
        ranks[i] = (passes + (own < at), own)
    return _just_in_time(graph, nodes, ranks)


def _just_in_time(graph, nodes: list[int], ranks: dict[int, Rank]) -> dict[int, Rank]:
    """Moves nodes that depend on no entry to the first entry that uses them."""
    users: dict[int, Rank] = {}
    for i in reversed(nodes):
        if ranks[i] == _FIRST:
            ranks[i] = users.get(i, _FIRST)
        for j in graph.nodes[i].operands:
            users[j] = min(users.get(j, ranks[i]), ranks[i])
    return ranks
