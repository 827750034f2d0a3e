"""The mean of the largest values of an ensemble, for costs and chance constraints over parameters and noise."""

import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel.control._checks._region import check_tail


def tail_mean(values: ArrayLike, share: ArrayLike) -> Float[Array, "..."]:
    """The mean of the largest `share` of N values, the conditional value at risk of the ensemble:

        CVaR_p = min over c of  c + Σ_i max(v_i − c, 0) / (p N) .

    It replaces the chance constraint P(v > 0) ≤ p, on the safe side: if CVaR_p ≤ 0, at most p N of the values are positive.
    Unlike the number of positive values it has a derivative, so that `control.train` can lower it through the closed loops
    of an ensemble (docs/feedback.md). If p N is no whole number, the smallest of the largest values has a smaller weight;
    if p N ≤ 1, the result is the largest value.

    **Arguments:**

    - `values`: v, one for each member of the ensemble, `(N, ...)`.
    - `share`: p, 0 < p ≤ 1; 1: the mean of all.

    **Returns:** an array of the shape `(...)`; NaN where a value is.

    **Raises:** `TypeError` or `ValueError` for no values, or a share outside of (0, 1].

    Source: Rockafellar and Uryasev 2000.
    """
    check_tail(values, share)
    values = jnp.asarray(values)
    count = jnp.asarray(share, values.dtype) * values.shape[0]
    weights = jnp.clip(count - jnp.arange(values.shape[0]).astype(values.dtype), 0.0, 1.0)
    largest = jnp.flip(jnp.sort(values, axis=0), axis=0)
    return jnp.tensordot(weights / jnp.sum(weights), largest, axes=1)
