"""Inverses, Cholesky factors and their solves for many small matrices at once, with the matrices along the last axis.

Under `vmap` LAPACK is called for one matrix after another, each with a call's cost, and in jaxlib before 0.12 batched calls
in two threads may wait for one another for ever (`_lapack`). Here every step of an elimination is one loop over the whole
batch (docs/performance.md#many-starts). One matrix alone is left to LAPACK.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap
from jax.scipy.linalg import cho_solve as _cho_solve
from jaxtyping import Array, Float, Int

from jaxhamel import _lapack

# Number of matrices inverted in one loop: more do not fit into the cache (docs/performance.md#many-starts).
MATRICES_AT_ONCE = 32
MOST_ROWS = 28  # matrices with more rows are left to LAPACK


def _for_batches(one: Callable[..., Array], many: Callable[..., Array]) -> Callable[..., Array]:
    """A function that calls `one` for single matrices and, under `vmap` on the CPU, `many` for a batch of matrices."""

    @custom_vmap
    def of_one(*matrices):
        return one(*matrices)

    @custom_vmap
    def of_many(*matrices):
        return lax.platform_dependent(*matrices, cpu=many, default=jax.vmap(one))

    @of_one.def_vmap
    def _(size, batched, *matrices):
        return of_many(*_full(size, batched, matrices)), True

    @of_many.def_vmap
    def _(size, batched, *matrices):
        full = [x.reshape(-1, *x.shape[2:]) for x in _full(size, batched, matrices)]
        found = of_many(*full)
        return found.reshape(size, -1, *found.shape[1:]), True

    return of_one


def _full(size: int, batched, matrices) -> list[Array]:
    """Broadcasts the arguments that are not batched to the batch."""
    pairs = zip(matrices, batched, strict=True)
    return [x if has else jnp.broadcast_to(x, (size, *x.shape)) for x, has in pairs]


def _batch_last(x: Float[Array, "B n k"]) -> Float[Array, "n k B"]:
    return jnp.moveaxis(x, 0, -1)


def _batch_first(x: Float[Array, "n k B"]) -> Float[Array, "B n k"]:
    return jnp.moveaxis(x, -1, 0)


# --- inverses ------------------------------------------------------------------------------------


def _inverses(matrices: Float[Array, "B n n"]) -> Float[Array, "B n n"]:
    """Inverts `MATRICES_AT_ONCE` matrices at a time, so that they stay in the cache."""
    many, n, _ = matrices.shape
    if n > MOST_ROWS:
        return lax.map(_lapack.inverse_by_columns, matrices)
    if many <= MATRICES_AT_ONCE:
        return _some_inverses(matrices)
    groups = -(-many // MATRICES_AT_ONCE)
    filling = jnp.broadcast_to(
        jnp.eye(n, dtype=matrices.dtype), (groups * MATRICES_AT_ONCE - many, n, n)
    )
    each = jnp.concatenate([matrices, filling]).reshape(groups, MATRICES_AT_ONCE, n, n)
    return lax.map(_some_inverses, each).reshape(-1, n, n)[:many]


def _some_inverses(matrices: Float[Array, "B n n"]) -> Float[Array, "B n n"]:
    """Inverts by Gauss–Jordan elimination in place, with exchanges of rows for the largest pivot."""
    n = matrices.shape[1]
    start = _batch_last(matrices), jnp.zeros((n, matrices.shape[0]), int)
    A, rows = lax.fori_loop(0, n, _eliminated, start)
    return _batch_first(_with_columns(A, rows))


def _eliminated(k: Int[Array, ""], carry):
    """Eliminates column k from all rows but k, and replaces it by the column of the inverse."""
    A, rows = carry
    places = jnp.arange(A.shape[0])[:, None]
    column = lax.dynamic_index_in_dim(A, k, 1, keepdims=False)
    sizes = jnp.where(places >= k, jnp.abs(column), -1.0)
    row = jnp.min(
        jnp.where(sizes == jnp.max(sizes, axis=0, keepdims=True), places, len(places) - 1), axis=0
    )
    chosen = _taken(A, row[None, None], 0)[0]
    replaced = lax.dynamic_index_in_dim(A, k, 0, keepdims=False)
    here = jnp.arange(A.shape[1])[:, None] == k
    scaled = jnp.where(here, 1.0, chosen) / _taken(column, row[None], 0)
    is_pivot = places == row[None]
    factor = jnp.where(is_pivot, lax.dynamic_index_in_dim(column, k, 0), column)
    kept = jnp.where(is_pivot[:, None], replaced[None], A)
    kept = jnp.where(here[None], 0.0, kept) - factor[:, None] * scaled[None]
    return jnp.where((places == k)[:, None], scaled[None], kept), rows.at[k].set(row)


def _taken(x: Array, places: Array, axis: int) -> Array:
    return jnp.take_along_axis(x, places, axis, mode="promise_in_bounds")


def _with_columns(A: Float[Array, "n n B"], rows: Int[Array, "n B"]) -> Float[Array, "n n B"]:
    """Exchanges the columns of A as the rows were exchanged, in reverse order."""
    n = A.shape[0]
    order = jnp.broadcast_to(jnp.arange(n)[:, None], rows.shape)

    def exchanged(j, order):
        k = n - 1 - j
        own, other = order[k], _taken(order, rows[k][None], 0)[0]
        order = jnp.where(jnp.arange(n)[:, None] == rows[k][None], own[None], order)
        return order.at[k].set(other)

    order = lax.fori_loop(0, n, exchanged, order)
    return _taken(A, order[None], 1)


_inverse = _for_batches(_lapack.inverse_by_columns, _inverses)


@jax.custom_jvp
def inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A⁻¹, with derivatives: dA⁻¹ = −A⁻¹ dA A⁻¹."""
    return _inverse(matrix)


