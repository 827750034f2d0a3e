"""How much the violations that are left change the optimal cost.

A violation below its bound may still change the cost, where the multiplier is large: to first order the cost changes by
λ · residuals, the residuals being those with the multipliers λ in the Lagrangian.
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
