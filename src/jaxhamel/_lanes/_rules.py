"""How each primitive acts on arrays whose entries are nodes of a `Graph`.

Primitives that only move entries act on the array of node numbers as they would on the values. Elementwise ones make one
node for each entry; sums and products are written out.
"""

from collections.abc import Callable
from functools import reduce

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Int

from jaxhamel._lanes._graph import Graph

Nodes = Int[np.ndarray, "..."]


class Unsupported(Exception):
    """A primitive, or a use of one, that has no rule; the message names it."""


# fmt: off
ELEMENTWISE = {
    "abs", "acos", "acosh", "add", "add_any", "and", "asin",
    "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "clamp",
    "convert_element_type", "copy", "cos", "cosh", "digamma", "div", "eq",
    "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor",
    "ge", "gt", "integer_pow", "is_finite", "le", "lgamma", "log",
    "log1p", "logistic", "lt", "max", "min", "mul", "ne",
    "neg", "nextafter", "not", "or", "pow", "rem", "round",
    "rsqrt", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh",
    "xor",
}
# fmt: on


def elementwise(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
    out = equation.outvars[0].aval
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
        wide[_along(axis, slice(None, None, inner + 1))] = x
        edges = [(0, 0)] * x.ndim
        edges[axis] = (max(low, 0), max(high, 0))
        wide = np.pad(wide, edges, constant_values=filling)
        end = wide.shape[axis] + min(high, 0)
        x = wide[_along(axis, slice(max(-low, 0), end))]
    return x


def _along(axis, index):
    return (slice(None),) * axis + (index,)


def _unstack(x, axis, **_):
    return [np.take(x, i, axis=axis) for i in range(x.shape[axis])]


def _split(x, sizes, axis):
    return np.split(x, np.cumsum(sizes)[:-1], axis=axis)


MOVES: dict[str, Callable] = {
    "slice": _slice,
    "squeeze": lambda x, dimensions, **_: np.squeeze(x, axis=tuple(dimensions)),
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
    """One node for each column of (many, entries), its rows combined in order."""
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
    """Σ_k x_bmk y_bnk, the terms that are zero left out."""
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


# --- constants and indices ------------------------------------------------------------------------


def iota(graph: Graph, equation) -> list[Nodes]:
    params = equation.params
    shape, axis = params["shape"], params["dimension"]
    line = np.array(
        [graph.constant(np.asarray(i, params["dtype"])) for i in range(shape[axis])], dtype=int
    )
    return [_broadcast_in_dim(line, shape, (axis,))]


def _known(graph: Graph, nodes: Nodes, equation, what="an index that is computed"):
    """The values of an array of constants."""
    values = [graph.value(node) for node in nodes.ravel().tolist()]
    if any(value is None for value in values):
        raise Unsupported(f"{equation.primitive.name} with {what}")
    return np.array(values).reshape(nodes.shape)


class _Pick:
    """x_i of (i, x_0, x_1, …), i in range: one entry of a table, at an index that is data."""

    name = "pick"

    @staticmethod
    def bind(index, *table):
        shape = jnp.broadcast_shapes(*map(np.shape, table), np.shape(index))
        column = jnp.stack([jnp.broadcast_to(jnp.asarray(x), shape) for x in table])
        if np.ndim(index) == 0:
            return lax.dynamic_index_in_dim(column, index, keepdims=False)
        return jnp.take_along_axis(column, index[None], axis=0, mode="promise_in_bounds")[0]


def dynamic_slice(graph: Graph, equation, x: Nodes, *starts: Nodes) -> list[Nodes]:
    """A window whose place is data: each of its entries is picked from all that may stand there."""
    for axis, start in enumerate(starts):
        size = equation.params["slice_sizes"][axis]
        if size < x.shape[axis]:
            x = _window(graph, x, axis, size, int(start), equation.outvars[0].aval.dtype)
    return [x]


def _inside(graph: Graph, start: int, last: int) -> int:
    """As JAX does: the window stays inside."""
    kind = graph.nodes[start].dtype
    start = graph.apply(lax.max_p, (start, graph.constant(np.asarray(0, kind))), kind)
    return graph.apply(lax.min_p, (start, graph.constant(np.asarray(last, kind))), kind)


def _window(graph: Graph, x: Nodes, axis: int, size: int, start: int, dtype) -> Nodes:
    last = x.shape[axis] - size
    start = _inside(graph, start, last)
    windows = np.stack([x[_along(axis, slice(i, i + size))] for i in range(last + 1)])
    table = windows.reshape(last + 1, -1).T.tolist()
    known = graph.value(start)
    if known is not None:
        return windows[int(known)]
    nodes = [graph.apply(_Pick, (start, *column), dtype, {}) for column in table]
    return np.array(nodes, dtype=int).reshape(windows.shape[1:])


def dynamic_update_slice(
    graph: Graph, equation, x: Nodes, update: Nodes, *starts: Nodes
) -> list[Nodes]:
    """x with a window replaced whose place is data: each entry by comparing the place with those that concern it."""
    dtype, here = equation.outvars[0].aval.dtype, np.full(update.shape, graph.constant(True))
    for axis, start in enumerate(starts):
        if update.shape[axis] < x.shape[axis]:
            start = _inside(graph, int(start), x.shape[axis] - update.shape[axis])
            update, here = _placed(graph, update, here, axis, x.shape[axis], start, dtype)
    chosen = zip(here.ravel().tolist(), x.ravel().tolist(), update.ravel().tolist(), strict=True)
    nodes = [graph.apply(lax.select_n_p, each, dtype) for each in chosen]
    return [np.array(nodes, dtype=int).reshape(x.shape)]


def _placed(graph: Graph, update: Nodes, here: Nodes, axis, length, start: int, dtype):
    """A window spread over an axis, and where it is: entry j has its row m where it starts at j − m."""
    size, kind = update.shape[axis], graph.nodes[start].dtype
    starts_at = lambda i: graph.apply(  # noqa: E731
        lax.eq_p, (start, graph.constant(np.asarray(i, kind))), bool
    )
    values, masks = [], []
    for j in range(length):
        value, mask = (
            np.take(update, 0, axis),
            np.full_like(np.take(here, 0, axis), graph.constant(False)),
        )
        for m in range(max(0, j - (length - size)), min(size, j + 1)):
            at = np.full_like(mask, starts_at(j - m))
            value = _each(graph, lax.select_n_p, dtype, at, value, np.take(update, m, axis))
            found = _each(graph, lax.and_p, bool, at, np.take(here, m, axis))
            mask = _each(graph, lax.or_p, bool, mask, found)
        values.append(value)
        masks.append(mask)
    return np.stack(values, axis), np.stack(masks, axis)


def _each(graph: Graph, primitive, dtype, *operands: Nodes) -> Nodes:
    columns = zip(*(x.ravel().tolist() for x in operands), strict=True)
    nodes = [graph.apply(primitive, each, dtype) for each in columns]
    return np.array(nodes, dtype=int).reshape(operands[0].shape)


def gather(graph: Graph, equation, x: Nodes, indices: Nodes) -> list[Nodes]:
    """With constant indices: the primitive itself, on node numbers."""
    out = equation.outvars[0].aval
    where = _known(graph, indices, equation)
    missing = equation.params["fill_value"]
    missing = np.nan if missing is None and np.issubdtype(out.dtype, np.inexact) else missing
    nodes = _by_primitive(equation, equation.params | {"fill_value": -1}, x, where)
    if (nodes < 0).any():
        if missing is None:
            raise Unsupported("gather beyond the end of an integer array")
        nodes = np.where(nodes < 0, graph.constant(np.asarray(missing, out.dtype)), nodes)
    return [nodes]


def scatter(graph: Graph, equation, x: Nodes, indices: Nodes, updates: Nodes) -> list[Nodes]:
    """x.at[indices].set(updates) with constant indices."""
    if equation.params["update_jaxpr"] is not None:
        raise Unsupported("scatter with a function")
    return [_by_primitive(equation, equation.params, x, _known(graph, indices, equation), updates)]


def scatter_add(graph: Graph, equation, x: Nodes, indices: Nodes, updates: Nodes) -> list[Nodes]:
    """x.at[indices].add(updates) with constant indices: where each update goes is found by adding units."""
    where, dtype = _known(graph, indices, equation), equation.outvars[0].aval.dtype
    nodes = x.ravel().tolist()
    for i, update in enumerate(updates.ravel().tolist()):
        unit = np.zeros(updates.size, dtype)
        unit[i] = 1
        added = _by_primitive(
            equation, equation.params, np.zeros(x.shape, dtype), where, unit.reshape(updates.shape)
        )
        for target in np.flatnonzero(added):
            nodes[target] = graph.apply(lax.add_p, (nodes[target], update), dtype)
    return [np.array(nodes, dtype=int).reshape(x.shape)]


def _by_primitive(equation, params, first, indices, *rest):
    with jax.ensure_compile_time_eval():
        narrow = [np.asarray(a, np.int32) if a.dtype == int else a for a in (first, *rest)]
        indices = np.asarray(indices, np.int32)
        operands = [jnp.asarray(a) for a in (narrow[0], indices, *narrow[1:])]
        found = np.asarray(equation.primitive.bind(*operands, **params))
    return found.astype(int) if first.dtype == int else found


RULES: dict[str, Callable] = {
    **dict.fromkeys(ELEMENTWISE, elementwise),
    **dict.fromkeys(MOVES, move),
    "reduce_sum": _reduction(lax.add_p, 0),
    "reduce_prod": _reduction(lax.mul_p, 1),
    "reduce_max": _reduction(lax.max_p, -np.inf),
    "reduce_min": _reduction(lax.min_p, np.inf),
    "reduce_and": _reduction(lax.and_p, True),
    "reduce_or": _reduction(lax.or_p, False),
    "cumsum": _cumulative(lax.add_p),
    "cumprod": _cumulative(lax.mul_p),
    "dot_general": dot_general,
    "iota": iota,
    "dynamic_slice": dynamic_slice,
    "dynamic_update_slice": dynamic_update_slice,
    "gather": gather,
    "scatter": scatter,
    "scatter-add": scatter_add,
}