@inverse.defjvp
def _inverse_jvp(primals, tangents):
    found = inverse(*primals)
    return found, -found @ tangents[0] @ found


# --- Cholesky ------------------------------------------------------------------------------------


def _factors(matrices: Float[Array, "B n n"]) -> Float[Array, "B n n"]:
    """L with L Lᵀ = A, from the lower triangle of A; NaN for a matrix that is not positive definite."""
    A, places = _batch_last(matrices), jnp.arange(matrices.shape[1])[:, None]

    def column(k, carry):
        A, L = carry
        own = lax.dynamic_index_in_dim(A, k, 1, keepdims=False)
        own = jnp.where(places >= k, own / jnp.sqrt(lax.dynamic_index_in_dim(own, k, 0)), 0.0)
        return A - own[:, None] * own[None], lax.dynamic_update_index_in_dim(L, own, k, 1)

    return _batch_first(lax.fori_loop(0, len(places), column, (A, jnp.zeros_like(A)))[1])


def _solves(factors: Float[Array, "B n n"], rhs: Float[Array, "B n k"]) -> Float[Array, "B n k"]:
    """Solves L Lᵀ x = b for many matrices."""
    L, b, n = _batch_last(factors), _batch_last(rhs), factors.shape[1]
    places = jnp.arange(n)[:, None]

    def forward(k, b):
        column = lax.dynamic_index_in_dim(L, k, 1, keepdims=False)
        return _substituted(b, k, jnp.where(places > k, column, 0.0), column)

    def backward(j, b):
        k = n - 1 - j
        row = lax.dynamic_index_in_dim(L, k, 0, keepdims=False)
        return _substituted(b, k, jnp.where(places < k, row, 0.0), row)

    return _batch_first(lax.fori_loop(0, n, backward, lax.fori_loop(0, n, forward, b)))


def _substituted(b, k, others: Float[Array, "n B"], entries: Float[Array, "n B"]):
    """One step of a substitution: replaces b_k by the unknown x_k, and subtracts the terms of x_k from other rows.

    `entries`: column k of the triangular matrix; `others`: the same, with zeros in the rows that are solved already.
    """
    x = lax.dynamic_index_in_dim(b, k, 0, keepdims=False)
    x = x / lax.dynamic_index_in_dim(entries, k, 0)
    return lax.dynamic_update_index_in_dim(b - others[:, None] * x[None], x, k, 0)


def _one_solve(factor: Float[Array, "n n"], rhs: Float[Array, "n k"]) -> Float[Array, "n k"]:
    return _cho_solve((factor, True), rhs)


_cholesky = _for_batches(jnp.linalg.cholesky, _factors)
_cho_solve_of = _for_batches(_one_solve, _solves)


@jax.custom_jvp
def cholesky(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """L with L Lᵀ = A, with derivatives; NaN for a matrix that is not positive definite."""
    return _cholesky(matrix)


@cholesky.defjvp
def _cholesky_jvp(primals, tangents):
    return cholesky(*primals), jax.jvp(jnp.linalg.cholesky, primals, tangents)[1]


def cho_solve(factor: Float[Array, "n n"], rhs: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Solves L Lᵀ x = b, with derivatives."""

    def solve(_, b):
        return _cho_solve_of(factor, b)

    return lax.custom_linear_solve(lambda x: factor @ (factor.T @ x), rhs, solve, symmetric=True)
