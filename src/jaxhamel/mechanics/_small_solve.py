"""Solutions of small dense linear systems, and inverses of small matrices, written out without LAPACK.

A LAPACK call on a 3 × 3 or 5 × 5 matrix costs more than the whole right-hand side around it, XLA cannot fuse it, and under
`vmap` it treats one matrix at a time (docs/performance.md#equations-of-motion). A program that is written out grows like n³;
beyond `UNROLL_LIMIT` rows it would compile too slowly, and LAPACK is called instead. Lanes write symmetric solves out up to
more rows, without tracing them (`_lanes/_solutions/_symmetric_solve.py`).

Both have their own derivative rules, d(M⁻¹b) = M⁻¹(db − dM x) and dA⁻¹ = −A⁻¹ dA A⁻¹, so that factorisations are not
differentiated.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel import _checks, _lapack
from jaxhamel._lanes._solutions import _operator_solve as _of_products
from jaxhamel._lanes._solutions import _symmetric_solve as _primitive

UNROLL_LIMIT = 10
# With more columns than this times the rows, such as those of all lanes, products with the inverse are faster than LAPACK.
MANY_COLUMNS = 4


def symmetric_solve(
    matrix: Float[Array, "n n"], rhs: Float[Array, " n"] | Float[Array, "n k"]
) -> Float[Array, " n"] | Float[Array, "n k"]:
    """The solution x of M x = b for a symmetric M whose leading minors are not zero, such as a mass matrix, by the
    factorisation M = L D Lᵀ.

    If lanes know some entries of M to be zero, and none on the diagonal, they may eliminate the unknowns in another order,
    which keeps more zeros. The leading minors in that order then must not be zero, either.

    **Arguments:** `matrix`: M `(n, n)`, of which only the lower triangle is used; `rhs`: b `(n,)` or `(n, k)`.

    **Returns:** x, in the shape of `rhs`. A singular M gives inf or NaN, as a division by zero does.

    **Raises:** `ValueError` for a matrix that is not square, and for another number of rows of `rhs`.
    """
    _check_square(matrix)
    _checks.check_shape("rhs", rhs, (len(matrix), *rhs.shape[1:]), "One row for each row of M.")
    return _symmetric_solve(matrix, rhs)


def operator_solve(product: Callable, rhs: Float[Array, " n"]) -> Float[Array, " n"]:
    """The solution x of M x = b for a symmetric M that is given by its products with vectors.

    Lanes need not compute the entries of M: the solution for a chain or a tree of n bodies then takes a number of operations
    that grows like n. M is as in `symmetric_solve`, of which no derivative is taken here.

    **Arguments:** `product`: the function x ↦ M x, linear in x; `rhs`: b `(n,)`, of the dtype of M x.
    """
    if rhs.size == 0:
        return rhs
    return _of_products.operator_solve(product, rhs, _solve_arrays)


def inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse B = A⁻¹ of a regular matrix, such as a frame, by Gram–Schmidt on its rows: A = L Q, B = Qᵀ L⁻¹.

    Each row is orthogonalised twice, so that the result is as accurate as by elimination with pivoting (error about
    eps · cond A). No rows have to be exchanged, although frames are often permutations of the identity.

    **Arguments:** `matrix`: A `(n, n)`.

    **Returns:** B, `(n, n)`; inf or NaN for a singular A.

    **Raises:** `ValueError` for a matrix that is not square.
    """
    _check_square(matrix)
    return _inverse(matrix)


def _check_square(matrix) -> None:
    size = matrix.shape[0] if matrix.ndim else "n"
    _checks.check_shape("matrix", matrix, (size, size), "It is square; for a batch take `vmap`.")


