"""LAPACK under `vmap`: one matrix after another, since batched calls can deadlock.

In jaxlib before 0.12 a batched LAPACK call on the CPU divides its batch among XLA's threads and waits for them in one of
these threads. If as many of these calls run at once as there are threads, two on two cores, each waits for a thread and none
ends (docs/performance.md#lapack-under-vmap). A call for one matrix is not divided.
"""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import jaxlib.version
from jax import lax
from jax.custom_batching import custom_vmap
from jax.scipy.linalg import lu_factor, lu_solve
from jax.scipy.linalg import solve_triangular as _solve_triangular
from jaxtyping import Array, Float

CAN_WAIT_FOR_EVER = jaxlib.version.__version_info__ < (0, 12)


def one_by_one(function: Callable) -> Callable:
    """`function` of matrices; under `vmap` on the CPU a loop over the matrices, if batched LAPACK calls can deadlock.

    The result has no derivative: the caller defines one.
    """
    if not CAN_WAIT_FOR_EVER:
        return function

    @custom_vmap
    def of_one(*matrices):
        return function(*matrices)

    @of_one.def_vmap
    def of_many(size, batched, *matrices):
        full = [
            x if has_batch else jnp.broadcast_to(x, (size, *jnp.shape(x)))
            for x, has_batch in zip(matrices, batched, strict=True)
        ]

        def in_turn(*x):
            return lax.map(lambda each: of_one(*each), x)

        found = lax.platform_dependent(*full, cpu=in_turn, default=jax.vmap(function))
        return found, jax.tree.map(lambda _: True, found)

    return of_one


# The most columns of one solve: OpenBLAS divides more of them among threads, which wait far longer than they compute.
COLUMNS_AT_ONCE = 7


def _by_columns(matrix: Float[Array, "n n"], rhs: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """A⁻¹ b, with `COLUMNS_AT_ONCE` columns of b at a time."""
    factors, (n, k) = lu_factor(matrix), rhs.shape
    blocks = -(-k // COLUMNS_AT_ONCE)
    padded = jnp.pad(rhs, ((0, 0), (0, blocks * COLUMNS_AT_ONCE - k)))
    each = jnp.swapaxes(padded.reshape(n, blocks, COLUMNS_AT_ONCE), 0, 1)
    found = lax.map(lambda b: lu_solve(factors, b), each)
    return jnp.swapaxes(found, 0, 1).reshape(n, -1)[:, :k]


_solve = one_by_one(jnp.linalg.solve)
_solve_by_columns = one_by_one(_by_columns)
_triangular = {
    trans: one_by_one(partial(_solve_triangular, lower=True, trans=trans, unit_diagonal=True))
    for trans in ("N", "T")
}


def solve(matrix: Float[Array, "n n"], rhs: Float[Array, "n *k"]) -> Float[Array, "n *k"]:
    """x of A x = b, with derivatives."""
    return _solve_with(_solve, matrix, rhs)


def _solve_with(solver: Callable[..., Array], matrix: Array, rhs: Array) -> Array:
    return lax.custom_linear_solve(
        lambda x: matrix @ x,
        rhs,
        lambda _, b: solver(matrix, b),
        lambda _, b: solver(matrix.T, b),
    )


def inverse(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A⁻¹, with derivatives."""
    matrix = jnp.asarray(matrix)
    return solve(matrix, jnp.eye(matrix.shape[0], dtype=matrix.dtype))


def inverse_by_columns(matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """A⁻¹, with derivatives, computed on one thread: faster for large A (docs/performance.md#inverses-on-one-thread)."""
    unit = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    return _solve_with(_solve_by_columns, matrix, unit)


def solve_triangular(
    lower: Float[Array, "n n"], rhs: Float[Array, "n *k"], trans: str = "N"
) -> Float[Array, "n *k"]:
    """L⁻¹ b, or L⁻ᵀ b for `trans="T"`, with L unit lower triangular; derivatives with respect to b only."""
    other = "T" if trans == "N" else "N"
    whole = lower if trans == "N" else lower.T
    return lax.custom_linear_solve(
        lambda x: whole @ x,
        rhs,
        lambda _, b: _triangular[trans](lower, b),
        lambda _, b: _triangular[other](lower, b),
    )
