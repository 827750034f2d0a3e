"""The barrier of the bounds: its value, the steps that stay inside the bounds, and the bounds' multipliers."""

from typing import Any

import jax.numpy as jnp

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import Duals
from jaxhamel.control._interior_point._direction import Direction


def barrier_function(transcription: Transcription, w: CollocationPoint) -> Scalar:
    """−Σ log(distance) over all finite bounds of slacks and parameters."""
    equal = transcription.lower == transcription.upper
    gaps = (
        jnp.where(equal, 1.0, w.slack - transcription.lower),
        jnp.where(equal, 1.0, transcription.upper - w.slack),
        w.p - transcription.p_lower,
        transcription.p_upper - w.p,
    )
    logs = [jnp.sum(jnp.where(jnp.isfinite(x), jnp.log(x), 0.0)) for x in gaps]
    return -sum(logs, jnp.zeros((), w.X.dtype))


def to_boundary(transcription: Transcription, w: CollocationPoint, move: Direction, mu) -> Scalar:
    """The length of the longest step, at most 1, that keeps slacks and parameters inside their bounds."""
    share = jnp.maximum(0.99, 1.0 - mu)
    equal = transcription.lower == transcription.upper
    pairs = [
        (jnp.where(equal, jnp.inf, w.slack - transcription.lower), move.slack),
        (jnp.where(equal, jnp.inf, transcription.upper - w.slack), -move.slack),
        (w.p - transcription.p_lower, move.p),
        (transcription.p_upper - w.p, -move.p),
    ]
    return _shortest(pairs, share)


def _shortest(pairs: Any, share) -> Scalar:
    """The longest step, at most 1, that takes at most `share` from each gap; `pairs`: (gap, its change in a full step)."""
    lengths = [
        jnp.min(jnp.where(change < 0, -share * gap / jnp.where(change < 0, change, -1.0), jnp.inf))
        for gap, change in pairs
        if gap.size
    ]
    return jnp.min(jnp.stack([jnp.ones_like(share), *lengths]))


def multipliers_after(
    transcription: Transcription,
    duals: Duals,
    new: Duals,
    w: CollocationPoint,
    alpha: Scalar,
    mu: Scalar,
) -> Duals:
    """The multipliers after a step of length α to `w`; the step of the bounds' multipliers has a length of its own."""
    bounds = ("low", "high", "p_low", "p_high")
    pairs = [(getattr(duals, x), getattr(new, x) - getattr(duals, x)) for x in bounds]
    own = _shortest(pairs, jnp.maximum(0.99, 1.0 - mu))
    mixed = {x: z + own * change for x, (z, change) in zip(bounds, pairs, strict=True)}
    equations = {
        x: getattr(duals, x) + alpha * (getattr(new, x) - getattr(duals, x))
        for x in ("costates", "stages", "conditions", "limits")
    }
    gaps = {
        "low": w.slack - transcription.lower,
        "high": transcription.upper - w.slack,
        "p_low": w.p - transcription.p_lower,
        "p_high": transcription.p_upper - w.p,
    }
    kept = {x: _near_centre(z, gaps[x], mu) for x, z in mixed.items()}
    return Duals(**equations, **kept)


def _near_centre(z, gap, mu):
    """Clips the multipliers z to within a factor 1e10 of μ/gap, so that the condensed Hessian stays bounded."""
    bounded = jnp.isfinite(gap) & (gap > 0)
    middle = mu / jnp.where(bounded, gap, 1.0)
    return jnp.where(bounded, jnp.clip(z, middle / 1e10, middle * 1e10), 0.0)
