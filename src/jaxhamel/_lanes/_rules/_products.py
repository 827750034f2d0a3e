"""The rule for products of matrices, which become sums of products of scalars."""

from collections.abc import Iterable
from functools import reduce

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported

# Sums along an axis of more than this number of columns are not compared with one another.
MOST_SHARED_SUMS = 200


def dot_general(graph: Graph, equation, x: Nodes, y: Nodes) -> list[Nodes]:
    """The products Σ_k x_bmk y_bnk; terms that are known to be zero are left out."""
    (x_sum, y_sum), (x_batch, y_batch) = equation.params["dimension_numbers"]
    out = equation.outvars[0].aval
    if any(v.aval.dtype != out.dtype for v in equation.invars):
        raise Unsupported("dot_general of mixed precision")
    left, right = _matrices(x, x_batch, x_sum), _matrices(y, y_batch, y_sum)
    zero = graph.constant(np.zeros((), out.dtype))
    kept, wanted = _kept(graph, left, right)
    if not _is_constant(graph, left) and _is_constant(graph, right):
        sums = _sums(graph, right, left, wanted, kept, zero, out.dtype).transpose(0, 2, 1)
    else:
        sums = _sums(graph, left, right, kept, wanted, zero, out.dtype)
    return [sums.reshape(out.shape)]


def _is_constant(graph: Graph, nodes: Nodes) -> bool:
    return all(graph.value(i) is not None for i in nodes.ravel().tolist())


def _sums(graph: Graph, left: Nodes, right: Nodes, kept, wanted, zero: int, dtype) -> Nodes:
    """The sums of all rows of `left` times each row of `right`; those of the same row of `right` share their parts."""
    found = np.empty((len(left), left.shape[1], right.shape[1]), int)
    for k, j in np.ndindex(len(left), right.shape[1]):
        rows = [
            _terms(graph, left[k, i], right[k, j], kept[k, i] & wanted[k, j], dtype)
            for i in range(left.shape[1])
        ]
        found[k, :, j] = shared_sums(graph, rows, zero, dtype)
    return found


def shared_sums(graph: Graph, rows: list[list[tuple[int, int]]], zero: int, dtype) -> list[int]:
    """The nodes of the sums of all rows, in which a sum that contains another one starts with it.

    So the matrix of a chain or a tree, whose rows are nested, takes as many sums as its bodies, in both directions.

    **Arguments:** `rows`: the terms of each sum, as pairs of the term's position and its node.
    """
    if len({term for row in rows for term in row}) == sum(map(len, rows)):
        return separate_sums(graph, rows, zero, dtype)
    done: dict[frozenset[tuple[int, int]], int] = {}
    for row in sorted(map(frozenset, rows), key=len):
        start, rest = zero, row
        for known in sorted(done, key=len, reverse=True):
            if len(known) > 1 and known <= rest:
                start, rest = graph.apply(lax.add_p, (start, done[known]), dtype), rest - known
        done[row] = _total(graph, start, sorted(rest), dtype)
    return [done[frozenset(row)] for row in rows]


def separate_sums(graph: Graph, rows: list[list[tuple[int, int]]], zero: int, dtype) -> list[int]:
    """The nodes of the sums of all rows, each in the order of its terms; arguments as for `shared_sums`."""
    return [_total(graph, zero, row, dtype) for row in rows]


def _total(graph: Graph, start: int, terms: Iterable[tuple[int, int]], dtype) -> int:
    return reduce(lambda x, term: graph.apply(lax.add_p, (x, term[1]), dtype), terms, start)


def _kept(graph: Graph, *matrices: Nodes) -> list[np.ndarray]:
    """For each matrix a mask of the entries that are not known to be zero.

    If a known number is infinite or NaN, all entries are kept, since 0·∞ is NaN.
    """
    numbers = [[graph.numbers.get(i) for i in x.ravel().tolist()] for x in matrices]
    known = [x for each in numbers for x in each if x is not None]
    finite = bool(np.all(np.isfinite(known)))
    pairs = zip(numbers, matrices, strict=True)
    return [
        np.array([not finite or x is None or x != 0 for x in xs], bool).reshape(m.shape)
        for xs, m in pairs
    ]


def _matrices(x: Nodes, batch, summed) -> Nodes:
    free = [axis for axis in range(x.ndim) if axis not in (*batch, *summed)]

    def length(axes):
        return int(np.prod([x.shape[axis] for axis in axes], dtype=int))

    ordered = np.transpose(x, (*batch, *free, *summed))
    return ordered.reshape(length(batch), length(free), length(summed))


def _terms(
    graph: Graph, row: Nodes, column: Nodes, kept: np.ndarray, dtype
) -> list[tuple[int, int]]:
    """The products of the `kept` entries of a row and a column, each with its position."""
    places = np.flatnonzero(kept).tolist()
    pairs = zip(row[kept].tolist(), column[kept].tolist(), strict=True)
    nodes = [graph.apply(lax.mul_p, pair, dtype) for pair in pairs]
    return list(zip(places, nodes, strict=True))
