"""The order of operations in which what belongs to one entry of long arrays stands together: mass by mass.

Of the arrays of a program many have an axis of the same length, that of its masses. A scalar that is part of such an array
has an entry, its place along this axis; what is made of such scalars, a sum of them so far, follows the last of these.
What was summed over all entries and is used for each of them again begins a new turn through them.
"""

from collections import Counter
from collections.abc import Iterator

# Shorter axes are vectors, quaternions, matrices.
SHORTEST = 5

# (turn, entry)
Rank = tuple[int, int]

_FIRST: Rank = (0, -1)


def entries_axis(closed) -> int | None:
    """How long the axis is that most numbers of a jaxpr's arrays lie along."""
    numbers: Counter = Counter()
    for shape in _shapes(closed.jaxpr):
        size = 1
        for n in shape:
            size *= n
        numbers.update({n: size for n in set(shape) if n >= SHORTEST})
    return max(numbers, key=lambda n: (numbers[n], n), default=None)


def _shapes(jaxpr) -> Iterator[tuple[int, ...]]:
    for equation in jaxpr.eqns:
        yield from (v.aval.shape for v in equation.outvars)
        for value in equation.params.values():
            called = getattr(value, "jaxpr", value)
            if hasattr(called, "eqns"):
                yield from _shapes(called)


def ranked(graph, nodes: list[int]) -> list[int]:
    """The nodes, given in an order in which they can be computed, in another such order."""
    ranks = _ranks(graph, nodes)
    return sorted(nodes, key=lambda i: (ranks[i], i))


def _ranks(graph, nodes: list[int]) -> dict[int, Rank]:
    ranks: dict[int, Rank] = {}
    for i in nodes:
        turn, at = max((ranks[j] for j in graph.nodes[i].operands if j in ranks), default=_FIRST)
        own = graph.entries.get(i, at)
        ranks[i] = (turn + (own < at), own)
    return _just_in_time(graph, nodes, ranks)


def _just_in_time(graph, nodes: list[int], ranks: dict[int, Rank]) -> dict[int, Rank]:
    """What needs no entry comes with the first that needs it."""
    users: dict[int, Rank] = {}
    for i in reversed(nodes):
        if ranks[i] == _FIRST:
            ranks[i] = users.get(i, _FIRST)
        for j in graph.nodes[i].operands:
            users[j] = min(users.get(j, ranks[i]), ranks[i])
    return ranks
