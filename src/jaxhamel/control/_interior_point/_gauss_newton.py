"""The derivatives of a transcription with Gauss and Newton's Hessian, for costs that are sums of squares.

    ∇²L ≈ Σ h w (∂r/∂y)ᵀ (∂r/∂y) + Σ h w ∇²value ,

without the second derivatives of residuals r, equations of motion, limits and charts. The end time must be fixed.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._lanes_if_short import lanes_if_short
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._scalar_costs import RunningCost
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
from jaxhamel.control._interior_point._point_derivatives import in_directions


def gauss_newton_parts(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Parts:
    """All parts at an iterate; no curvature of the parts of points and of ends of intervals depends on multipliers."""
    at, y = points_of(transcription, w)
    of_squares = _squares(transcription, at, y)
    points = by_intervals(w, jax.vmap(partial(_point, transcription))(at, y, of_squares))
    end = lanes_if_short(lambda interval, X: _end(transcription, interval, X))
    ends = end(transcription.intervals(w), w.X)
    return Parts(points, ends, *both_ends_of(transcription, w, duals))


class Squares(NamedTuple):
    """(h f, limits) and residuals r at a point, h w and the value of scalar costs, and the derivatives of the first two."""

    value: Float[Array, " f"]
    r: Float[Array, " k"]
    size: Scalar
    cost: Scalar
    jacobian: Float[Array, "f y"]
    slope: Float[Array, "k y"]


At = tuple[Interval, Scalar, Scalar]  # interval, share and weight of a collocation point


def _squares(transcription: Transcription, at: Any, y: Float[Array, "B y"]) -> Squares:
    """The values and first derivatives at all points; a lane has one point and direction, where that is short enough."""
    values = partial(_values, transcription)

    def along(at, y, unit):
        first, tangents, others = jax.jvp(partial(values, at), (y,), (unit,), has_aux=True)
        return [*first, *others, *tangents]

    found = in_directions(along, at, y)
    if found is not None:
        *same, jacobian, slope = found
        return Squares(
            *(x[:, 0] for x in same), *(jnp.swapaxes(x, 1, 2) for x in (jacobian, slope))
        )

    def one(at, y):
        of = once(lambda y: (lambda pair: (pair[0], pair))(values(at, y)), y)
        derivatives, (first, others) = jax.jacfwd(of, has_aux=True)(y)
        return Squares(*first, *others, *derivatives)

    return jax.vmap(one)(at, y)


def _values(transcription: Transcription, at: At, y: Float[Array, " y"]) -> tuple[Any, Any]:
    """(((h f, limits), r), (h w, value of the scalar costs)) at a collocation point."""
    interval, share, weight = at
    rate, r, value, h = transcription.stage_terms(interval, share, y)
    limits = transcription.limit(interval, share, y)
    return (jnp.concatenate([rate, limits]), r), (h * weight, value)


def _point(transcription: Transcription, at: At, y: Float[Array, " y"], of: Squares) -> Derivatives:
    """The part of a collocation point."""
    gradient, hessian = of.slope.T @ of.r, of.slope.T @ of.slope
    if any(isinstance(cost, RunningCost) for cost in transcription.costs):
        of_value = lambda y: _values(transcription, at, y)[1][1]  # noqa: E731
        gradient = gradient + jax.grad(of_value)(y)
        hessian = hessian + jax.hessian(of_value)(y)
    cost = of.size * (0.5 * jnp.sum(of.r * of.r) + of.cost)
    return Derivatives(of.value, cost, of.jacobian, of.size * gradient, of.size * hessian)


def _end(transcription: Transcription, interval: Interval, X: Float[Array, "s d"]) -> Derivatives:
    """The part of the end of one interval."""

    def end(y) -> tuple[Any, Any]:
        value = transcription.end(interval, y)
        return value, value

    y = transcription.constants("end") @ with_start(interval, X)
    jacobian, value = jax.jacfwd(end, has_aux=True)(y)
    zero = jnp.zeros((len(y), len(y)), y.dtype)
    return Derivatives(value, zero[0, 0], jacobian, zero[0], zero)
