"""Rules that write out factorisations of small matrices and solutions of linear equations, entry by entry."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import lax

from jaxhamel._lanes._blocks import TooLarge, add_block
from jaxhamel._lanes._graph._graph import MOST_SCALARS, Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, constant, each, node_numbers
from jaxhamel._lanes._graph._primitive import Kind, Primitive
from jaxhamel._lanes._rules._large_solve import solutions
from jaxhamel._lanes._rules._sparse_factors import (
    elimination_order,
    lu_operations,
    solution_operations,
)
from jaxhamel._lanes._solutions._symmetric_solve import NAME as SYMMETRIC_SOLVE
from jaxhamel._lanes._xla_cpu._loop_fusion import LONGEST_FUSION

# The most rows of a matrix that is written out; row exchanges take n³ selections.
MOST_ROWS = {"cholesky": 8, "lu": 8, "triangular_solve": 8}
# A matrix with more rows is written out, too, if its known zeros leave it no more operations than 8 full rows take (896), as
# those of a gear train do; in a program that stays one loop or one kernel, no more than 16 full rows take (7,040;
# docs/performance.md#factors-of-more-rows).
LONGEST_FACTORS, LONGEST_WHOLE_FACTORS = 900, 7_100
# The most operations of a symmetric solution that is written out (20 rows without zeros take 3,650, 32 rows 13,456). The
# second limit holds in a fusion over the lanes, whose length also includes the operations that compute the matrix
# (docs/performance.md#large-solutions).
LONGEST_SOLUTION, LONGEST_IN_FUSION = 3_700, 14_000


def is_too_large(equation) -> bool:
    """Whether an equation is a factorisation or solution with too many rows to be written out."""
    most = MOST_ROWS.get(equation.primitive.name)
    return most is not None and max(equation.invars[0].aval.shape[-2:]) > most


def _is_short(graph: Graph, equation, matrices: Nodes, others: tuple[Nodes, ...]) -> bool:
    """Whether a factorisation or solution takes few enough operations to be written out."""
    if _made_by_block(graph, matrices):
        return False
    shape = matrices.shape[:-2]
    columns = others[0].size // matrices[..., 0].size if others else 0
    counts = (_operations(graph, equation, matrices[i], columns) for i in np.ndindex(shape))
    return sum(counts) <= _most_of_factors(graph, matrices)


def _made_by_block(graph: Graph, matrices: Nodes) -> bool:
    """Whether an operation on arrays computes the matrices: in memory they are, so that a block solves with them."""
    made = {i for each in graph.blocks for i in node_numbers(each.results)}
    return not made.isdisjoint(matrices.ravel().tolist())


def _operations(graph: Graph, equation, matrix: Nodes, columns: int) -> int:
    """The number of operations of a factorisation, or of a solution with `columns` right-hand sides."""
    zero, n = _known_zeros(graph, matrix), len(matrix)
    if equation.primitive.name == "lu":
        return lu_operations(zero)
    if equation.primitive.name == "cholesky":
        return sum((n - j) * (2 * j + 1) for j in range(n))
    triangle = np.tri(n, dtype=bool)
    triangle = triangle if equation.params["lower"] else triangle.T
    return 2 * columns * int(np.count_nonzero(triangle & ~zero))


def _most_of_factors(graph: Graph, matrices: Nodes) -> int:
    """The most operations of factors that are written out; in a program that is long already, they become blocks."""
    if not (graph.few or graph.fused):
        return LONGEST_FACTORS
    room = LONGEST_FUSION - len(graph.nodes) if graph.few else _room(graph, matrices)
    return max(LONGEST_FACTORS, min(LONGEST_WHOLE_FACTORS, room))


def _room(graph: Graph, matrices: Nodes) -> int:
    """The number of operations that a fusion has left after those that compute the matrices.

    Nodes that the matrices do not need are not counted, since they may be removed later; beyond `MOST_SCALARS` there is no
    room.
    """
    if len(graph.nodes) > MOST_SCALARS:
        return 0
    return LONGEST_FUSION - len(graph.needed(matrices.ravel().tolist()))


def _known_zeros(graph: Graph, matrix: Nodes) -> np.ndarray:
    values = [graph.value(i) for i in matrix.ravel().tolist()]
    return np.array([x is not None and not x for x in values]).reshape(matrix.shape)


def _of_matrices(rule: Callable) -> Callable:
    """Extends a rule for one matrix to arrays of matrices."""

    def of_all(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
        shape = equation.invars[0].aval.shape
        if is_too_large(equation) and not _is_short(graph, equation, operands[0], operands[1:]):
            name = equation.primitive.name
            raise TooLarge(f"the primitive `{name}` of more than {MOST_ROWS[name]} rows")
        found = [
            rule(graph, equation, *(x[place] for x in operands)) for place in np.ndindex(shape[:-2])
        ]
        return [
            np.array([out[k] for out in found], dtype=int).reshape(v.aval.shape)
            for k, v in enumerate(equation.outvars)
        ]

    return of_all


class _Entries:
    """Arithmetic on arrays of nodes of one dtype."""

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
    # here `a` is A transposed once, by `transpose_a` or for X op(A) = B: the lower triangle has become the upper one
    turned = bool(params["transpose_a"]) == bool(params["left_side"])
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


def symmetric_solve(graph: Graph, equation, matrix: Nodes, rhs: Nodes) -> list[Nodes]:
    """Solves M X = B by M = L D Lᵀ without pivoting, from the lower triangle of M, row by row.

    The order of operations in each entry is that of `mechanics/_small_solve.py`, unless zeros of M make another order of the
    rows shorter (`elimination_order`).
    """
    dtype = equation.outvars[0].aval.dtype
    _check_real(equation, dtype)
    order = _order(graph, matrix)
    if order is None:
        return _in_a_loop(graph, equation, matrix, rhs)
    lower = np.where(np.tri(len(matrix), dtype=bool), matrix, matrix.T)[np.ix_(order, order)]
    of = _Numbers(graph, dtype)
    factors = _ldl(of, lower.tolist())
    columns = [_solved(of, *factors, column) for column in rhs[order].T.tolist()]
    found = np.empty(rhs.shape, int)
    found[order] = np.array(columns, dtype=int).T.reshape(rhs.shape)
    return [found]


def _order(graph: Graph, matrix: Nodes) -> list[int] | None:
    """The order in which the unknowns are eliminated; None if the solution is too long to be written out as scalars."""
    zero = _known_zeros(graph, matrix)
    order = elimination_order(zero)
    return order if solution_operations(zero, order) <= _longest(graph, matrix) else None


def _longest(graph: Graph, matrix: Nodes) -> int:
    """The most operations that a solution with this matrix may take if it is to be written out as scalars."""
    if not graph.fused:
        return LONGEST_SOLUTION
    return max(LONGEST_SOLUTION, min(LONGEST_IN_FUSION, _room(graph, matrix)))


def _in_a_loop(graph: Graph, equation, matrix: Nodes, rhs: Nodes) -> list[Nodes]:
    """Adds the solution to the graph as a block, which a loop over the rows of M computes; returns its nodes.

    **Raises:** `TooLarge` if the graph takes no blocks.
    """
    if not graph.takes_blocks:
        raise TooLarge(f"the primitive `{SYMMETRIC_SOLVE}` of {len(matrix)} rows")
    rows = [row[: i + 1] for i, row in enumerate(matrix)]
    column = jax.ShapeDtypeStruct(rhs.shape[:1], equation.outvars[0].aval.dtype)
    run = partial(solutions, rows=len(rows))
    found = add_block(graph, run, [*rows, *rhs.T], [column] * rhs.shape[1])
    return [np.stack(found, axis=1)]


class _Numbers:
    """Arithmetic on single nodes of one dtype."""

    def __init__(self, graph: Graph, dtype):
        self.graph, self.dtype = graph, np.dtype(dtype)
        self.one, self.zero = (graph.constant(np.asarray(x, dtype)) for x in (1, 0))

    def of(self, primitive, x: int, y: int) -> int:
        return self.graph.apply(primitive, (x, y), self.dtype)

    def minus_product(self, x: int, y: int, z: int) -> int:
        return self.of(lax.sub_p, x, self.of(lax.mul_p, y, z))

    def minus_inner(self, x: int, ys: list[int], zs: list[int]) -> int:
        total = self.zero
        for y, z in zip(ys, zs, strict=True):
            total = self.of(lax.add_p, total, self.of(lax.mul_p, y, z))
        return self.of(lax.sub_p, x, total)


def _ldl(of: _Numbers, matrix: list[list[int]]) -> tuple[list[list[int]], list[int]]:
    """Factorises a symmetric matrix as L D Lᵀ; returns the rows of L, without its unit diagonal, and 1/D."""
    lower: list[list[int]] = []
    inverse_diagonal: list[int] = []
    for i, entries in enumerate(matrix):
        scaled: list[int] = []  # L_ij D_j
        for j in range(i):
            scaled.append(of.minus_inner(entries[j], scaled, lower[j]))
        pairs = zip(scaled, inverse_diagonal, strict=True)
        row = [of.of(lax.mul_p, *pair) for pair in pairs]
        pivot = of.minus_inner(entries[i], row, scaled)
        lower.append(row)
        inverse_diagonal.append(of.of(lax.div_p, of.one, pivot))
    return lower, inverse_diagonal


def _solved(of: _Numbers, lower: list[list[int]], inverse_diagonal: list[int], b: list[int]):
    """x of L D Lᵀ x = b."""
    x, n = list(b), len(b)
    for i in range(n):
        for j in range(i):
            x[i] = of.minus_product(x[i], lower[i][j], x[j])
    x = [of.of(lax.mul_p, *pair) for pair in zip(x, inverse_diagonal, strict=True)]
    for i in reversed(range(n)):
        for j in range(i + 1, n):
            x[i] = of.minus_product(x[i], lower[j][i], x[j])
    return x


def lu(graph: Graph, equation, x: Nodes) -> list[Nodes]:
    """The factors of P X = L U with partial pivoting: L and U in one matrix, the pivots, and the permutation."""
    dtype, kind = equation.outvars[0].aval.dtype, equation.outvars[1].aval.dtype
    _check_real(equation, dtype)
    of, whole, x, rows = _Entries(graph, dtype), _Entries(graph, kind), x.copy(), len(x)
    order, pivots = np.array([whole.number(i) for i in range(rows)]), []
    for j in range(min(x.shape)):
        largest = _first_largest(graph, x[j:, j], dtype)  # one flag for each row from j on
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


def _first_largest(graph: Graph, column: Nodes, dtype) -> list[int]:
    """One flag for each entry, true only for the first entry of largest magnitude. A known zero is never larger."""
    sizes = each(graph, lax.abs_p, dtype, column)
    best, flags = sizes[:1], [graph.constant(True)]
    for size, is_zero in zip(sizes[1:], _known_zeros(graph, column)[1:], strict=True):
        if is_zero:
            flags.append(graph.constant(False))
            continue
        better = graph.apply(lax.gt_p, (int(size), int(best[0])), bool)
        best = each(graph, lax.max_p, dtype, best, np.array([size]))
        others = graph.apply(lax.not_p, (better,), bool)
        flags = [graph.apply(lax.and_p, (flag, others), bool) for flag in flags] + [better]
    return flags


def of_library(graph: Graph, equation, *operands: Nodes) -> list[Nodes]:
    """The rule for an operation that a library computes, one lane after the other: it is a block of the program.

    **Raises:** `TooLarge`, by which an operation on arrays becomes a block; `Unsupported` for complex numbers.
    """
    if any(np.issubdtype(v.aval.dtype, np.complexfloating) for v in equation.invars):
        raise Unsupported(f"the primitive `{equation.primitive.name}` of complex numbers")
    raise TooLarge(f"the primitive `{equation.primitive.name}`")


def array_program(equation) -> list[Any]:
    """The jaxpr, in a list, by which a symmetric solve runs outside lanes."""
    run = partial(equation.primitive.impl, **equation.params)
    return [jax.make_jaxpr(run)(*(v.aval for v in equation.invars)).jaxpr]


def _check_real(equation, dtype) -> None:
    if not np.issubdtype(dtype, np.floating):
        raise Unsupported(f"the primitive `{equation.primitive.name}` of complex numbers")


LINEAR_ALGEBRA: dict[str, Primitive] = {
    SYMMETRIC_SOLVE: Primitive(
        Kind.LINEAR_ALGEBRA,
        _of_matrices(symmetric_solve),
        programs=array_program,
        cpu_kernel=True,
    ),
    "cholesky": Primitive(Kind.LINEAR_ALGEBRA, _of_matrices(cholesky)),
    "lu": Primitive(Kind.LINEAR_ALGEBRA, _of_matrices(lu)),
    "triangular_solve": Primitive(Kind.LINEAR_ALGEBRA, _of_matrices(triangular_solve)),
}

LIBRARY: dict[str, Primitive] = {
    name: Primitive(Kind.LIBRARY, of_library, one_lane=False) for name in ("eigh", "qr", "svd")
}
