"""The condensed problem's linear equations: a Riccati recursion over the intervals, bordered by a Schur complement.

With o = (δ, c, p), the recursion eliminates the nodes and controls for several right-hand sides at once: one for each
condition at the ends and one for each parameter when the matrix is factored, then one for each residual. Small dense
systems give the conditions' multipliers y and the parameters:

    S y − C p = e ,    Cᵀ y + T₀ p = −g .

p is eliminated first, by T₀⁻¹, because S is singular if only parameters, such as a duration, can meet a condition.
The pivots are positive exactly if the problem with its conditions, which have a large penalty, is strictly convex.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from jaxhamel.control._interior_point._condensation import Condensed, Shapes
from jaxhamel.control._interior_point._many_matrices import cho_solve, cholesky

# The diagonals of S and T₀, scaled to 1, are raised by these powers of the rounding unit: that of S because conditions may
# be dependent, that of T₀ by less, because equations along the path make T₀ large by 1/ε in all directions but the few in
# which parameters are free. With 0.6 for both, Newton's method had not converged after 40 steps; now it takes 10.
RAISED_S, RAISED_T = 0.6, 0.9


class Increments(NamedTuple):
    """Increments o of all intervals, costates λ_0 … λ_N with λ_N = 0, and multipliers y of the conditions."""

    o: Float[Array, "N o"]
    costates: Float[Array, "N+1 d"]
    conditions: Float[Array, " b"]


class Recursion(NamedTuple):
    """For each interval: the Riccati matrix P at its end, Cholesky's factor L of the controls' matrix, the gains."""

    P: Float[Array, "N d d"]
    L: Float[Array, "N c c"]
    gains: Float[Array, "N c d"]


class Factored(NamedTuple):
    """A factored problem.

    - `moves`, `costates`: the responses of (δ, c) and of the costates to unit multipliers of the conditions and to unit
      parameters, `(N, z, b+p)` and `(N+1, d, b+p)`.
    - `S`, `T`: Cholesky's factors of S + C T₀⁻¹ Cᵀ and of T₀, with the roots of their diagonals.
    - `C`: the derivative of the conditions by p; `across`: T₀⁻¹ Cᵀ; `convex`: whether all pivots are positive.
    """

    recursion: Recursion
    moves: Float[Array, "N z k"]
    costates: Float[Array, "N+1 d k"]
    S: Any
    T: Any
    C: Float[Array, "b p"]
    across: Float[Array, "p b"]
    convex: Bool[Array, ""]


def factor(condensed: Condensed, shapes: Shapes) -> Factored:
    """Factors the equations of the stationary point of ½ oᵀ H o under δ_{i+1} = A o and D o = 0."""
    d, z = shapes.d, shapes.d + shapes.c
    H, A, D = condensed.H, condensed.A, condensed.D
    recursion, convex = _recursion(H[:, :z, :z], A[:, :, :z], d)
    columns = jnp.concatenate([jnp.swapaxes(D, 1, 2)[:, :z], H[:, :z, z:]], axis=2)
    none = jnp.zeros((A.shape[0], d, D.shape[1]), H.dtype)
    shifts = jnp.concatenate([none, A[:, :, z:]], axis=2)
    moves, costates = _sweep(recursion, A[:, :, :z], columns, shifts)
    b = D.shape[1]
    S = -jnp.einsum("ibz,izk->bk", D[:, :, :z], moves[..., :b])
    C = jnp.einsum("ibz,izp->bp", D[:, :, :z], moves[..., b:]) + jnp.sum(D[:, :, z:], axis=0)
    T = jnp.einsum("izp,izk->pk", H[:, :z, z:], moves[..., b:])
    T = T + jnp.einsum("idp,idk->pk", A[:, :, z:], costates[1:, :, b:])
    S, T, across, positive = _border(S, T + jnp.sum(H[:, z:, z:], axis=0), C)
    return Factored(recursion, moves, costates, S, T, C, across, convex & positive)


def _border(S, T, C):
    """The factors S, T and `across` of the small systems, and whether their pivots are positive."""
    T, first = _cholesky(T, RAISED_T)
    across = _positive_solve(T, C.T)
    S, second = _cholesky(S + C @ across, RAISED_S, _without_gradient(S, C))
    return S, T, across, first & second


def _without_gradient(S, C) -> Bool[Array, " b"]:
    """Whether the gradient of a condition by all unknowns is zero up to rounding.

    Conditions have a large penalty, so that the entries of S are about as large for all others. Scaled to 1, such an entry
    would count as a gradient, and the step to meet the condition would be 1e16 long.
    """
    diagonal = jnp.diagonal(S)
    tiny = float(jnp.finfo(S.dtype).eps) ** 1.3 * jnp.max(diagonal, initial=0.0)
    return (diagonal <= tiny) & jnp.all(C == 0.0, axis=1)


def _border_solve(factored: Factored, e, pull) -> tuple[Array, Array]:
    """Solves S y − C p = e, Cᵀ y + T₀ p = −`pull` for (y, p)."""
    p = -_positive_solve(factored.T, pull[:, None])[:, 0]
    y = _positive_solve(factored.S, (e + factored.C @ p)[:, None])[:, 0]
    return y, p - factored.across @ y


def correction(
    condensed: Condensed, shapes: Shapes, factored: Factored, g: Array, b: Array, e: Array
) -> Increments:
    """The stationary point of ½ oᵀ H o + g·o under δ_{i+1} = A o + b and D o + e = 0."""
    z = shapes.d + shapes.c
    D, A = condensed.D, condensed.A
    moves, costates = _sweep(factored.recursion, A[:, :, :z], g[:, :z, None], b[:, :, None])
    missing = jnp.einsum("ibz,iz->b", D[:, :, :z], moves[..., 0]) + e
    pull = jnp.einsum("izp,iz->p", condensed.H[:, :z, z:], moves[..., 0])
    pull = pull + jnp.einsum("idp,id->p", A[:, :, z:], costates[1:, :, 0])
    pull = pull + jnp.sum(g[:, z:], axis=0)
    y, p = _border_solve(factored, missing, pull)
    factors = jnp.concatenate([y, p])
    inner = moves[..., 0] + factored.moves @ factors
    o = jnp.concatenate([inner, jnp.broadcast_to(p[None], (inner.shape[0], p.shape[0]))], axis=1)
    return Increments(o, costates[..., 0] + factored.costates @ factors, y)


def _recursion(H, A, d: int) -> tuple[Recursion, Bool[Array, ""]]:
    """The Riccati recursion from the last interval to the first, and whether all pivots are positive."""

    def back(P, at):
        H, A = at
        Q = H + A.T @ P @ A
        L = cholesky(Q[d:, d:])
        gains = cho_solve(L, Q[d:, :d])
        new = Q[:d, :d] - Q[:d, d:] @ gains
        return 0.5 * (new + new.T), Recursion(P, L, gains)

    _, kept = jax.lax.scan(back, jnp.zeros((d, d), H.dtype), (H, A), reverse=True)
    return kept, jnp.all(jnp.isfinite(kept.L))


def _sweep(recursion: Recursion, A, columns, shifts) -> tuple[Array, Array]:
    """Solves the recursion for k right-hand sides, the columns: returns ((δ, c) `(N, z, k)`, λ_0 … λ_N `(N+1, d, k)`)."""
    d = A.shape[1]

    def back(slope, at):
        (P, L, gains), A, column, shift = at
        q = column + A.T @ (P @ shift + slope)
        return q[:d] - gains.T @ q[d:], (slope, cho_solve(L, q[d:]))

    end = jnp.zeros((d, columns.shape[2]), columns.dtype)
    first, (slopes, own) = jax.lax.scan(back, end, (recursion, A, columns, shifts), reverse=True)

    def forward(delta, at):
        (P, _, gains), own, A, shift, slope = at
        z = jnp.concatenate([delta, -(gains @ delta + own)])
        delta = A @ z + shift
        return delta, (z, P @ delta + slope)

    _, (moves, costates) = jax.lax.scan(forward, end, (recursion, own, A, shifts, slopes))
    return moves, jnp.concatenate([first[None], costates])


def _cholesky(matrix: Array, power: float, zero: Any = False) -> tuple[Any, Bool[Array, ""]]:
    """((Cholesky's factor of a matrix scaled to a unit diagonal, roots of its diagonal), whether it is positive definite).

    The diagonal is raised by (rounding unit)^`power`. Rows that count as `zero` are not scaled.
    """
    if not matrix.shape[0]:
        return (matrix, jnp.diagonal(matrix)), jnp.asarray(True)
    diagonal = jnp.diagonal(matrix)
    roots = jnp.sqrt(jnp.where((diagonal > 0) & ~jnp.asarray(zero), diagonal, 1.0))
    scaled = 0.5 * (matrix + matrix.T) / roots[:, None] / roots[None]
    raised = float(jnp.finfo(matrix.dtype).eps) ** power * jnp.eye(
        len(diagonal), dtype=matrix.dtype
    )
    L = cholesky(scaled + raised)
    return (L, roots), jnp.all(jnp.isfinite(L))


def _positive_solve(root: Any, right: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """Solves A x = `right` with the factor and the roots from `_cholesky`."""
    L, roots = root
    if not right.size:
        return right
    return cho_solve(L, right / roots[:, None]) / roots[:, None]
