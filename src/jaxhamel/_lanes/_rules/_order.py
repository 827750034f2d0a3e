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
    """The rule for `lax.sort`: a stable sort, with NaN last."""
    axis, keys = equation.params["dimension"], equation.params["num_keys"]
    rows = [np.moveaxis(x, axis, 0) for x in operands]
    found = _sorted(graph, rows, [v.aval.dtype for v in equation.invars], keys, "sort")
    return [np.moveaxis(x, 0, axis) for x in found]


def top_k(graph: Graph, equation, x: Nodes) -> list[Nodes]:
    """The rule for `lax.top_k`: the k largest entries along an axis and their positions.

    NaN counts as the largest number, and of equal entries the first one comes first.

    The entries are sorted from the last one to the first, and the result is read backward.
    """
    axis, k = equation.params["axis"], equation.params["k"]
    rows, kind = np.moveaxis(x, axis, 0)[::-1], equation.outvars[1].aval.dtype
    found = _sorted(
        graph,
        [rows, _places(graph, rows, kind)[::-1]],
        [equation.invars[0].aval.dtype, kind],
        1,
        "top_k",
    )
    return [np.moveaxis(y[::-1][:k], 0, axis) for y in found]


def _sorted(graph: Graph, rows: list[Nodes], dtypes: list, keys: int, name: str) -> list[Nodes]:
    """Sorts several arrays of one shape along their first axis, by the values of the first `keys` of them.

    A network that sorts any input exchanges pairs that are in the wrong order. The last key is the position, since the
    network may exchange equal entries.
    """
    length = len(rows[0])
    integers = all(np.issubdtype(dtype, np.integer) for dtype in dtypes)
    most = MOST_INTEGERS_SORTED if integers else MOST_SORTED
    if length > most:
        raise Unsupported(f"the primitive `{name}` of more than {most} entries")
    dtypes = [*dtypes[:keys], np.dtype(np.int32), *dtypes[keys:]]
    places = _places(graph, rows[0], np.dtype(np.int32))
    columns = [list(x) for x in (*rows[:keys], places, *rows[keys:])]
    for i, j in _exchanges(length):
        pairs = [(column[i], column[j]) for column in columns]
        swap = _out_of_order(graph, pairs[: keys + 1], dtypes)
        for column, dtype, (x, y) in zip(columns, dtypes, pairs, strict=True):
            column[i] = each(graph, lax.select_n_p, dtype, swap, x, y)
            column[j] = each(graph, lax.select_n_p, dtype, swap, y, x)
    del columns[keys]
    return [np.array(column, dtype=int).reshape(rows[0].shape) for column in columns]


def _places(graph: Graph, rows: Nodes, dtype) -> Nodes:
    """The index of each entry along the first axis of `rows`, as constants of the shape of `rows`."""
    places = np.array([constant(graph, i, dtype) for i in range(len(rows))])
    return np.broadcast_to(places.reshape(-1, *[1] * (rows.ndim - 1)), rows.shape)


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
    "top_k": Primitive(Kind.ORDER, top_k),
}
