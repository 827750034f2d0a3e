"""Solves symmetric linear equations that are too large to be written out, by a loop over the rows of one matrix:

    M = Uᵀ D⁻¹ U ,     U_i = M_i − Σ_k<i (U_ki / D_k) U_k ,     D_i = U_ii .

b is stored as one more column of M and is eliminated with it; x follows from the last row to the first. The loop can be part
of one kernel with the operations around it; LAPACK cannot, since a kernel calls no library. Timings:
docs/performance.md#large-solutions.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from jaxhamel._lanes._divided._kept_loops import RunInLanes
from jaxhamel._lanes._graph._primitive import LONGEST_PRODUCT
from jaxhamel._lanes._xla_cpu._one_kernel import as_one_kernel
from jaxhamel._lanes._xla_cpu._one_loop import one_kernel_works

# Rows are padded with zeros to a multiple of this length, that of a processor's vectors.
_WIDTH = 8


def solution(
    rows: Sequence[Float[Array, "..."]], columns: Sequence[Float[Array, " n"]]
) -> list[Float[Array, " n"]]:
    """x of M x = b, without pivoting, for each b of `columns`.

    **Arguments:** `rows`: the rows of the lower triangle of M, of shapes `(1,)` to `(n,)`.
    """
    n = len(rows)
    upper = _triangular_form(_augmented_matrix(rows, columns))
    return [_substituted(upper, n + k) for k in range(len(columns))]


def _augmented_matrix(rows: Sequence[Array], columns: Sequence[Array]) -> Float[Array, "n m"]:
    """One matrix with the upper triangle of M and the columns b.

    The columns are written into it one after the other: from a stack of columns, XLA would select entry by entry.
    """
    n = len(rows)
    width = -(-(n + len(columns)) // _WIDTH) * _WIDTH
    found = jnp.zeros((n, width), columns[0].dtype)
    for i, x in enumerate((*rows, *columns)):
        found = lax.dynamic_update_slice(found, x[:, None], (0, i))
    return found


def _triangular_form(matrix: Float[Array, "n m"]) -> Float[Array, "n m"]:
    """Eliminates below the diagonal; returns U in the first n columns, and the columns b after the same steps."""
    n, width = matrix.shape
    start = jnp.zeros_like(matrix), jnp.zeros(n, matrix.dtype)
    places, at_once = jnp.arange(width), max(1, LONGEST_PRODUCT // width)

    def turn(i, found):
        upper, inverse_diagonal = found
        weights = lax.dynamic_index_in_dim(upper, i, 1, False) * inverse_diagonal
        row = lax.dynamic_index_in_dim(matrix, i, 0, False)
        for k in range(0, n, at_once):  # for a longer product XLA would call a library
            row = row - weights[k : k + at_once] @ upper[k : k + at_once]
        row = jnp.where(places >= i, row, 0)
        pivot = lax.dynamic_index_in_dim(row, i, 0, False)
        return (
            lax.dynamic_update_index_in_dim(upper, row, i, 0),
            lax.dynamic_update_index_in_dim(inverse_diagonal, 1 / pivot, i, 0),
        )

    return lax.fori_loop(0, n, turn, start)[0]


def _substituted(upper: Float[Array, "n m"], column: int) -> Float[Array, " n"]:
    n = len(upper)
    places = jnp.arange(n)

    def turn(k, x):
        i = n - 1 - k
        row = lax.dynamic_index_in_dim(upper, i, 0, False)
        known = jnp.sum(jnp.where(places > i, row[:n] * x, 0))
        pivot = lax.dynamic_index_in_dim(row, i, 0, False)
        return lax.dynamic_update_index_in_dim(x, (row[column] - known) / pivot, i, 0)

    return lax.fori_loop(0, n, turn, jnp.zeros(n, upper.dtype))


def solutions(
    operands: Sequence[Array],
    axes: Sequence[int | None],
    size: int,
    in_lanes: RunInLanes,
    rows: int,
) -> list:
    """Computes `solution` in `size` lanes, one after the other in one kernel; each result has shape `(size, n)`.

    **Arguments:** `operands`: the rows of M, then the columns b; `axes`: 0 for operands with an axis of lanes, None for
    shared ones; `rows`: the number of rows. `in_lanes` is not used.
    """
    del in_lanes

    def one(*x):
        return tuple(solution(x[:rows], x[rows:]))

    def of_all(*x):
        return tuple(lax.map(lambda row: one(*row), x))

    pairs = zip(operands, axes, strict=True)
    many = [x if axis == 0 else jnp.broadcast_to(x, (size, *x.shape)) for x, axis in pairs]
    if size == 1:
        return [x[None] for x in one(*(x[0] for x in many))]
    shapes = [jax.ShapeDtypeStruct((size, rows), x.dtype) for x in many[rows:]]
    return list((as_one_kernel(of_all, shapes) if one_kernel_works() else of_all)(*many))
