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


def barrier_gap(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """Σ z s: of a convex problem the cost is above the least one by no more than this."""
    below = _product(duals.low, w.slack - transcription.lower)
    return below + _product(duals.high, transcription.upper - w.slack)


def on_small_cost(gap: float, cost: float) -> str:
    """A sentence where the cost is so small that the barrier changes it; otherwise empty, also for a cost of exactly 0."""
    if cost == 0 or gap <= SMALL_SHARE * abs(cost):
        return ""
    share = f"{100 * gap / abs(cost):.2g} % of it" if gap < abs(cost) else "0 within the tolerance"
    return (
        f"cost: the barrier of the limits raises it by up to {gap:.1e}, {share}; if it is not meant to be 0, give the costs "
        "larger weights"
    )


def _product(multiplier, distance) -> float:
    """Σ z s of the finite bounds that are no equations."""
    z, s = np.asarray(multiplier), np.asarray(distance)
    counts = np.isfinite(s) & (s > 0)
    return float(np.sum(np.where(counts, z * np.where(counts, s, 0.0), 0.0)))
