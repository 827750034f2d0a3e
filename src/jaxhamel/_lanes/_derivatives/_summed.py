"""Runs a program of scalars with some of its results summed over the lanes, by a product of matrices.

How the sums become rows and columns of this product: `_graph/_sums_of_products.py`.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._columns import array_of_entries, entries_of_array
from jaxhamel._lanes._graph._nodes import node_numbers
from jaxhamel._lanes._graph._sums_of_products import SumsOfProducts, sums_of_products
from jaxhamel._lanes._program import Program

# With fewer sums than this, a program has a vector for each of them.
FEWEST_SUMS = 32


def takes_sums(program: Program, summed: Sequence[bool]) -> bool:
    """Whether `run_with_sums` takes a program: one with many sums of one real dtype, and without operations on arrays."""
    nodes = node_numbers(_where(program.outputs, summed))
    kinds = {program.graph.nodes[i].dtype for i in nodes}
    varies = any(program.graph.nodes[i].batched for i in nodes)
    real = len(kinds) == 1 and all(jnp.issubdtype(kind, jnp.floating) for kind in kinds)
    return len(nodes) >= FEWEST_SUMS and real and varies and not program.graph.blocks


def run_with_sums(
    program: Program,
    summed: Sequence[bool],
    avals: Sequence[Any],
    batched: Sequence[bool],
    values: Sequence[Any],
    size: int,
) -> list[jax.Array]:
    """The results of a program: those marked in `summed` summed over the lanes, all others with a leading axis of lanes.

    **Arguments:** `avals`: shapes and dtypes of the results in one lane.
    """
    graph, own = program.graph, [not each for each in summed]
    ends = list(dict.fromkeys(node_numbers(_where(program.outputs, summed))))
    varying = [i for i in ends if graph.nodes[i].batched]
    alike = [i for i in ends if not graph.nodes[i].batched]
    found = sums_of_products(graph, varying)
    results = _where(program.outputs, own)
    wanted = [*results, *(np.array(x, int) for x in (found.rows, found.columns, alike))]
    part = Program(graph, program.inputs, wanted)
    *entries, rows, columns, scalars = part(*map(entries_of_array, batched, values))
    numbers = jnp.stack([jnp.asarray(x) * size for x in scalars]) if alike else jnp.zeros(0)
    numbers = jnp.concatenate([_sums(found, rows, columns), numbers.astype(rows[0].dtype)])
    place = {node: i for i, node in enumerate([*varying, *alike])}
    pairs = zip(entries, _where(avals, own), strict=True)
    arrays = iter([array_of_entries(each, aval, size) for each, aval in pairs])
    return [
        _array(numbers, [place[i] for i in node_numbers([nodes])], aval) if of_all else next(arrays)
        for nodes, of_all, aval in zip(program.outputs, summed, avals, strict=True)
    ]


def _where(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [x for x, flag in zip(values, flags, strict=True) if flag]


def _sums(found: SumsOfProducts, rows: list, columns: list) -> jax.Array:
    """The sums as one array, of entries of the product of rows and columns."""
    r = jnp.stack(rows)
    c = jnp.stack([jnp.ones_like(rows[0]), *columns])
    table = lax.dot_general(r, c, (((1,), (1,)), ((), ())), precision=lax.Precision.HIGHEST)
    most = max(map(len, found.sums))
    terms = np.array([[*each, *[(0, 0, 0)] * (most - len(each))] for each in found.sums])
    signs, row, column = np.moveaxis(terms, 2, 0)
    return jnp.sum(table[row, column] * signs.astype(r.dtype), axis=1)


def _array(numbers: jax.Array, places: list[int], aval: Any) -> jax.Array:
    """The array of the numbers at these places."""
    return numbers[np.array(places, int)].reshape(aval.shape).astype(aval.dtype)
