"""The rule for products of matrices: most of them become sums of products of scalars.

A product with many numbers that all lanes share, such as a dense layer of a neural network, is a block (`_blocks`): one
product of a matrix with the columns of all lanes. Timings: docs/performance.md#networks-in-lanes.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array

from jaxhamel._lanes._blocks import TooLarge, add_block
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported

# The fewest numbers, other than 0 and ±1, of a shared matrix whose product is a block.
LEAST_WEIGHTS = 120


def dot_general(graph: Graph, equation, x: Nodes, y: Nodes) -> list[Nodes]:
    """The products Σ_k x_bmk y_bnk; terms that are known to be zero are left out."""
    (x_sum, y_sum), (x_batch, y_batch) = equation.params["dimension_numbers"]
    out = equation.outvars[0].aval
    if any(v.aval.dtype != out.dtype for v in equation.invars):
        raise Unsupported("dot_general of mixed precision")
    left, right = _matrices(x, x_batch, x_sum), _matrices(y, y_batch, y_sum)
    for shared, own, axes in ((left, right, (0, 1, 2)), (right, left, (0, 2, 1))):
        if _is_large(graph, shared, own) and _stays(graph):
            return [np.transpose(_block(graph, shared, own, out.dtype), axes).reshape(out.shape)]
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


# --- products that stay operations on arrays ------------------------------------------------------


def _stays(graph: Graph) -> bool:
    """Records in the graph that it has a large product; returns whether such products become blocks in this graph."""
    graph.large_products = True
    return graph.products_stay


def _is_large(graph: Graph, shared: Nodes, own: Nodes) -> bool:
    """Whether `shared` has many numbers, all lane-independent inputs or constants, and most numbers of `own` vary."""
    if shared.size < LEAST_WEIGHTS:
        return False
    numbers = [graph.nodes[i] for i in shared.ravel().tolist()]
    if any(x.batched or x.primitive is not None for x in numbers):
        return False
    varying = sum(graph.nodes[i].batched for i in own.ravel().tolist())
    return 2 * varying > own.size and sum(map(_is_weight, numbers)) >= LEAST_WEIGHTS


def _is_weight(node: Any) -> bool:
    return node.value is None or node.value not in (0, 1, -1)


def _block(graph: Graph, shared: Nodes, own: Nodes, dtype) -> Nodes:
    """Adds Σ_k shared_bmk own_bnk as a block; returns its nodes, with axes b, m, n.

    **Raises:** `TooLarge` if the graph takes no blocks.
    """
    if not graph.takes_blocks:
        raise TooLarge("the primitive `dot_general` with many shared numbers")
    columns = np.swapaxes(own, 1, 2)
    shape = (shared.shape[0], shared.shape[1], own.shape[1])
    like = jax.ShapeDtypeStruct(shape, dtype)
    return add_block(graph, _products, [columns], [like], shared=[shared])[0]


def _products(operands: Sequence[Array], axes: Sequence[int | None], size: int) -> list[Array]:
    """Σ_k shared_bmk columns_bkn in all lanes; the result has the lanes as its last axis."""
    columns, shared = operands
    columns = jnp.moveaxis(columns, 0, -1) if axes[0] == 0 else columns
    batch, summed, free = columns.shape[:3]
    columns = columns.reshape(batch, summed, free * size)
    found = jnp.matmul(
        shared, columns, precision="highest"
    )  # as precise as the sums of products in lanes; by default a GPU multiplies with 10 bits
    return [found.reshape(batch, -1, free, size)]
