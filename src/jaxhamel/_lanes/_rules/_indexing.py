"""Rules that read and write windows of arrays, at known positions or at positions that differ from lane to lane.

A read at a known position only moves node numbers. A read at a computed position selects among all entries that the position
may refer to. A write at a computed position replaces each entry that it may refer to by a selection between old and new
value.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from math import prod

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, along, constant, each
from jaxhamel._lanes._graph._primitive import Kind, Primitive, adds_one_window, writes_one_window

# For many lanes, a gather over at most this many positions becomes `select`s, which stay in the loop over the lanes. A table
# look-up leaves that loop, with all that it depends on: a binary search, whose look-ups depend on each other, or a matrix
# exponential, whose LU permutes rows, then took minutes to compile (docs/performance.md#look-ups). A `dynamic_slice` (of a
# spline's coefficients) stays a look-up: a GPU kernel reads it from memory instead of keeping the table in registers.
MOST_SELECTED = 64
# A window at computed positions along several axes takes at most this many selections; otherwise the program is refused.
MOST_SELECTIONS = 1500
# Up to this many positions are compared one by one; more are divided by the binary digits of the position. For few lanes, a
# look-up in a larger table reads memory inside of the kernel.
MOST_COMPARED = 8
# The same limit of few lanes for an array that the program computes, such as the right-hand side of a solution whose rows
# are exchanged: it would be written to memory first (docs/performance.md#factors-with-zeros).
MOST_COMPUTED = 16


class _Pick:
    """The look-up (i, x_0, x_1, …) ↦ x_i in a table, with a computed index i inside of the table."""

    name = "pick"

    @staticmethod
    def bind(index, *table):
        if not any(map(np.ndim, table)):  # all lanes share the table
            column = jnp.stack(jnp.broadcast_arrays(*table))
            return column.at[index].get(mode="promise_in_bounds")
        shape = jnp.broadcast_shapes(*map(np.shape, table), np.shape(index))
        column = jnp.stack([jnp.broadcast_to(jnp.asarray(x), shape) for x in table])
        if np.ndim(index) == 0:
            return lax.dynamic_index_in_dim(column, index, keepdims=False)
        return jnp.take_along_axis(column, index[None], axis=0, mode="promise_in_bounds")[0]


def dynamic_slice(graph: Graph, equation, x: Nodes, *starts: Nodes) -> list[Nodes]:
    """The rule for a window at a computed position, which is clamped to the array as in JAX.

    A window at computed positions along several axes would be a look-up in look-ups. It is selected where this takes few
    operations; larger arrays are read outside of the program of scalars if possible (`_divided/_look_ups.py`).
    """
    sizes, dtype = equation.params["slice_sizes"], equation.outvars[0].aval.dtype
    places = dict(enumerate(map(int, starts)))
    few = 0
    if (selections := _selections(graph, x.shape, sizes, places)) is not None:
        if selections > MOST_SELECTIONS:
            raise Unsupported(
                f"window of an array {x.shape} at computed positions along several axes"
            )
        few = max(x.shape)
    return [_windowed(graph, x, places, sizes, dtype, few)]


def _selections(graph: Graph, shape, sizes, starts: dict[int, int]) -> int | None:
    """The number of selections that give a window along several axes; None if at most one of its positions is computed."""
    computed = [
        axis
        for axis, start in starts.items()
        if sizes[axis] < shape[axis] and graph.value(start) is None
    ]
    if len(computed) < 2:
        return None
    left, total = list(shape), 0
    for axis in computed:
        left[axis] = sizes[axis]
        total += (shape[axis] - sizes[axis]) * prod(left)
    return total


def _windowed(graph: Graph, x: Nodes, starts: dict[int, int], sizes, dtype, few=0) -> Nodes:
    """The window of x with these `starts` (axis: node) and `sizes`; along other axes it starts at 0.

    Windows at a computed start with at most `few` possible values are selected; with more the window is looked up.
    """
    for axis, size in enumerate(sizes):
        if axis in starts and size < x.shape[axis]:
            x = _window(graph, x, axis, size, starts[axis], dtype, few)
        else:
            x = x[along(axis, slice(size))]
    return x


def _window(graph: Graph, x: Nodes, axis: int, size: int, start: int, dtype, few) -> Nodes:
    last = x.shape[axis] - size
    start = _clamped_start(graph, start, last)
    known = graph.value(start)
    if known is not None:
        return x[along(axis, slice(int(known), int(known) + size))]
    windows = np.stack([x[along(axis, slice(i, i + size))] for i in range(last + 1)])
    if last < few:
        return _chosen(graph, windows, start, dtype)
    table = windows.reshape(last + 1, -1).T.tolist()
    nodes = [graph.apply(_Pick, (start, *column), dtype, {}) for column in table]
    return np.array(nodes, dtype=int).reshape(windows.shape[1:])


def _chosen(graph: Graph, windows: Nodes, start: int, dtype) -> Nodes:
    if len(windows) > MOST_COMPARED:
        return _by_digits(graph, windows, start, dtype)
    found = windows[-1]
    for i, window in enumerate(windows[:-1]):
        here = np.array(_equality(graph, start, i))
        found = each(graph, lax.select_n_p, dtype, here, found, window)
    return found


def _by_digits(graph: Graph, windows: Nodes, start: int, dtype) -> Nodes:
    """The window at a computed start: each binary digit of the start selects between neighbouring halves.

    This takes one selection less than there are windows, and one comparison for each digit.
    """
    kind, digit = graph.nodes[start].dtype, 1
    while len(windows) > 1:
        mask = graph.constant(np.asarray(digit, kind))
        odd = graph.apply(lax.and_p, (start, mask), kind)
        odd = graph.apply(lax.ne_p, (odd, graph.constant(np.asarray(0, kind))), bool)
        even, last = windows[::2], windows[1::2]
        last = last if len(last) == len(even) else np.concatenate([last, even[-1:]])
        windows = each(graph, lax.select_n_p, dtype, np.array(odd), even, last)
        digit *= 2
    return windows[0]


def _clamped_start(graph: Graph, start: int, last: int) -> int:
    """Clamps the start as JAX does, so that the window stays inside the array."""
    kind = graph.nodes[start].dtype
    start = graph.apply(lax.max_p, (start, graph.constant(np.asarray(0, kind))), kind)
    return graph.apply(lax.min_p, (start, graph.constant(np.asarray(last, kind))), kind)


def dynamic_update_slice(
    graph: Graph, equation, x: Nodes, update: Nodes, *starts: Nodes
) -> list[Nodes]:
    """The rule that replaces a window at a computed position: the new entries are selected wherever the window lies."""
    dtype, here = equation.outvars[0].aval.dtype, np.full(update.shape, graph.constant(True))
    for axis, start in enumerate(starts):
        if update.shape[axis] < x.shape[axis]:
            start = _clamped_start(graph, int(start), x.shape[axis] - update.shape[axis])
            update, here = _placed(graph, update, here, axis, x.shape[axis], start, dtype)
    return [each(graph, lax.select_n_p, dtype, here, x, update)]


def _placed(graph: Graph, update: Nodes, here: Nodes, axis, length, start: int, dtype):
    """A window at a computed position, spread over the whole axis, and a mask of the entries that it covers.

    Entry j of the axis holds row m of the window if the window starts at j − m.
    """
    size = update.shape[axis]
    values, masks = [], []
    for j in range(length):
        value, mask = (
            np.take(update, 0, axis),
            np.full_like(np.take(here, 0, axis), graph.constant(False)),
        )
        for m in range(max(0, j - (length - size)), min(size, j + 1)):
            at = np.full_like(mask, _equality(graph, start, j - m))
            value = each(graph, lax.select_n_p, dtype, at, value, np.take(update, m, axis))
            found = each(graph, lax.and_p, bool, at, np.take(here, m, axis))
            mask = each(graph, lax.or_p, bool, mask, found)
        values.append(value)
        masks.append(mask)
    return np.stack(values, axis), np.stack(masks, axis)


def _equality(graph: Graph, start: int, place: int) -> int:
    kind = graph.nodes[start].dtype
    return graph.apply(lax.eq_p, (start, graph.constant(np.asarray(place, kind))), bool)


# --- gather and scatter ---------------------------------------------------------------------------


def gather(graph: Graph, equation, x: Nodes, indices: Nodes) -> list[Nodes]:
    """One window of x for each row of indices, as in NumPy's x[indices], `jnp.take` and `jnp.take_along_axis`."""
    params, out = equation.params, equation.outvars[0].aval
    numbers, sizes = params["dimension_numbers"], params["slice_sizes"]
    dropped = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    filled = _name(params["mode"]) == "FILL_OR_DROP"
    most = _most_of_few(graph, x) if graph.few else MOST_SELECTED
    windows = []
    for row, starts in _rows(graph, indices, numbers.start_index_map):
        part = _of_row(x, row, numbers.operand_batching_dims, numbers.start_indices_batching_dims)
        window = _windowed(graph, part, starts, sizes, out.dtype, most)
        if filled:
            fits = _fits(graph, starts, x.shape, sizes)
            missing = constant(graph, params["fill_value"], out.dtype)
            window = each(graph, lax.select_n_p, out.dtype, fits, missing, window)
        windows.append(np.squeeze(window, dropped))
    kept = [size for axis, size in enumerate(sizes) if axis not in dropped]
    stacked = np.array(windows, dtype=int).reshape((*indices.shape[:-1], *kept))
    return [np.moveaxis(stacked, range(indices.ndim - 1, stacked.ndim), numbers.offset_dims)]


