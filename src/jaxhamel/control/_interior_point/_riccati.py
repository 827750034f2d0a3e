"""The condensed problem's linear equations: a Riccati recursion over the intervals, bordered by a Schur complement.

With o = (δ, c, p), the recursion eliminates the nodes and controls for several right-hand sides at once: the problem's own,
one for each condition at the ends, one for each parameter. A small dense system then gives the conditions' multipliers y
and the parameters. The pivots are positive exactly if the problem with its conditions is strictly convex.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Bool, Float

from jaxhamel.control._interior_point._condensation import Condensed, Shapes


class Solution(NamedTuple):
    """Increments o of all intervals, costates λ_0 … λ_{N−1}, y, and whether all pivots are positive."""

    o: Float[Array, "N o"]
    costates: Float[Array, "N d"]
    conditions: Float[Array, " b"]
    convex: Bool[Array, ""]


def solve(condensed: Condensed, shapes: Shapes) -> Solution:
    """The stationary point of the condensed problem."""
    z = shapes.d + shapes.c
    columns = jnp.concatenate(
        [condensed.g[:, :z, None], jnp.swapaxes(condensed.D, 1, 2)[:, :z], condensed.H[:, :z, z:]],
        axis=2,
    )
    none = jnp.zeros((*condensed.b.shape, condensed.D.shape[1]), condensed.b.dtype)
    shifts = jnp.concatenate([condensed.b[:, :, None], none, condensed.A[:, :, z:]], axis=2)
    moves, costates, convex = _recursion(
        condensed.H[:, :z, :z], columns, condensed.A[:, :, :z], shifts, shapes.d
    )
    y, p, border_convex = _border(condensed, shapes, moves, costates)
    factors = jnp.concatenate([jnp.ones(1, y.dtype), y, p])
    inner = moves @ factors
    o = jnp.concatenate([inner, jnp.broadcast_to(p[None], (inner.shape[0], p.shape[0]))], axis=1)
    return Solution(o, costates[:-1] @ factors, y, convex & border_convex)


def _recursion(H, columns, A, shifts, d: int) -> tuple[Array, Array, Array]:
    """((δ, c) `(N, z, k)`, λ_0 … λ_N `(N+1, d, k)`, whether convex), each column a right-hand side."""
    many = columns.shape[2]

    def back(carry, at):
        P, slope = carry
        H, column, A, shift = at
        Q = H + A.T @ P @ A
        q = column + A.T @ (P @ shift + slope)
        L = jnp.linalg.cholesky(Q[d:, d:])
        gains = cho_solve((L, True), jnp.concatenate([Q[d:, :d], q[d:]], axis=1))
        new = Q[:d, :d] - Q[:d, d:] @ gains[:, :d]
        slope = q[:d] - Q[:d, d:] @ gains[:, d:]
        return (0.5 * (new + new.T), slope), (P, carry[1], gains, jnp.all(jnp.isfinite(L)))

    dtype = H.dtype
    end = jnp.zeros((d, d), dtype), jnp.zeros((d, many), dtype)
    (_, first), (P, slopes, gains, convex) = jax.lax.scan(
        back, end, (H, columns, A, shifts), reverse=True
    )

    def forward(delta, at):
        gains, A, shift, P, slope = at
        c = -(gains[:, :d] @ delta + gains[:, d:])
        z = jnp.concatenate([delta, c])
        delta = A @ z + shift
        return delta, (z, P @ delta + slope)

    start = jnp.zeros((d, many), dtype)
    _, (moves, costates) = jax.lax.scan(forward, start, (gains, A, shifts, P, slopes))
    return moves, jnp.concatenate([first[None], costates]), jnp.all(convex)


def _border(condensed: Condensed, shapes: Shapes, moves, costates) -> tuple[Array, Array, Any]:
    """(y, p, whether the border is convex)."""
    z, b = shapes.d + shapes.c, condensed.D.shape[1]
    of_y = jnp.einsum("ibz,izk->bk", condensed.D[:, :, :z], moves)
    of_p = jnp.einsum("izp,izk->pk", condensed.H[:, :z, z:], moves)
    of_p = of_p + jnp.einsum("idp,idk->pk", condensed.A[:, :, z:], costates[1:])
    D_p, H_p = jnp.sum(condensed.D[:, :, z:], axis=0), jnp.sum(condensed.H[:, z:, z:], axis=0)
    right_y = -(of_y[:, 0] + condensed.e)
    right_p = -(of_p[:, 0] + jnp.sum(condensed.g[:, z:], axis=0))
    S = -of_y[:, 1 : 1 + b]
    C = of_y[:, 1 + b :] + D_p
    y, by_p, first = _positive_solve(S, -right_y, C)
    # y = by_0 + by_p p; C.T y + T p = right_p
    T = of_p[:, 1 + b :] + H_p + C.T @ by_p
    p, _, second = _positive_solve(T, right_p - C.T @ y, jnp.zeros((shapes.p, 0), T.dtype))
    return y + by_p @ p, p, first & second


def _positive_solve(S: Array, right: Array, more: Array) -> tuple[Array, Array, Any]:
    """S⁻¹ of a vector and of a matrix, by Cholesky's method; its diagonal is raised by rounding, since conditions may be
    dependent."""
    if not S.shape[0]:
        return right, more, jnp.asarray(True)
    S = 0.5 * (S + S.T)
    tiny = 1e3 * jnp.finfo(S.dtype).eps * jnp.max(jnp.abs(jnp.diagonal(S)))
    L = jnp.linalg.cholesky(S + tiny * jnp.eye(S.shape[0], dtype=S.dtype))
    found = cho_solve((L, True), jnp.concatenate([right[:, None], more], axis=1))
    return found[:, 0], found[:, 1:], jnp.all(jnp.isfinite(L))
