"""Linear equations with forces of constraint, M v̇ = f + Aᵀ λ and A v̇ = b, without A M⁻¹ Aᵀ.

With M = L D Lᵀ, v̇ = L⁻ᵀ y and W = A L⁻ᵀ they are D y = L⁻¹f + Wᵀ λ, W y = b. Gram–Schmidt on the rows of W in the
metric D⁻¹,

    W = T Ŵ ,   Ŵ D⁻¹ Ŵᵀ = N diagonal ,   T unit lower triangular,

leaves Tᵀ λ = N⁻¹ (T⁻¹b − Ŵ D⁻¹ L⁻¹f). Rows that nearly depend on one another, or masses many orders of magnitude apart, then
count with the condition number of W D^(−1/2); the matrix A M⁻¹ Aᵀ = T N Tᵀ has the square of it. A second sweep over the
rows, on the residual of the first, restores the orthogonality that Ŵ loses by rounding. No square root: M may be indefinite.

The derivative is that of the equations, one more solution: d(v̇, λ) has df + dAᵀ λ − dM v̇ and db − dA v̇ in the place of f, b.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel.mechanics._small_solve import Factors


@jax.custom_jvp
def constrained_solve(
    mass_matrix: Float[Array, "n n"],
    force: Float[Array, " n"],
    rows: Float[Array, "m n"],
    rate: Float[Array, " m"],
) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
    """(v̇, λ) with M v̇ = f + Aᵀ λ and A v̇ = b.

    **Arguments:** `mass_matrix` M, `(n, n)`, regular (its leading minors are not zero), of which the lower triangle is
    read; `force` f, `(n,)`; `rows` A, `(m, n)`, m ≥ 1, independent; `rate` b, `(m,)`.

    **Returns:** v̇, `(n,)`, and λ, `(m,)`; inf or NaN for a singular M or rows of which one is zero.

    Source: Gram–Schmidt with two sweeps, Björck, Numerical Methods for Least Squares Problems, 2.4.
    """
    factors = Factors.of(mass_matrix)
    orthogonal, triangle = _orthogonal_rows(factors, rows)
    wanted = _forward(triangle, rate)
    load = factors.forward(force)  # r of D y = r: L⁻¹f and the forces of constraint
    multiplier = [jnp.zeros((), load.dtype)] * len(wanted)
    for _ in range(2):
        for a, (row, along, inverse_square) in enumerate(orthogonal):
            step = (wanted[a] - jnp.dot(along, load)) * inverse_square
            load, multiplier[a] = load + step * row, multiplier[a] + step
    v_dot = factors.backward(load * factors.inverse_diagonal)
    return v_dot, _backward(triangle, multiplier)


def _orthogonal_rows(factors, rows):
    """(ŵ, D⁻¹ŵ, 1/(ŵ·D⁻¹ŵ)) of each row, and T as nested lists, its unit diagonal left out."""
    orthogonal, triangle = [], []
    for row in factors.forward(rows.T).T:
        shares = []
        for other, along, inverse_square in orthogonal:
            shares.append(jnp.dot(along, row) * inverse_square)
            row = row - shares[-1] * other
        along = factors.inverse_diagonal * row
        orthogonal.append((row, along, 1.0 / jnp.dot(along, row)))
        triangle.append(shares)
    return orthogonal, triangle


def _forward(triangle, rhs):
    """T⁻¹ b."""
    x = []
    for row, value in zip(triangle, rhs, strict=True):
        x.append(value - sum((share * y for share, y in zip(row, x, strict=True)), start=0.0))
    return x


def _backward(triangle, rhs):
    """T⁻ᵀ b."""
    x = list(rhs)
    for i in reversed(range(len(x))):
        for j in range(i):
            x[j] = x[j] - triangle[i][j] * x[i]
    return jnp.stack(x)


@constrained_solve.defjvp
def _constrained_solve_jvp(primals, tangents):
    (mass_matrix, _, rows, _), (d_mass_matrix, d_force, d_rows, d_rate) = primals, tangents
    v_dot, multiplier = solution = constrained_solve(*primals)
    force = d_force + multiplier @ d_rows - d_mass_matrix @ v_dot
    return solution, constrained_solve(mass_matrix, force, rows, d_rate - d_rows @ v_dot)
