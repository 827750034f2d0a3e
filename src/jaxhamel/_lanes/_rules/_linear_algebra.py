"""Factors of small matrices, and the solution of triangular systems, written out entry by entry."""

from collections.abc import Callable

import numpy as np
from jax import lax

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, constant, each
from jaxhamel._lanes._graph._primitive import Kind, Primitive

# The most rows of a matrix: a factor takes n³/3 products, and with row exchanges as many selections.
MOST_ROWS = 8


def _of_matrices(rule: Callable) -> Callable:
    """Extends a rule for one matrix to arrays of matrices."""

    def of_all(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
        shape = equation.invars[0].aval.shape
        if max(shape[-2:]) > MOST_ROWS:
            name = equation.primitive.name
            raise Unsupported(f"the primitive `{name}` of more than {MOST_ROWS} rows")
        found = [
            rule(graph, equation, *(x[place] for x in operands)) for place in np.ndindex(shape[:-2])
        ]
        return [
            np.array([out[k] for out in found], dtype=int).reshape(v.aval.shape)
            for k, v in enumerate(equation.outvars)
        ]

    return of_all


class _Entries:
    """Arithmetic on entries of one dtype."""

    def __init__(self, graph: Graph, dtype):
        self.graph, self.dtype = graph, np.dtype(dtype)

    def number(self, value) -> Nodes:
        return constant(self.graph, value, self.dtype)

    def minus(self, x, y) -> Nodes:
        return self._of(lax.sub_p, x, y)

    def times(self, x, y) -> Nodes:
        return self._of(lax.mul_p, x, y)

    def over(self, x, y) -> Nodes:
        return self._of(lax.div_p, x, y)

    def chosen(self, which, x, y) -> Nodes:
        """Selects y where `which` is true, otherwise x."""
        return self._of(lax.select_n_p, which, x, y)

    def _of(self, primitive, *operands) -> Nodes:
        return each(self.graph, primitive, self.dtype, *operands)


def cholesky(graph: Graph, equation, x: Nodes) -> list[Nodes]:
    """The factor L of X = L Lᵀ, from the lower triangle of X; all entries are NaN if X is not positive definite."""
    dtype, n = equation.outvars[0].aval.dtype, len(x)
    _check_real(equation, dtype)
    of, done = _Entries(graph, dtype), np.full((n, n), constant(graph, 0, dtype))
    positive = np.array(graph.constant(True))
    for j in range(n):
        column = x[j:, j]
        for k in range(j):
            column = of.minus(column, of.times(done[j:, k], done[j, k]))
        above_zero = each(graph, lax.gt_p, bool, column[0], of.number(0))
        positive = each(graph, lax.and_p, bool, positive, above_zero)
        root = graph.apply(lax.sqrt_p, (int(column[0]),), dtype)
        done[j, j] = root
        done[j + 1 :, j] = of.over(column[1:], np.array(root))
    lower = np.tri(n, dtype=bool)
    done[lower] = of.chosen(positive, of.number(np.nan), done[lower])
    return [done]


def triangular_solve(graph: Graph, equation, a: Nodes, b: Nodes) -> list[Nodes]:
    """Solves op(A) X = B, or X op(A) = B, by substitution."""
    params, dtype = equation.params, equation.outvars[0].aval.dtype
    _check_real(equation, dtype)
    if not params["left_side"]:
        a, b = a.T, b.T
    if params["transpose_a"]:
        a = a.T
    turned = bool(params["transpose_a"]) == bool(params["left_side"])  # once, not twice
    lower = params["lower"] != turned
    found = _substituted(_Entries(graph, dtype), a, b, lower, params["unit_diagonal"])
    return [found if params["left_side"] else found.T]


def _substituted(of: _Entries, a: Nodes, b: Nodes, lower: bool, unit: bool) -> Nodes:
    found, order = b.copy(), range(len(a))
    for n, i in enumerate(order if lower else reversed(order)):
        known = list(order if lower else reversed(order))[:n]
        for k in known:
            found[i] = of.minus(found[i], of.times(a[i, k], found[k]))
        found[i] = found[i] if unit else of.over(found[i], a[i, i])
    return found


def lu(graph: Graph, equation, x: Nodes) -> list[Nodes]:
    """The factors of P X = L U with partial pivoting: L and U in one matrix, the pivots, and the permutation."""
    dtype, kind = equation.outvars[0].aval.dtype, equation.outvars[1].aval.dtype
    _check_real(equation, dtype)
    of, whole, x, rows = _Entries(graph, dtype), _Entries(graph, kind), x.copy(), len(x)
    order, pivots = np.array([whole.number(i) for i in range(rows)]), []
    for j in range(min(x.shape)):
        largest = _largest(graph, x[j:, j], dtype)  # one flag for each row from j on
        pivot = whole.number(j)
        for i, here in enumerate(largest[1:], start=j + 1):
            here = np.array(here)
            pivot = whole.chosen(here, pivot, whole.number(i))
            x[[j, i]] = of.chosen(here, x[[j, i]], x[[i, j]])
            order[[j, i]] = whole.chosen(here, order[[j, i]], order[[i, j]])
        pivots.append(pivot)
        factor = of.over(x[j + 1 :, j], x[j, j])
        x[j + 1 :, j] = factor
        x[j + 1 :, j + 1 :] = of.minus(
            x[j + 1 :, j + 1 :], of.times(factor[:, None], x[j, j + 1 :][None])
        )
    return [x, np.array(pivots, dtype=int), order]


def _largest(graph: Graph, column: Nodes, dtype) -> list[int]:
    """One flag for each entry, true only for the first entry of largest magnitude."""
    sizes = each(graph, lax.abs_p, dtype, column)
    best, flags = sizes[:1], [graph.constant(True)]
    for size in sizes[1:]:
        better = graph.apply(lax.gt_p, (int(size), int(best[0])), bool)
        best = each(graph, lax.max_p, dtype, best, np.array([size]))
        others = graph.apply(lax.not_p, (better,), bool)
        flags = [graph.apply(lax.and_p, (flag, others), bool) for flag in flags] + [better]
    return flags


def _check_real(equation, dtype) -> None:
    if not np.issubdtype(dtype, np.floating):
        raise Unsupported(f"the primitive `{equation.primitive.name}` of complex numbers")


LINEAR_ALGEBRA: dict[str, Primitive] = {
    "cholesky": Primitive(Kind.LINEAR_ALGEBRA, _of_matrices(cholesky)),
    "lu": Primitive(Kind.LINEAR_ALGEBRA, _of_matrices(lu)),
    "triangular_solve": Primitive(Kind.LINEAR_ALGEBRA, _of_matrices(triangular_solve)),
}
