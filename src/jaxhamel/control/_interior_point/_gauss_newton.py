"""The derivatives of a transcription with the Gauss–Newton approximation of the Hessian, for costs that are sums of squares.

    ∇²L ≈ Σ h w (∂r/∂y)ᵀ (∂r/∂y) + Σ h w ∇²value ,

with the residuals r of the costs that are squares and the value of the scalar costs (`RunningCost`). Second derivatives of
residuals, equations of motion, limits and charts are left out. The end time must be fixed.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._charts._start_nodes import no_start_derivatives, start_jacobian
from jaxhamel.control._collocation._transcription import CollocationPoint, Interval, Transcription
from jaxhamel.control._interior_point._derivatives import (
    Derivatives,
    Duals,
    Parts,
    both_ends_of,
    by_intervals,
    points_of,
    with_start,
)
from jaxhamel.control._interior_point._once import once
from jaxhamel.control._problem._scalar_costs import RunningCost


def gauss_newton_parts(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Parts:
    """The derivatives of all parts at an iterate. Only the Hessians at the first and the last time depend on multipliers.

    The points are mapped by `vmap`: in lanes, a step of the ball takes ten times as long
    (docs/performance.md#receding-horizons).
    """
    points = jax.vmap(partial(_point, transcription))(*points_of(transcription, w))
    ends = jax.vmap(partial(_end, transcription))(transcription.intervals(w), w.X)
    points = by_intervals(w, points)
    starts = no_start_derivatives(transcription, w)
    starts = starts._replace(jacobian=start_jacobian(transcription, w))
    return Parts(points, ends, *both_ends_of(transcription, w, duals), starts)


def _point(
    transcription: Transcription, at: tuple[Interval, Scalar, Scalar], y: Float[Array, " y"]
) -> Derivatives:
    """The derivatives of the part at a collocation point; `at`: interval, share and weight."""
    values = once(lambda y: (lambda found: (found[:2], found))(_values(transcription, at, y)), y)
    (jacobian, slope), (value, r, size, cost) = jax.jacfwd(values, has_aux=True)(y)
    gradient, hessian = slope.T @ r, slope.T @ slope
    if any(isinstance(cost, RunningCost) for cost in transcription.costs):

        def of_value(y):
            return _values(transcription, at, y)[3]

        gradient = gradient + jax.grad(of_value)(y)
        hessian = hessian + jax.hessian(of_value)(y)
    cost = size * (0.5 * jnp.sum(r * r) + cost)
    return Derivatives(value, cost, jacobian, size * gradient, size * hessian)


def _values(transcription: Transcription, at: Any, y: Float[Array, " y"]) -> Any:
    """((h f, limits), r, h w / cost_unit, value of the scalar costs) at a collocation point."""
    interval, share, weight = at
    rate, r, value, h = transcription.stage_terms(interval, share, y)
    limits = transcription.limit(interval, share, y)
    return jnp.concatenate([rate, limits]), r, h * weight / transcription.cost_unit, value


def _end(transcription: Transcription, interval: Interval, X: Float[Array, "s d"]) -> Derivatives:
    """The derivatives of the part at the end of one interval."""

    def end(y) -> tuple[Any, Any]:
        value = transcription.end(interval, y)
        return value, value

    y = transcription.constants("end") @ with_start(interval, X)
    jacobian, value = jax.jacfwd(end, has_aux=True)(y)
    zero = jnp.zeros((len(y), len(y)), y.dtype)
    return Derivatives(value, zero[0, 0], jacobian, zero[0], zero)
