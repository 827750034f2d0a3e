"""The solution of symmetric linear equations as one JAX primitive:

    M x = b ,     ẋ = M⁻¹ (ḃ − Ṁ x) ,     b̄ = M⁻¹ x̄ ,     M̄ = −b̄ xᵀ .

Lanes write it out entry by entry as LDLᵀ, in which entries that are known to be zero cost nothing; outside lanes a given
function of arrays computes it. A derivative is one more solution with the same matrix, so that lanes factorise the matrix
once. JAX neither traces nor transposes the n³/3 operations of a factorisation.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.interpreters import ad
from jaxtyping import Array, Float

from jaxhamel._lanes._own_primitive import own_primitive


def symmetric_solve(
    matrix: Float[Array, "n n"],
    rhs: Float[Array, " n"] | Float[Array, "n k"],
    arrays: Callable,
) -> Float[Array, " n"] | Float[Array, "n k"]:
    """x of M x = b; the lower triangle of M is read.

    **Arguments:** `matrix` M and `rhs` b, of one dtype. `arrays`: a function of (M, b), with b `(n, k)`, that solves the
    equations outside lanes. It must be the same object in each call, since a new function would be compiled anew.
    """
    columns = rhs if rhs.ndim == 2 else rhs[:, None]
    return jnp.reshape(_solve_p.bind(matrix, columns, arrays=arrays), rhs.shape)


def _run(matrix, rhs, *, arrays):
    if matrix.ndim == 2:
        return arrays(matrix, rhs)
    return jax.vmap(lambda m, b: _run(m, b, arrays=arrays))(matrix, rhs)


def _abstract(matrix, rhs, *, arrays):
    del matrix, arrays
    return ShapedArray(rhs.shape, rhs.dtype)


def _jvp(primals, tangents, *, arrays):
    (matrix, rhs), (d_matrix, d_rhs) = primals, tangents
    x = _solve_p.bind(matrix, rhs, arrays=arrays)
    changes = [] if isinstance(d_rhs, ad.Zero) else [d_rhs]
    changes += [] if isinstance(d_matrix, ad.Zero) else [-(d_matrix @ x)]
    if not changes:
        return x, ad.Zero(jax.typeof(x).to_tangent_aval())
    return x, _solve_p.bind(matrix, sum(changes[1:], start=changes[0]), arrays=arrays)


def _transpose(x_bar, matrix, rhs, *, arrays):
    """b̄ = M⁻¹ x̄, since M is symmetric; M has no cotangent here, as x is not linear in it."""
    if isinstance(x_bar, ad.Zero):
        return [None, ad.Zero(rhs.aval)]
    return [None, _solve_p.bind(matrix, x_bar, arrays=arrays)]


def _batch(values, axes, *, arrays):
    (matrix, rhs), (of_matrix, of_rhs) = values, axes
    if (
        of_matrix is None
    ):  # one matrix for the whole batch, whose right-hand sides become its columns
        columns = jnp.moveaxis(rhs, of_rhs, -1)
        flat = columns.reshape(*columns.shape[:-2], -1)
        x = _solve_p.bind(matrix, flat, arrays=arrays)
        return x.reshape(columns.shape), columns.ndim - 1
    matrix = jnp.moveaxis(matrix, of_matrix, 0)
    if of_rhs is None:
        rhs, of_rhs = jnp.broadcast_to(rhs, (matrix.shape[0], *rhs.shape)), 0
    rhs = jnp.moveaxis(rhs, of_rhs, 0)
    return _solve_p.bind(matrix, rhs, arrays=arrays), 0


_solve_p = own_primitive(
    "symmetric_solve",
    run=jax.jit(_run, static_argnames="arrays"),
    abstract=_abstract,
    jvp=_jvp,
    batch=_batch,
    transpose=_transpose,
    lowered=_run,
    multiple_results=False,
)
NAME = _solve_p.name
