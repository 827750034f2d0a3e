"""Rules for primitives that move entries, and for sums, products, largest entries and constants.

A rule acts on arrays whose entries are nodes of a `Graph`. A primitive that only moves entries acts on the array of node
numbers as on an array of values; sums and products are written out.
"""

from collections.abc import Callable
from functools import partial, reduce

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, along
from jaxhamel._lanes._graph._primitive import Kind, Primitive, is_short_sum, is_small_product
from jaxhamel._lanes._rules._products import (
    MOST_SHARED_SUMS,
    dot_general,
    separate_sums,
    shared_sums,
)

# --- primitives that only move entries ------------------------------------------------------------


def _slice(x, start_indices, limit_indices, strides, **_):
    strides = strides or (1,) * x.ndim
    bounds = zip(start_indices, limit_indices, strides, strict=True)
    return x[tuple(slice(*each) for each in bounds)]


def _broadcast_in_dim(x, shape, broadcast_dimensions, **_):
    aligned = [1] * len(shape)
    for length, axis in zip(x.shape, broadcast_dimensions, strict=True):
        aligned[axis] = length
    return np.broadcast_to(x.reshape(aligned), shape)


def _pad(x, filling, padding_config):
    for axis, (low, high, inner) in enumerate(padding_config):
        length = max(x.shape[axis] + max(x.shape[axis] - 1, 0) * inner, 0)
        wide = np.full((*x.shape[:axis], length, *x.shape[axis + 1 :]), filling)
        wide[along(axis, slice(None, None, inner + 1))] = x
        edges = [(0, 0)] * x.ndim
        edges[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, edges, constant_values=filling)
        end = wide.shape[axis] + min(high, 0)
        x = wide[along(axis, slice(max(-low, 0), end))]
    return x


def _unstack(x, axis, **_):
    return [np.take(x, i, axis=axis) for i in range(x.shape[axis])]


def _split(x, sizes, axis):
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


def _move(function: Callable, **more) -> Primitive:
    """The record of a primitive for which `function` moves the entries of arrays."""

    def rule(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
        del graph
        results = function(*operands, **equation.params)
        return list(results) if isinstance(results, list | tuple) else [results]

    return Primitive(Kind.MOVE, rule, **{"cpu_kernel": True, **more})


MOVES: dict[str, Primitive] = {
    "slice": _move(_slice),
    "squeeze": _move(lambda x, dimensions, **_: np.squeeze(x, axis=tuple(dimensions))),
    "tile": _move(lambda x, reps: np.tile(x, reps), cpu_kernel=False),
    "expand_dims": _move(lambda x, dimensions, **_: np.expand_dims(x, tuple(dimensions))),
    "reshape": _move(lambda x, new_sizes, **_: x.reshape(new_sizes)),
    "broadcast_in_dim": _move(_broadcast_in_dim),
    "transpose": _move(lambda x, permutation: np.transpose(x, permutation)),
    "concatenate": _move(lambda *xs, dimension: np.concatenate(xs, axis=dimension)),
    "rev": _move(lambda x, dimensions: np.flip(x, tuple(dimensions))),
    "pad": _move(_pad),
    "stack": _move(lambda *xs, axis, **_: np.stack(xs, axis=axis)),
    "unstack": _move(_unstack),
    "split": _move(_split),
    "optimization_barrier": _move(lambda *xs, **_: list(xs)),
    "reshard": _move(lambda x, **_: x, cpu_kernel=False),  # from `jax.vmap` inside `jax.shard_map`
}


# --- sums, products, the largest ------------------------------------------------------------------


def _combined_in_order(graph: Graph, primitive, rows: Nodes, dtype) -> Nodes:
    """Combines the rows of an array in order by a binary primitive; returns one node for each column."""

    def combine(x, y):
        return graph.apply(primitive, (x, y), dtype)

    return np.array([reduce(combine, column) for column in rows.T.tolist()], dtype=int)


def _reduction(primitive, of_nothing) -> Callable:
    def rule(graph: Graph, equation, x: Nodes) -> list[Nodes]:
        out, axes = equation.outvars[0].aval, tuple(equation.params["axes"])
        rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *out.shape)
        if len(rows) == 0:
            return [np.full(out.shape, graph.constant(np.asarray(of_nothing, out.dtype)))]
        nodes = _combined_in_order(graph, primitive, rows.reshape(len(rows), -1), out.dtype)
        return [nodes.reshape(out.shape)]

    return rule