def _most_of_few(graph: Graph, x: Nodes) -> int:
    """The most positions of a gather that becomes selections for few lanes."""
    nodes = set(x.ravel().tolist())
    computed = any(graph.nodes[i].primitive is not None for i in nodes)
    return MOST_COMPUTED if computed or len(nodes) <= 2 else MOST_COMPARED


def _rows(graph: Graph, indices: Nodes, axes) -> Iterator[tuple[tuple[int, ...], dict[int, int]]]:
    """Yields each position along the leading axes of `indices`, with the start of its window along each of `axes`."""
    for row in np.ndindex(indices.shape[:-1]):
        yield row, dict(zip(axes, indices[row].tolist(), strict=True))


def _of_row(x: Nodes, row, axes, places) -> Nodes:
    """The part of x that belongs to a row of indices, where x and the indices share batch axes."""
    for axis, place in zip(axes, places, strict=True):
        x = x[along(axis, slice(row[place], row[place] + 1))]
    return x


def _fits(graph: Graph, starts: dict[int, int], shape, sizes) -> Nodes:
    """Whether the whole window lies inside the array."""
    fits = graph.constant(True)
    for axis, start in starts.items():
        zero, last = (
            graph.constant(np.asarray(i, graph.nodes[start].dtype))
            for i in (0, shape[axis] - sizes[axis])
        )
        for pair in ((zero, start), (start, last)):
            inside = graph.apply(lax.le_p, pair, bool)
            fits = graph.apply(lax.and_p, (fits, inside), bool)
    return np.array(fits)


