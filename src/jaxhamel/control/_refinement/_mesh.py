"""Meshes that spread the error evenly over their intervals."""

import numpy as np
from jaxtyping import Float

LEAST_DENSITY = (
    0.2  # of the nodes, as a fraction of the mean: no interval becomes much longer than it was
)


def evenly_spread(
    shares: Float[np.ndarray, " N+1"], errors: Float[np.ndarray, " N"], order: int, count: int
) -> Float[np.ndarray, " M+1"]:
    """The mesh of `count` intervals on which errors ε ∝ (length)^order are equal.

    **Arguments:** `shares`: the present mesh, from 0 to 1; `errors`: ε of its intervals.

    Source: Ascher, Mattheij and Russell 1995, section 9.1.1.
    """
    lengths = np.diff(shares)
    parts = _parts(errors, order)
    density = parts / lengths
    density = np.maximum(density / np.sum(parts), LEAST_DENSITY)
    cumulative = np.append(0.0, np.cumsum(density * lengths))
    even = np.linspace(0.0, cumulative[-1], count + 1)
    mesh = np.interp(even, cumulative, shares)
    mesh[[0, -1]] = 0.0, 1.0
    return mesh


def expected_error(errors: Float[np.ndarray, " N"], order: int, count: int) -> float:
    """The largest error on `evenly_spread`: (Σ ε_i^{1/order} / count)^order."""
    return float((np.sum(_parts(errors, order)) / count) ** order)


def _parts(errors: Float[np.ndarray, " N"], order: int) -> Float[np.ndarray, " N"]:
    """ε^{1/order}; zeros are raised, so that each interval counts."""
    least = 1e-6 * np.max(errors) + np.finfo(errors.dtype).tiny
    return np.maximum(errors, least) ** (1 / order)