def _sum(graph: Graph, equation, x: Nodes) -> list[Nodes]:
    """The sums along axes; a sum that contains another one starts with it, as in a product with a constant matrix."""
    out, axes = equation.outvars[0].aval, tuple(equation.params["axes"])
    columns = np.moveaxis(x, axes, range(-len(axes), 0)).reshape(
        out.size, x.size // max(out.size, 1)
    )
    zero = graph.constant(np.zeros((), out.dtype))
    terms = [[(k, i) for k, i in enumerate(each) if i != zero] for each in columns.tolist()]
    sums = shared_sums if len(terms) <= MOST_SHARED_SUMS else separate_sums
    return [np.array(sums(graph, terms, zero, out.dtype), dtype=int).reshape(out.shape)]


def _cumulative(primitive) -> Callable:
    """The rule for cumulative sums, products and extremes: combines each row with the row before it."""

    def rule(graph: Graph, equation, x: Nodes) -> list[Nodes]:
        axis, dtype = equation.params["axis"], equation.outvars[0].aval.dtype
        rows = list(np.moveaxis(x, axis, 0))
        rows = rows[::-1] if equation.params["reverse"] else rows
        for i in range(1, len(rows)):
            pair = np.stack([rows[i - 1].ravel(), rows[i].ravel()])
            rows[i] = _combined_in_order(graph, primitive, pair, dtype).reshape(rows[i].shape)
        rows = rows[::-1] if equation.params["reverse"] else rows
        return [
            np.moveaxis(
                np.array(rows, dtype=int).reshape((-1, *x.shape[:axis], *x.shape[axis + 1 :])),
                0,
                axis,
            )
        ]

    return rule


# --- constants --------------------------------------------------------------------------------


def iota(graph: Graph, equation) -> list[Nodes]:
    params = equation.params
    shape, axis = params["shape"], params["dimension"]
    line = np.array(
        [graph.constant(np.asarray(i, params["dtype"])) for i in range(shape[axis])], dtype=int
    )
    return [_broadcast_in_dim(line, shape, (axis,))]


def empty(graph: Graph, equation) -> list[Nodes]:
    """Zeros for an uninitialised array, whose entries are never read (a derivative's branch that is not taken)."""
    aval = equation.outvars[0].aval
    return [np.full(aval.shape, graph.constant(np.zeros((), aval.dtype)))]


_of = partial(Primitive, Kind.SUM)
SUMS: dict[str, Primitive] = {
    "reduce_sum": _of(_sum, cpu_kernel=is_short_sum),
    "reduce_prod": _of(_reduction(lax.mul_p, 1), cpu_kernel=is_short_sum),
    "reduce_max": _of(_reduction(lax.max_p, -np.inf), cpu_kernel=is_short_sum),
    "reduce_min": _of(_reduction(lax.min_p, np.inf), cpu_kernel=is_short_sum),
    "reduce_and": _of(_reduction(lax.and_p, True), cpu_kernel=is_short_sum),
    "reduce_or": _of(_reduction(lax.or_p, False), cpu_kernel=is_short_sum),
    "cummax": _of(_cumulative(lax.max_p)),
    "cummin": _of(_cumulative(lax.min_p)),
    "cumsum": _of(_cumulative(lax.add_p)),
    "cumprod": _of(_cumulative(lax.mul_p)),
    "dot_general": _of(dot_general, cpu_kernel=is_small_product),
    "iota": _of(iota, cpu_kernel=True),
    "empty": _of(empty, cpu_kernel=True),
    "empty2": _of(empty, cpu_kernel=True),
}
