"""The rule for products of matrices, which become sums of products of scalars."""

from functools import reduce

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported


def dot_general(graph: Graph, equation, x: Nodes, y: Nodes) -> list[Nodes]:
    """The products Σ_k x_bmk y_bnk; terms that are known to be zero are left out."""
    (x_sum, y_sum), (x_batch, y_batch) = equation.params["dimension_numbers"]
    out = equation.outvars[0].aval
    if any(v.aval.dtype != out.dtype for v in equation.invars):
        raise Unsupported("dot_general of mixed precision")
    left, right = _matrices(x, x_batch, x_sum), _matrices(y, y_batch, y_sum)
    zero = graph.constant(np.zeros((), out.dtype))
    kept, wanted = _kept(graph, left, right)
    nodes = [
        _inner(graph, left[k, i, terms], right[k, j, terms], zero, out.dtype)
        for k, i, j in np.ndindex(len(left), left.shape[1], right.shape[1])
        for terms in [np.flatnonzero(kept[k, i] & wanted[k, j])]
    ]
    return [np.array(nodes, dtype=int).reshape(out.shape)]


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


def _inner(graph: Graph, row: Nodes, column: Nodes, zero: int, dtype) -> int:
    pairs = zip(row.tolist(), column.tolist(), strict=True)
    terms = (graph.apply(lax.mul_p, pair, dtype) for pair in pairs)
    return reduce(lambda x, y: graph.apply(lax.add_p, (x, y), dtype), terms, zero)