@jax.custom_jvp
def known_inverse(matrix: Float[Array, "n n"], value: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The known value of A⁻¹, with the derivatives of A⁻¹.

    A right-hand side differentiates B(q) in several places at the same q; with this function it computes B only once.
    """
    return value


@known_inverse.defjvp
def _known_inverse_jvp(primals, tangents):
    inverse = known_inverse(*primals)
    return inverse, -inverse @ tangents[0] @ inverse


class Factors(NamedTuple):
    """The factors of a symmetric M = L D Lᵀ: `lower`, the unit triangular L as an array or nested lists of scalars, and
    `inverse_diagonal`, 1/D.
    """

    lower: Any
    inverse_diagonal: Float[Array, " n"]

    @classmethod
    def of(cls, matrix: Float[Array, "n n"]) -> "Factors":
        """The factors of M, from its lower triangle and without pivoting, so that no leading minor may be zero."""
        if matrix.shape[0] > UNROLL_LIMIT:
            return cls(*_ldl_in_a_loop(matrix))
        lower, inverse_diagonal = _ldl(matrix)
        return cls(lower, jnp.stack(inverse_diagonal))

    def forward(self, rhs: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """The product L⁻¹ b, by forward substitution."""
        if not isinstance(self.lower, list):
            return _lapack.solve_triangular(self.lower, rhs)
        x = list(jnp.unstack(rhs))
        for i in range(len(x)):
            for j in range(i):
                x[i] = x[i] - self.lower[i][j] * x[j]
        return jnp.stack(x)

    def backward(self, rhs: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
        """The product L⁻ᵀ b, by backward substitution."""
        if not isinstance(self.lower, list):
            return _lapack.solve_triangular(self.lower, rhs, "T")
        x = list(jnp.unstack(rhs))
        for i in reversed(range(len(x))):
            for j in range(i + 1, len(x)):
                x[i] = x[i] - self.lower[j][i] * x[j]
        return jnp.stack(x)


def _symmetric_solve(matrix, rhs):
    if rhs.size == 0:
        return rhs
    dtype = jnp.result_type(matrix, rhs)
    dtype = dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.result_type(float)
    matrix, rhs = (jnp.asarray(x, dtype=dtype) for x in (matrix, rhs))
    return _primitive.symmetric_solve(matrix, rhs, _solve_arrays)


def _solve_arrays(matrix, rhs):
    if matrix.shape[0] > UNROLL_LIMIT:
        few = rhs.shape[1] <= MANY_COLUMNS * matrix.shape[0]
        return _lapack.solve(matrix, rhs) if few else _by_inverse(matrix, rhs)
    factors = Factors.of(matrix)
    columns = rhs[:, 0] if rhs.shape[1] == 1 else rhs
    weights = factors.inverse_diagonal.reshape(-1, *[1] * (columns.ndim - 1))
    return factors.backward(factors.forward(columns) * weights).reshape(rhs.shape)


def _by_inverse(matrix, rhs):
    """The solution M⁻¹ b with one step of iterative refinement, x + M⁻¹ (b − M x), as accurate as one by LAPACK."""
    inverse = _lapack.inverse(matrix)
    x = inverse @ rhs
    return x + inverse @ (rhs - matrix @ x)


def _ldl(matrix):
    """The unit lower triangular L of M = L D Lᵀ as nested lists of scalars, and 1/D as a list."""
    n = matrix.shape[0]
    lower = [list(jnp.unstack(row)[: i + 1]) for i, row in enumerate(jnp.unstack(matrix))]
    inverse_diagonal = []
    for j in range(n):
        scaled = [lower[j][k] for k in range(j)]  # L_jk D_k
        for k in range(j):
            lower[j][k] = scaled[k] * inverse_diagonal[k]
        pivot = _less(lower[j][j], [lower[j][k] * scaled[k] for k in range(j)])
        inverse_diagonal.append(1.0 / pivot)
        for i in range(j + 1, n):
            lower[i][j] = _less(lower[i][j], [lower[i][k] * lower[j][k] for k in range(j)])
    return lower, inverse_diagonal


def _less(x, terms):
    """The difference x − Σ terms; x itself, without an operation, if there are no terms."""
    return x - sum(terms[1:], start=terms[0]) if terms else x


def _ldl_in_a_loop(matrix):
    """L and 1/D of a large matrix, computed column by column in a loop, so that the program stays short."""
    places = jnp.arange(matrix.shape[0])

    def eliminate(rest, j):
        inverse_pivot = 1.0 / rest[j, j]
        column = jnp.where(places > j, rest[:, j] * inverse_pivot, 0.0)
        return rest - jnp.tril(jnp.outer(column, rest[:, j])), (column, inverse_pivot)

    _, (columns, inverse_diagonal) = jax.lax.scan(eliminate, matrix, places)
    return columns.T, inverse_diagonal


@jax.custom_jvp
def _inverse(matrix):
    # this compiles and runs faster than elimination with pivoting (docs/performance.md#equations-of-motion)
    n = matrix.shape[0]
    if n > UNROLL_LIMIT:
        return _lapack.inverse(matrix)
    orthonormal: list[Array] = []  # rows of Q
    inverse_lower: list[Array] = []  # rows of L⁻¹
    for row, image in zip(*map(jnp.unstack, (matrix, jnp.eye(n, dtype=matrix.dtype))), strict=True):
        if orthonormal:
            before, of_lower = jnp.stack(orthonormal), jnp.stack(inverse_lower)
            for _ in range(2):
                components = before @ row
                row = row - components @ before
                image = image - components @ of_lower
        scale = jax.lax.rsqrt(jnp.dot(row, row))
        orthonormal.append(row * scale)
        inverse_lower.append(image * scale)
    return jnp.stack(orthonormal).T @ jnp.stack(inverse_lower) if n else matrix


@_inverse.defjvp
def _inverse_jvp(primals, tangents):
    inverse = _inverse(*primals)
    return inverse, -inverse @ tangents[0] @ inverse
