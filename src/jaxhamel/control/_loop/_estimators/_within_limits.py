"""The least squares of a chain of linear equations whose states are kept within limits, by a primal–dual interior point:

    s_i = A_i δ_i + b_i ≥ 0 ,   z_i ≥ 0 ,   s_i z_i = μ → 0 ,   z_i the multipliers.

With Δs and Δz eliminated, a Newton step is the least squares of the same chain with more observations: those of A_i δ_i,
whose values are s_i − b_i + μ / z_i and whose variances are s_i / z_i. So each Newton step is one pass of the smoother.

Source: Wright 1997, ch. 5; Bell, Burke and Pillonetto 2009 for smoothers within limits.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._loop._estimators._smoother import Chain, filtered, smoothed

STEPS = 25  # number of Newton steps: from μ = 1 to the least μ, 12 to 20 are needed
CENTRE = 0.1  # μ of a step, as a share of the mean of s z
TO_BORDER = 0.995  # the longest step, as a share of the way to the nearest limit


class Inequalities(NamedTuple):
    """The inequalities A_i δ_i + b_i ≥ 0; a row with A = 0 and b = 1 stands for a limit without a bound."""

    A: Float[Array, "N l m"]
    b: Float[Array, "N l"]

    def slack(self, deltas: Float[Array, "N m"]) -> Float[Array, "N l"]:
        """s = A δ + b."""
        return jnp.einsum("ilm,im->il", self.A, deltas) + self.b


class _Iterate(NamedTuple):
    deltas: Float[Array, "N m"]
    s: Float[Array, "N l"]
    z: Float[Array, "N l"]


def within(
    limits: Inequalities, chain: Chain, m: Array, P: Array, R: Array, free: Array, C: Array
) -> Float[Array, "N m"]:
    """The δ_i that minimise the sum of squares within the limits.

    `free`, `C`: the solution without limits, and its covariances. If `free` keeps the limits, it is the solution.
    """
    turn = partial(_improved, limits, chain, m, P, R)

    def searched():
        first = _first_iterate(limits, free, C)
        return jax.lax.fori_loop(0, STEPS, lambda _, x: turn(x), first).deltas

    kept = jnp.all(limits.slack(free) >= 0)
    found = jax.lax.cond(kept, lambda: free, searched)
    return jnp.where(jnp.all(jnp.isfinite(found)), found, free)


def _first_iterate(limits: Inequalities, free: Array, C: Array) -> _Iterate:
    """The first iterate: the solution without limits, with slacks of at least a standard deviation, and s z = 1.

    It has no derivatives, since the solution does not depend on it.
    """
    limits, free, C = jax.lax.stop_gradient((limits, free, C))
    spread = jnp.sqrt(jnp.einsum("ilm,imn,iln->il", limits.A, C, limits.A))
    least = jnp.sqrt(jnp.finfo(free.dtype).eps) * (1 + jnp.abs(limits.b))
    s = jnp.maximum(limits.slack(free), jnp.maximum(spread, least))
    return _Iterate(free, s, 1 / s)


def _improved(
    limits: Inequalities, chain: Chain, m: Array, P: Array, R: Array, at: _Iterate
) -> _Iterate:
    """The iterate after a Newton step."""
    s, z = at.s, at.z
    mu = jnp.maximum(CENTRE * jnp.mean(s * z), jnp.finfo(s.dtype).eps ** 0.75)
    more = _observed(limits, chain, s - limits.b + mu / z, z / s)
    one = jnp.eye(s.shape[1], dtype=s.dtype)
    R = jax.scipy.linalg.block_diag(R, one)
    deltas = smoothed(more, filtered(more, m, P, R))
    ds = limits.slack(deltas) - s
    dz = mu / s - z - z / s * ds
    share = jnp.minimum(_to_border(s, ds), _to_border(z, dz))
    steps = deltas - at.deltas, ds, dz
    return _Iterate(*(x + share * step for x, step in zip(at, steps, strict=True)))


def _observed(limits: Inequalities, chain: Chain, seen: Array, weight: Array) -> Chain:
    """The chain with further observations of A δ, scaled to a variance of 1."""
    root = jnp.sqrt(weight)
    H = jnp.concatenate([chain.H, root[:, :, None] * limits.A], 1)
    return chain._replace(H=H, r=jnp.concatenate([chain.r, root * seen], 1))


def _to_border(x: Array, step: Array) -> Scalar:
    """The largest share of a step, at most 1, after which x is positive."""
    shrinks = step < 0
    ratios = jnp.where(shrinks, x / jnp.where(shrinks, -step, 1.0), jnp.inf)
    return jnp.minimum(1.0, TO_BORDER * jnp.min(ratios)).astype(x.dtype)
