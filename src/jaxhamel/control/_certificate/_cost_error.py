"""How far the cost is from the optimal one: by the violations that are left, and by the barrier of the limits.

A violation below its bound may still change the cost, where the multiplier is large: to first order the cost changes by
λ · residuals, the residuals being those with the multipliers λ in the Lagrangian. The barrier keeps the motion away from
its limits: by Σ z s, the products of their multipliers and distances, the cost is above the least one.
"""

import numpy as np

from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals


def cost_error(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """|λ · residuals| / (1 + |J|)."""
    cost, residuals = evaluated(transcription, w)
    multipliers = duals.stages, duals.costates[1:], duals.conditions, duals.limits
    pairs = zip(multipliers, residuals, strict=True)
    total = sum(float(np.sum(np.asarray(a) * np.asarray(b))) for a, b in pairs)
    return abs(total) / (1 + abs(float(cost)))


SMALL_SHARE = 1e-5  # of the cost, by which it may be above the least one without a word


def by_barrier(transcription: Transcription, w: CollocationPoint, duals: Duals, cost: float) -> str:
    """A sentence where the cost is so small that the barrier changes it; otherwise empty.

    Costs near 0 that are smaller than Σ z s are 0 within the tolerance.
    """
    gap = _product(duals.low, w.slack - transcription.lower)
    gap += _product(duals.high, transcription.upper - w.slack)
    if not SMALL_SHARE * abs(cost) < gap < abs(cost):
        return ""
    return (
        f"cost above the least one by about {gap:.1e}, {100 * gap / abs(cost):.2g} % of it: it is small beside the tolerance; "
        "give its costs larger weights, or larger units"
    )


def _product(multiplier, distance) -> float:
    """Σ z s of the finite bounds that are no equations."""
    z, s = np.asarray(multiplier), np.asarray(distance)
    counts = np.isfinite(s) & (s > 0)
    return float(np.sum(np.where(counts, z * np.where(counts, s, 0.0), 0.0)))
