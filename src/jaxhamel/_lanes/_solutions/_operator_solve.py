"""The solution of symmetric linear equations whose matrix is given by its products with vectors, as one JAX primitive:

    M(c) x = b ,     M ẋ = ḃ − (∂(M x)/∂c) ċ ,     b̄ = M⁻¹ x̄ ,     c̄ = −(∂(M x)/∂c)ᵀ b̄ ,

where M(c) x is a program that is linear in x. Lanes compute the entries of M only where this takes fewer operations
(`_rules/_operator_solve.py`), and outside lanes M is made column by column. No derivative needs those of the entries of M:
it takes one product M x with tangents.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun
from jax.interpreters import ad
from jaxtyping import Array, Float

from jaxhamel._lanes._divided._jaxprs import traced_constants_first
from jaxhamel._lanes._own_primitive import own_primitive
from jaxhamel._lanes._solutions._symmetric_solve import symmetric_solve


def operator_solve(
    product: Callable, rhs: Float[Array, " n"], arrays: Callable
) -> Float[Array, " n"]:
    """x of M x = b, for a symmetric M.

    **Arguments:** `product`: the function x ↦ M x, linear in x, of the shape and dtype of `rhs`. `arrays`: as for
    `symmetric_solve`.
    """
    like = jax.ShapeDtypeStruct(rhs.shape, rhs.dtype)
    operator, constants = traced_constants_first(jax.make_jaxpr(product)(like))
    return _solve_p.bind(*constants, rhs[:, None], operator=operator, arrays=arrays)[:, 0]


def matrix_program(operator: ClosedJaxpr) -> ClosedJaxpr:
    """The program c ↦ M, `(n, n)`."""
    return jax.make_jaxpr(lambda *c: _matrix(operator, c))(*operator.in_avals[:-1])


def _matrix(operator: ClosedJaxpr, constants) -> Float[Array, "n n"]:
    x = operator.in_avals[-1]
    unit = jnp.eye(x.size, dtype=x.dtype)
    return jax.vmap(lambda e: jaxpr_as_fun(operator)(*constants, e)[0])(unit)


def solved_by_matrix(*values, operator, arrays):
    """The results of the primitive from its operands, by the entries of M."""
    *constants, rhs = values
    return symmetric_solve(_matrix(operator, constants), rhs, arrays)


def _abstract(*values, operator, arrays):
    del operator, arrays
    return ShapedArray(values[-1].shape, values[-1].dtype)


def _jvp(primals, tangents, *, operator, arrays):
    *constants, rhs = primals
    *rates, d_rhs = tangents

    def solve(b):
        return _solve_p.bind(*constants, b, operator=operator, arrays=arrays)

    x = solve(rhs)
    changes = [] if isinstance(d_rhs, ad.Zero) else [d_rhs]
    moving = [i for i, rate in enumerate(rates) if not isinstance(rate, ad.Zero)]
    if moving:
        changes.append(-_change_of_product(operator, constants, rates, moving, x))
    if not changes:
        return x, ad.Zero(jax.typeof(x).to_tangent_aval())
    return x, solve(sum(changes[1:], start=changes[0]))


def _change_of_product(operator, constants, rates, moving: list[int], x) -> Float[Array, "n k"]:
    """(∂(M x)/∂c) ċ for each column of x; `moving`: the indices of the constants c that have a rate."""

    def products(*changing):
        given = dict(enumerate(constants)) | dict(zip(moving, changing, strict=True))
        product = jaxpr_as_fun(operator)
        return jax.vmap(lambda column: product(*given.values(), column)[0], 1, 1)(x)

    at = [constants[i] for i in moving]
    return jax.jvp(products, at, [rates[i] for i in moving])[1]


def _transpose(x_bar, *values, operator, arrays):
    """b̄ = M⁻¹ x̄, since M is symmetric; c has no cotangent here, as x is not linear in it."""
    *constants, rhs = values
    if isinstance(x_bar, ad.Zero):
        return [*[None] * len(constants), ad.Zero(rhs.aval)]
    found = _solve_p.bind(*constants, x_bar, operator=operator, arrays=arrays)
    return [*[None] * len(constants), found]


def _batch(values, axes, *, operator, arrays):
    if any(axis is not None for axis in axes[:-1]):
        return jax.vmap(lambda *x: solved_by_matrix(*x, operator=operator, arrays=arrays), axes)(
            *values
        ), 0
    columns = jnp.moveaxis(values[-1], axes[-1], -1)
    flat = columns.reshape(len(columns), -1)
    x = _solve_p.bind(*values[:-1], flat, operator=operator, arrays=arrays)
    return x.reshape(columns.shape), columns.ndim - 1


_solve_p = own_primitive(
    "operator_solve",
    run=jax.jit(solved_by_matrix, static_argnames=("operator", "arrays")),
    abstract=_abstract,
    jvp=_jvp,
    batch=_batch,
    transpose=_transpose,
    lowered=solved_by_matrix,
    multiple_results=False,
)
NAME = _solve_p.name