def _scatter(combine: Callable) -> Callable:
    """The rule for x.at[indices].set(updates), .add and so on: window by window; windows that do not fit are skipped."""

    def rule(graph: Graph, equation, x: Nodes, indices: Nodes, updates: Nodes) -> list[Nodes]:
        params, dtype = equation.params, equation.outvars[0].aval.dtype
        if combine is _new_values and params["update_jaxpr"] is not None:
            raise Unsupported("scatter with a function")
        numbers, x = params["dimension_numbers"], x.copy()
        inserted = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
        rows = indices.ndim - 1
        updates = np.moveaxis(updates, numbers.update_window_dims, range(rows, updates.ndim))
        clipped = _name(params["mode"]) == "CLIP"
        for row, starts in _rows(graph, indices, numbers.scatter_dims_to_operand_dims):
            part = _of_row(
                x, row, numbers.operand_batching_dims, numbers.scatter_indices_batching_dims
            )
            update = np.expand_dims(updates[row], inserted)
            if clipped:
                starts = {
                    a: _clamped_start(graph, i, x.shape[a] - update.shape[a])
                    for a, i in starts.items()
                }
            _write(graph, part, update, starts, combine, dtype)
        return [x]

    return rule


def _write(graph: Graph, x: Nodes, update: Nodes, starts: dict[int, int], combine, dtype) -> None:
    """Changes a window of x in place. If its start is computed, every possible window is changed, by a selection."""
    possible = [_possible(graph, i, x.shape[a] - update.shape[a]) for a, i in starts.items()]
    for places in product(*possible):
        here = graph.constant(True)
        for start, place in zip(starts.values(), places, strict=True):
            here = graph.apply(lax.and_p, (here, _equality(graph, start, place)), bool)
        at = [slice(0, size) for size in update.shape]
        for axis, place in zip(starts, places, strict=True):
            at[axis] = slice(place, place + update.shape[axis])
        old = x[tuple(at)]
        x[tuple(at)] = each(
            graph, lax.select_n_p, dtype, np.array(here), old, combine(graph, old, update, dtype)
        )


def _possible(graph: Graph, start: int, last: int) -> list[int]:
    known = graph.value(start)
    return [i for i in range(last + 1) if known is None or i == known]


def _new_values(graph: Graph, old: Nodes, new: Nodes, dtype) -> Nodes:
    del graph, old, dtype
    return new


def _by(primitive) -> Callable:
    return lambda graph, old, new, dtype: each(graph, primitive, dtype, old, new)


def _name(mode) -> str:
    return getattr(mode, "name", str(mode))


_of = partial(Primitive, Kind.INDEXING)
INDEXING: dict[str, Primitive] = {
    "dynamic_slice": _of(dynamic_slice, cpu_kernel=True),
    "dynamic_update_slice": _of(dynamic_update_slice, cpu_kernel=True),
    "gather": _of(gather, cpu_kernel=True),
    "scatter": _of(_scatter(_new_values), cpu_kernel=writes_one_window),
    "scatter-add": _of(_scatter(_by(lax.add_p)), cpu_kernel=adds_one_window),
    "scatter-sub": _of(_scatter(_by(lax.sub_p))),
    "scatter-mul": _of(_scatter(_by(lax.mul_p))),
    "scatter-min": _of(_scatter(_by(lax.min_p))),
    "scatter-max": _of(_scatter(_by(lax.max_p))),
}
