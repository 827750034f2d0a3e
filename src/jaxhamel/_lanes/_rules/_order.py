"""Rules for argmax, argmin and sorting, as comparisons and selections."""

from collections.abc import Callable, Iterator

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, constant, each
from jaxhamel._lanes._graph._primitive import Kind, Primitive

# The most entries that are sorted; 64 take 543 comparisons. Each derivative of sorted numbers reads them in their new order,
# which takes n² selections; integers, such as the order of rows in a factorisation, have none.
MOST_SORTED, MOST_INTEGERS_SORTED = 16, 64


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
    """Exchanges pairs that are in the wrong order, by a network that sorts any input. Stable, NaN last.

    The last key is the position, since the network may exchange equal entries.
    """
    axis, keys = equation.params["dimension"], equation.params["num_keys"]
    length, dtypes = operands[0].shape[axis], [v.aval.dtype for v in equation.invars]
    integers = all(np.issubdtype(dtype, np.integer) for dtype in dtypes)
    most = MOST_INTEGERS_SORTED if integers else MOST_SORTED
    if length > most:
        raise Unsupported(f"the primitive `sort` of more than {most} entries")
    places = np.array([graph.constant(np.int32(i)) for i in range(length)])
    rows = [np.moveaxis(x, axis, 0) for x in operands]
    places = np.broadcast_to(places.reshape(-1, *[1] * (rows[0].ndim - 1)), rows[0].shape)
    columns = [list(x) for x in (*rows[:keys], places, *rows[keys:])]
    dtypes.insert(keys, np.dtype(np.int32))
    for i, j in _exchanges(length):
        pairs = [(column[i], column[j]) for column in columns]
        swap = _out_of_order(graph, pairs[: keys + 1], dtypes)
        for column, dtype, (x, y) in zip(columns, dtypes, pairs, strict=True):
            column[i] = each(graph, lax.select_n_p, dtype, swap, x, y)
            column[j] = each(graph, lax.select_n_p, dtype, swap, y, x)
    del columns[keys]
    return [
        np.moveaxis(np.array(column, dtype=int).reshape(x.shape), 0, axis)
        for column, x in zip(columns, rows, strict=True)
    ]


def _exchanges(length: int) -> Iterator[tuple[int, int]]:
    """The pairs of positions that Batcher's sorting network compares, in its order.

    Source: Knuth, The Art of Computer Programming 3, section 5.2.2, algorithm M.
    """
    first = 1 << max(length - 1, 1).bit_length() - 1
    width = first
    while width:
        step, rest, apart = first, 0, width
        while True:
            yield from ((i, i + apart) for i in range(length - apart) if i & width == rest)
            if step == width:
                break
            apart, step, rest = step - width, step // 2, width
        width //= 2


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
