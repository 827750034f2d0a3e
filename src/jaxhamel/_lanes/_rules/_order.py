"""Rules for argmax, argmin and sorting, as comparisons and selections."""

from collections.abc import Callable

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, constant, each
from jaxhamel._lanes._graph._primitive import Kind, Primitive

# The most entries that are sorted: n entries take n²/2 comparisons.
MOST_SORTED = 16


def _where_extreme(beats) -> Callable:
    """A rule for argmax or argmin: the position of the first extreme entry; NaN counts as extreme."""

    def rule(graph: Graph, equation, x: Nodes) -> list[Nodes]:
        (axis,), kind = equation.params["axes"], np.dtype(equation.params["index_dtype"])
        dtype, rows = equation.invars[0].aval.dtype, np.moveaxis(x, axis, 0)
        best, where = rows[0], np.full(rows.shape[1:], constant(graph, 0, kind))
        for i, row in enumerate(rows[1:], start=1):
            better = each(graph, beats, bool, row, best)
            if np.issubdtype(dtype, np.inexact):
                better = each(graph, lax.or_p, bool, better, _is_nan(graph, row))
                is_number = each(graph, lax.eq_p, bool, best, best)
                better = each(graph, lax.and_p, bool, better, is_number)
            best = each(graph, lax.select_n_p, dtype, better, best, row)
            where = each(graph, lax.select_n_p, kind, better, where, constant(graph, i, kind))
        return [where]

    return rule


def _is_nan(graph: Graph, x: Nodes) -> Nodes:
    return each(graph, lax.ne_p, bool, x, x)


def sort(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
    """Bubble sort: exchanges neighbours that are in the wrong order. Stable, NaN last."""
    axis, keys = equation.params["dimension"], equation.params["num_keys"]
    length = operands[0].shape[axis]
    if length > MOST_SORTED:
        raise Unsupported(f"the primitive `sort` of more than {MOST_SORTED} entries")
    dtypes = [v.aval.dtype for v in equation.invars]
    rows = [list(np.moveaxis(x, axis, 0)) for x in operands]
    for end in range(length - 1, 0, -1):
        for i in range(end):
            pairs = [(column[i], column[i + 1]) for column in rows]
            swap = _out_of_order(graph, pairs[:keys], dtypes)
            for column, dtype, (x, y) in zip(rows, dtypes, pairs, strict=True):
                column[i] = each(graph, lax.select_n_p, dtype, swap, x, y)
                column[i + 1] = each(graph, lax.select_n_p, dtype, swap, y, x)
    return [
        np.moveaxis(np.array(column, dtype=int).reshape(np.moveaxis(x, axis, 0).shape), 0, axis)
        for column, x in zip(rows, operands, strict=True)
    ]


def _out_of_order(graph: Graph, pairs, dtypes) -> Nodes:
    """Whether y belongs before x, by the first key in which they differ; `pairs`: x and y of each key."""
    found = np.full(pairs[0][0].shape, graph.constant(False))
    equal = np.full_like(found, graph.constant(True))
    for (x, y), dtype in zip(pairs, dtypes, strict=False):
        before, tied = each(graph, lax.lt_p, bool, y, x), each(graph, lax.eq_p, bool, x, y)
        if np.issubdtype(dtype, np.inexact):
            x_nan, y_nan = _is_nan(graph, x), _is_nan(graph, y)
            number = each(graph, lax.eq_p, bool, y, y)
            before = each(
                graph, lax.or_p, bool, before, each(graph, lax.and_p, bool, x_nan, number)
            )
            tied = each(graph, lax.or_p, bool, tied, each(graph, lax.and_p, bool, x_nan, y_nan))
        found = each(graph, lax.or_p, bool, found, each(graph, lax.and_p, bool, equal, before))
        equal = each(graph, lax.and_p, bool, equal, tied)
    return found


ORDER: dict[str, Primitive] = {
    "argmax": Primitive(Kind.ORDER, _where_extreme(lax.gt_p)),
    "argmin": Primitive(Kind.ORDER, _where_extreme(lax.lt_p)),
    "sort": Primitive(Kind.ORDER, sort),
}
