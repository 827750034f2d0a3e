"""The rules of the primitives: each acts on arrays whose entries are nodes of a `Graph`.

A primitive that only moves entries acts on the array of node numbers as on an array of values. An elementwise primitive
makes one node for each entry; sums and products are written out.
"""

from collections.abc import Callable
from functools import reduce

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, along
from jaxhamel._lanes._rules._indexing import INDEXING
from jaxhamel._lanes._rules._linear_algebra import LINEAR_ALGEBRA
from jaxhamel._lanes._rules._order import ORDER

# fmt: off
ELEMENTWISE = {
    "abs", "acos", "acosh", "add", "add_any", "and", "asin",
    "asinh", "atan", "atan2", "atanh", "bitcast_convert_type", "cbrt", "ceil", "clamp",
    "clz", "complex", "conj", "convert_element_type", "copy", "cos", "cosh", "digamma", "div", "eq",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor",
    "ge", "gt", "imag", "integer_pow", "is_finite", "le", "le_to", "lgamma", "log",
    "log1p", "log2", "logistic", "lt", "lt_to", "max", "min", "mul", "ne",
    "neg", "nextafter", "not", "one_minus_square", "or", "population_count", "pow", "real", "reduce_precision", "rem",
    "round", "rsqrt", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh",
    "xor",
}
# fmt: on


def elementwise(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
    out = equation.outvars[0].aval
    if equation.primitive.name == "bitcast_convert_type" and out.shape != operands[0].shape:
        raise Unsupported("bitcast_convert_type between widths")
    spread = [np.broadcast_to(x, out.shape).ravel().tolist() for x in operands]
    params = dict(equation.params)
    if equation.primitive.name == "convert_element_type":
        params = {"new_dtype": np.dtype(params["new_dtype"]), "weak_type": False, "sharding": None}
    nodes = [
        graph.apply(equation.primitive, each, out.dtype, params)
        for each in zip(*spread, strict=True)
    ]
    return [np.array(nodes, dtype=int).reshape(out.shape)]


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


MOVES: dict[str, Callable] = {
    "slice": _slice,
    "squeeze": lambda x, dimensions, **_: np.squeeze(x, axis=tuple(dimensions)),
    "tile": lambda x, reps: np.tile(x, reps),
    "expand_dims": lambda x, dimensions, **_: np.expand_dims(x, tuple(dimensions)),
    "reshape": lambda x, new_sizes, **_: x.reshape(new_sizes),
    "broadcast_in_dim": _broadcast_in_dim,
    "transpose": lambda x, permutation: np.transpose(x, permutation),
    "concatenate": lambda *xs, dimension: np.concatenate(xs, axis=dimension),
    "rev": lambda x, dimensions: np.flip(x, tuple(dimensions)),
    "pad": _pad,
    "stack": lambda *xs, axis, **_: np.stack(xs, axis=axis),
    "unstack": _unstack,
    "split": _split,
    "optimization_barrier": lambda *xs, **_: list(xs),
    "reshard": lambda x, **_: x,  # of `jax.vmap` inside `jax.shard_map`
}


def move(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
    moved = MOVES[equation.primitive.name](*operands, **equation.params)
    return list(moved) if isinstance(moved, list | tuple) else [moved]


# --- sums, products, the largest ------------------------------------------------------------------


def _chain(graph: Graph, primitive, rows: Nodes, dtype) -> Nodes:
    """Combines the rows of an array in order; gives one node for each column."""
    combine = lambda x, y: graph.apply(primitive, (x, y), dtype)  # noqa: E731
    return np.array([reduce(combine, column) for column in rows.T.tolist()], dtype=int)


def _reduction(primitive, of_nothing) -> Callable:
    def rule(graph: Graph, equation, x: Nodes) -> list[Nodes]:
        out, axes = equation.outvars[0].aval, tuple(equation.params["axes"])
        rows = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *out.shape)
        if len(rows) == 0:
            return [np.full(out.shape, graph.constant(np.asarray(of_nothing, out.dtype)))]
        nodes = _chain(graph, primitive, rows.reshape(len(rows), -1), out.dtype)
        return [nodes.reshape(out.shape)]

    return rule


def _cumulative(primitive) -> Callable:
    def rule(graph: Graph, equation, x: Nodes) -> list[Nodes]:
        axis, dtype = equation.params["axis"], equation.outvars[0].aval.dtype
        rows = list(np.moveaxis(x, axis, 0))
        rows = rows[::-1] if equation.params["reverse"] else rows
        for i in range(1, len(rows)):
            pair = np.stack([rows[i - 1].ravel(), rows[i].ravel()])
            rows[i] = _chain(graph, primitive, pair, dtype).reshape(rows[i].shape)
        rows = rows[::-1] if equation.params["reverse"] else rows
        return [
            np.moveaxis(
                np.array(rows, dtype=int).reshape((-1, *x.shape[:axis], *x.shape[axis + 1 :])),
                0,
                axis,
            )
        ]

    return rule


def dot_general(graph: Graph, equation, x: Nodes, y: Nodes) -> list[Nodes]:
    """The products Σ_k x_bmk y_bnk, without terms that are known to be zero."""
    (x_sum, y_sum), (x_batch, y_batch) = equation.params["dimension_numbers"]
    out = equation.outvars[0].aval
    if any(v.aval.dtype != out.dtype for v in equation.invars):
        raise Unsupported("dot_general of mixed precision")
    left, right = _matrices(x, x_batch, x_sum), _matrices(y, y_batch, y_sum)
    zero = graph.constant(np.zeros((), out.dtype))
    nodes = [
        _inner(graph, row, column, zero, out.dtype)
        for rows, columns in zip(left.tolist(), right.tolist(), strict=True)
        for row in rows
        for column in columns
    ]
    return [np.array(nodes, dtype=int).reshape(out.shape)]


def _matrices(x: Nodes, batch, summed) -> Nodes:
    free = [axis for axis in range(x.ndim) if axis not in (*batch, *summed)]
    length = lambda axes: int(np.prod([x.shape[axis] for axis in axes], dtype=int))  # noqa: E731
    ordered = np.transpose(x, (*batch, *free, *summed))
    return ordered.reshape(length(batch), length(free), length(summed))


def _inner(graph: Graph, row, column, zero, dtype) -> int:
    terms = (graph.apply(lax.mul_p, pair, dtype) for pair in zip(row, column, strict=True))
    return reduce(lambda x, y: graph.apply(lax.add_p, (x, y), dtype), terms, zero)


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


RULES: dict[str, Callable] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(MOVES, move),
    "reduce_sum": _reduction(lax.add_p, 0),
    "reduce_prod": _reduction(lax.mul_p, 1),
    "reduce_max": _reduction(lax.max_p, -np.inf),
    "reduce_min": _reduction(lax.min_p, np.inf),
    "reduce_and": _reduction(lax.and_p, True),
    "reduce_or": _reduction(lax.or_p, False),
    "cummax": _cumulative(lax.max_p),
    "cummin": _cumulative(lax.min_p),
    "cumsum": _cumulative(lax.add_p),
    "cumprod": _cumulative(lax.mul_p),
    "dot_general": dot_general,
    "iota": iota,
    "empty": empty,
    "empty2": empty,
    **INDEXING,
    **ORDER,
    **LINEAR_ALGEBRA,
}
