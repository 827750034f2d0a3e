"""Truncated Taylor series of constraint rows and of the vector fields that they allow, in NumPy.

In exponential coordinates φ around q the rows are R(φ) = A(q·exp φ) dexp(−φ), the allowed fields the columns of

    [R(φ); N] Z(φ) = [0; 1] ,      N an orthonormal kernel of A(q) ,

and the bracket of two of them is that of R^n, [X, Y]^c = X^a ∂_a Y^c − Y^a ∂_a X^c, whose value at φ = 0 is the bracket in
left-trivialised components. A series is an array of its coefficients, one for each monomial of degree ≤ p.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations_with_replacement
from math import factorial, prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry._space import AbstractSpace


class Products(NamedTuple):
    """All pairs of monomials, with indices `left[i]` and `right[i]`, whose product has degree ≤ p, sorted by the product.

    `starts`: for each monomial the index of the first pair with this product.
    """

    left: np.ndarray
    right: np.ndarray
    starts: np.ndarray


@lru_cache(maxsize=64)
def monomials(n: int, degree: int) -> list[tuple[int, ...]]:
    """The monomials of n variables up to a degree, each as the sorted indices of its factors, by degree."""
    return [
        m for p in range(degree + 1) for m in combinations_with_replacement(range(n), p)
    ]  # fmt: skip


@lru_cache(maxsize=64)
def products(n: int, degree: int) -> Products:
    """All pairs of monomials with a product of at most that degree."""
    every = monomials(n, degree)
    place = {m: i for i, m in enumerate(every)}
    pairs = sorted(
        (place[tuple(sorted(a + b))], place[a], place[b])
        for a in every
        for b in monomials(n, degree - len(a))
    )
    product, left, right = np.array(pairs).T
    return Products(left, right, np.searchsorted(product, np.arange(len(every))))


@lru_cache(maxsize=64)
def _derivative_table(n: int, degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Arrays (place, factor) of shape `(monomials up to degree − 1, n)`: the coefficients of the derivative ∂_a of a series
    are factor[:, a] · series[place[:, a]].
    """
    place = {m: i for i, m in enumerate(monomials(n, degree))}
    lower = monomials(n, degree - 1)
    raised = [[tuple(sorted((*m, a))) for a in range(n)] for m in lower]
    where = np.array([[place[r] for r in row] for row in raised]).reshape(len(lower), n)
    factor = np.array([[r.count(a) for a, r in enumerate(row)] for row in raised], dtype=float)
    return where, factor.reshape(len(lower), n)


def bracket(X: np.ndarray, Y: np.ndarray, degree: int) -> np.ndarray:
    """The series of the Lie brackets [X, Y^j] for several fields Y^j, to degree − 1.

    **Arguments:** X `(monomials, n)` and Y `(monomials, n, j)`: series to `degree`. **Returns:** `(monomials, n, j)`.
    """
    n = X.shape[1]
    left, right, starts = products(n, degree - 1)
    where, factor = _derivative_table(n, degree)
    dX = X[where] * factor[..., None]  # [monomial, a, c]
    dY = Y[where] * factor[..., None, None]  # [monomial, a, c, j]
    along_x = np.einsum("pa,pacj->pcj", X[left], dY[right])
    along_y = np.einsum("paj,pac->pcj", Y[left], dX[right])
    return np.add.reduceat(along_x - along_y, starts)


def coefficients(
    constraints: Callable[..., Any], points: Sequence[Any], space: AbstractSpace, order: int
):
    """The Taylor coefficients of R(φ) of the degree `order`, at several points q.

    **Returns:** `(points, monomials, m, n)`, for the monomials of exactly this degree.
    """
    q = jax.tree.map(lambda *each: jnp.stack(each), *points)
    dtype = jnp.result_type(*jax.tree.leaves(q))
    kinds = list(combinations_with_replacement(range(space.dim), order))
    indices = np.array(kinds, dtype=int).reshape(len(kinds), order)
    directions = jnp.eye(space.dim, dtype=dtype)[indices]

    def rows(phi, q, _):
        rows = constraints(space.retract(q, phi))
        return jnp.matmul(rows, space.dexp(-phi), precision=jax.lax.Precision.HIGHEST)

    function = rows
    for i in range(order):
        function = _derivative_along(function, i)

    def at_zero(q, d):
        return function(jnp.zeros(space.dim, dtype), q, d)

    everywhere = jax.vmap(jax.vmap(at_zero, in_axes=(None, 0)), in_axes=(0, None))
    values = np.asarray(jax.jit(everywhere)(q, directions), dtype=float)
    return values / _factorials(kinds)[:, None, None]


def _derivative_along(function: Callable[..., Any], i: int) -> Callable[..., Any]:
    """The derivative by φ of a function of (φ, q, directions), along `directions[i]`."""

    def derivative(phi, q, directions):
        def at_phi(phi):
            return function(phi, q, directions)

        return jax.jvp(at_phi, (phi,), (directions[i],))[1]

    return derivative


def _factorials(kinds) -> np.ndarray:
    """α! for the exponents α of each monomial: the derivative is α! times the Taylor coefficient."""
    return np.array([prod(factorial(each.count(a)) for a in set(each)) for each in kinds], float)


def allowed_fields(rows: np.ndarray, kernel: np.ndarray, degree: int) -> np.ndarray:
    """The series of the allowed fields Z(φ), `(monomials, n, k)`, solved degree by degree:

    [R_0; N] Z_p = −[Σ_{s>0} R_s Z_{p−s}; 0] .
    """
    m, n = rows.shape[1:]
    k = n - m
    start = np.linalg.inv(np.concatenate([rows[0], kernel]))
    every, Z = monomials(n, degree), np.zeros((rows.shape[0], n, k))
    Z[0] = start[:, m:]
    left, right, starts = products(n, degree)
    ends, lengths = np.append(starts[1:], len(left)), np.array([len(each) for each in every])
    for p in range(1, degree + 1):
        of_degree = np.flatnonzero(lengths == p)
        pairs = slice(starts[of_degree[0]], ends[of_degree[-1]])
        terms = np.einsum("pmn,pnk->pmk", rows[left[pairs]], Z[right[pairs]])
        sums = np.add.reduceat(terms, starts[of_degree] - starts[of_degree[0]])
        Z[of_degree] = -np.einsum("nm,pmk->pnk", start[:, :m], sums)
    return Z
