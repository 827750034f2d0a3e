"""The order in which a symmetric matrix with known zeros is eliminated.

Eliminating unknown i makes an entry for each pair of its neighbours, the unknowns with which it still has an entry. With the
fewest neighbours first (minimum degree: Tinney and Walker, Proceedings of the IEEE 55, 1967) a tree's matrix, whose entries
are those of links and their ancestors, is eliminated from the leaves to the root and keeps all its zeros.
"""

from collections.abc import Sequence

import numpy as np


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
