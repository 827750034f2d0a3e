"""Estimates of the difference between the cost that a search has found and the least cost.

It has two causes. Constraints are met up to small violations r; to first order they change the cost by λ · r, where λ are
their multipliers, which may be large. And the barrier keeps the motion at some distance s from each limit; it raises the
cost by up to Σ z s, where z are the multipliers of the limits.
"""

import numpy as np

from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals


def cost_error(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """The relative change of the cost by the remaining residuals r of all constraints, |λ · r| / (1 + |J|)."""
    cost, residuals = evaluated(transcription, w)
    multipliers = duals.stages, duals.costates[1:], duals.conditions, duals.limits
    pairs = zip(multipliers, residuals, strict=True)
    total = sum(float(np.sum(np.asarray(a) * np.asarray(b))) for a, b in pairs)
    return abs(total) / (1 + abs(float(cost)))


SMALL_SHARE = (
    1e-5  # the largest part of the cost that may come from the barrier without a sentence about it
)


def barrier_gap(transcription: Transcription, w: CollocationPoint, duals: Duals) -> float:
    """Σ z s, the most by which the cost of a convex problem exceeds the least cost."""
    below = _product(duals.low, w.slack - transcription.lower)
    return below + _product(duals.high, transcription.upper - w.slack)


def is_determined(gap: float, cost: float, most: float, may_be_zero: bool = True) -> bool:
    """Whether `gap`, the effect of the barrier, is at most the share `most` of the cost.

    A cost that is smaller than its gap counts as 0, and as determined, if `may_be_zero`.
    """
    return gap <= most * abs(cost) or (may_be_zero and abs(cost) <= gap)


SCALE = "choose units in which states, controls and limits are about 1"


def on_small_cost(gap: float, cost: float, may_be_zero: bool = True) -> str:
    """A sentence if `gap`, the effect of the barrier, is not small beside the cost; empty otherwise and for a cost of 0."""
    if cost == 0 or gap <= SMALL_SHARE * abs(cost):
        return ""
    share = f"{100 * gap / abs(cost):.2g} % of it" if gap < abs(cost) else "0 within the tolerance"
    raises = f"cost: the barrier of the limits raises it by up to {gap:.1e}, "
    if gap >= abs(cost) and not may_be_zero:
        return f"{raises}more than it is; {SCALE}"
    return f"{raises}{share}; if it is not meant to be 0, give a smaller `tolerance`"


def _product(multiplier, distance) -> float:
    """Σ z s over the limits that are finite and not equations (there s = 0)."""
    z, s = np.asarray(multiplier), np.asarray(distance)
    counts = np.isfinite(s) & (s > 0)
    return float(np.sum(np.where(counts, z * np.where(counts, s, 0.0), 0.0)))
