"""The least-squares solution of a chain of linear equations in time: a filter forward, an adjoint backward.

    δ_0 ~ N(m, P) ,   r_i = H_i δ_i + e_i ,   e_i ~ N(0, R) ,   δ_{i+1} = f_i + F_i δ_i + w_i ,   w_i ~ N(0, Q_i) .

Neither Q nor P is inverted, so that both may be singular. The solution is that of the block tridiagonal equations of all
δ_i.

Source: Bierman 1973 (modified Bryson–Frazier smoother).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


class Chain(NamedTuple):
    """The matrices and vectors of the equations at N times.

    The first times, as many as `live` marks, have samples. From the last of these on, F, f and Q are 0.
    """

    F: Float[Array, "N m m"]
    f: Float[Array, "N m"]
    Q: Float[Array, "N m m"]
    H: Float[Array, "N r m"]
    r: Float[Array, "N r"]
    live: Bool[Array, " N"]


class Filtered(NamedTuple):
    """The filter at each time: δ ~ N(m, P) before its observation and δ ~ N(best, C) after it.

    `keep`: 1 − K H; `pull`: Hᵀ S⁻¹ (r − H m).
    """

    m: Float[Array, "N m"]
    P: Float[Array, "N m m"]
    best: Float[Array, "N m"]
    C: Float[Array, "N m m"]
    keep: Float[Array, "N m m"]
    pull: Float[Array, "N m"]


def filtered(chain: Chain, m: Float[Array, " m"], P: Float[Array, "m m"], R: Array) -> Filtered:
    """The forward pass: Kalman's filter."""

    def turn(carry, at: Chain):
        m, P = carry
        gain = jnp.linalg.solve(at.H @ P @ at.H.T + R, jnp.column_stack([at.H, at.r - at.H @ m]))
        keep = jnp.eye(len(m), dtype=m.dtype) - P @ at.H.T @ gain[:, :-1]
        K, pull = P @ gain[:, :-1].T, at.H.T @ gain[:, -1]
        best, C = m + P @ pull, keep @ P @ keep.T + K @ R @ K.T
        later = at.f + at.F @ best, at.F @ C @ at.F.T + at.Q
        return later, Filtered(m, P, best, C, keep, pull)

    return jax.lax.scan(turn, (m, P), chain)[1]


def smoothed(chain: Chain, found: Filtered) -> Float[Array, "N m"]:
    """The backward pass: the means of all δ_i, given all observations."""

    def turn(adjoint, at: tuple[Chain, Filtered]):
        chain, found = at
        after = chain.F.T @ adjoint
        before = jnp.where(chain.live, found.keep.T @ after - found.pull, 0.0)
        return before, found.best - found.C @ after

    none = jnp.zeros_like(found.m[0])
    return jax.lax.scan(turn, none, (chain, found), reverse=True)[1]
