"""First and second derivatives of all parts of a transcription, from one call for all intervals.

Each part (a collocation point, the end of an interval, both ends of the whole) depends on few unknowns y, so that its
Hessian is small: the second derivatives of the Lagrangian are assembled from these. The equations of motion and the limits
at a point are one part, since both need the same accelerations.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._points import lagrange
from jaxhamel.control._collocation._transcription import CollocationPoint, Interval, Transcription
from jaxhamel.control._interior_point._once import once


class Duals(NamedTuple):
    """Multipliers, of L = J + Σ λ_{i+1}·(end − x_{i+1}) + μ·(stage defects) + y·(conditions) + limits·(function − slack).

    - `costates`: λ `(N+1, d)`; `stages`: μ `(N, s, d)`; `conditions`: at both ends, y `(b,)`; `limits`: `(N, s, r)`.
    - `low`, `high`: of the slacks' bounds, not negative; `p_low`, `p_high`: of the end time's.
    """

    costates: Float[Array, "N+1 d"]
    stages: Float[Array, "N s d"]
    conditions: Float[Array, " b"]
    limits: Float[Array, "N s r"]
    low: Float[Array, "N s r"]
    high: Float[Array, "N s r"]
    p_low: Float[Array, " p"]
    p_high: Float[Array, " p"]


class Derivatives(NamedTuple):
    """A vector function, a cost, and their derivatives; `hessian` is that of the Lagrangian."""

    value: Float[Array, " f"]
    cost: Scalar
    jacobian: Float[Array, "f y"]
    gradient: Float[Array, " y"]
    hessian: Float[Array, "y y"]


class Parts(NamedTuple):
    """All parts; those of intervals have a leading axis N, then one for their points.

    The value at a `point` is (h f, limits), with the multipliers (−μ, those of the limits).
    """

    points: Derivatives
    ends: Derivatives
    first: Derivatives
    last: Derivatives


def _part(function, y: Float[Array, " y"], multiplier: Float[Array, " f"]) -> Derivatives:
    """The derivatives of y ↦ (value, cost), of the Lagrangian cost + multiplier·value."""
    function = once(function, y)

    def lagrangian(y):
        value, cost = function(y)
        return cost + jnp.dot(multiplier, value), (value, cost)

    def first(y):
        gradient, values = jax.grad(lagrangian, has_aux=True)(y)
        return (gradient, *values), values

    (hessian, jacobian, gradient), (value, cost) = jax.jacfwd(once(first, y), has_aux=True)(y)
    return Derivatives(value, cost, jacobian, gradient, hessian)


class Places(NamedTuple):
    """The weights of X_0 … X_s and of c_1 … c_s at M places of an interval, `(M, s+1)` and `(M, s)`."""

    X: Float[Array, "M s+1"]
    c: Float[Array, "M s"]


def weights_at(transcription: Transcription, shares: tuple[float, ...]) -> Places:
    """The weights at shares of an interval, as constants."""
    points, at = np.asarray(transcription.rule.points), np.asarray(shares)
    dtype = transcription.shares.dtype
    both = lagrange(np.append(0.0, points), at), lagrange(points, at)
    return Places(*(jnp.asarray(x, dtype) for x in both))


def stage_unknowns(X: Array, c: Array, p: Array) -> Float[Array, "s y"]:
    """y = (X, c, p) of each of several places of an interval."""
    many = lambda x: jnp.broadcast_to(x[None], (X.shape[0], *x.shape))  # noqa: E731
    return jnp.concatenate([X, c, many(p)], axis=1)


def with_start(interval: Interval, X: Float[Array, "s d"]) -> Float[Array, "s+1 d"]:
    """X_0 … X_s."""
    return jnp.concatenate([interval.x[None], X])


def parts_of(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Parts:
    """All parts at an iterate."""
    points, ends = jax.vmap(lambda *given: _interval(transcription, w.p, *given), in_axes=0)(
        transcription.intervals(w), w.X, w.c, duals.stages, duals.limits, duals.costates[1:]
    )
    first = lambda y: transcription.first(w, y)  # noqa: E731
    last = lambda y: transcription.last(w, y)  # noqa: E731
    y_first, y_last = ends_unknowns(transcription, w)
    rows = eqx.filter_eval_shape(first, y_first)[0].shape[0]
    y = duals.conditions
    return Parts(points, ends, _part(first, y_first, y[:rows]), _part(last, y_last, y[rows:]))


def ends_unknowns(transcription: Transcription, w: CollocationPoint) -> tuple[Array, Array]:
    """y of `first` and of `last`."""
    return (
        jnp.concatenate([w.c[0].ravel(), w.p]),
        jnp.concatenate([w.x[-1], w.c[-1].ravel(), w.p]),
    )


def _interval(transcription: Transcription, p, interval: Interval, X, c, mu, limits, costate):
    """The parts of one interval."""
    rule, dtype = transcription.rule, X.dtype
    shares, weights = (jnp.asarray(x, dtype) for x in (rule.points, rule.weights))

    def point(share, weight, y, multiplier):
        return _part(lambda y: at_point(transcription, interval, share, weight, y), y, multiplier)

    def end(y):
        return transcription.end(interval, y), jnp.zeros((), dtype)

    X_end = transcription.constants("end") @ with_start(interval, X)
    multipliers = jnp.concatenate([-mu, limits], axis=1)
    return (
        jax.vmap(point)(shares, weights, stage_unknowns(X, c, p), multipliers),
        _part(end, X_end, costate),
    )


def at_point(transcription: Transcription, interval: Interval, share, weight, y):
    """((h f, limits), cost) at a collocation point."""
    rate, cost = transcription.stage(interval, share, weight, y)
    return jnp.concatenate([rate, transcription.limit(interval, share, y)]), cost


# --- values alone --------------------------------------------------------------------------------


class Residuals(NamedTuple):
    """Stage defects `(N, s, d)`, gaps between intervals `(N, d)`, conditions `(b,)`, limits − slack `(N, s, r)`."""

    stages: Float[Array, "N s d"]
    gaps: Float[Array, "N d"]
    conditions: Float[Array, " b"]
    limits: Float[Array, "N s r"]

    def norm(self) -> Scalar:
        """Σ|·|."""
        return sum((jnp.sum(jnp.abs(x)) for x in self), jnp.zeros((), self.gaps.dtype))

    def largest(self) -> Scalar:
        """max|·|."""
        tops = [jnp.max(jnp.abs(x)) for x in self if x.size]
        return jnp.max(jnp.stack(tops))


def evaluate(transcription: Transcription, w: CollocationPoint) -> tuple[Scalar, Residuals]:
    """(J, residuals) of an iterate."""

    def one(interval, X, c):
        rule, all_X = transcription.rule, with_start(interval, X)
        shares, weights = (jnp.asarray(x, X.dtype) for x in (rule.points, rule.weights))
        values, costs = jax.vmap(lambda *x: at_point(transcription, interval, *x))(
            shares, weights, stage_unknowns(X, c, w.p)
        )
        rates, limits = jnp.split(values, [transcription.size], axis=1)
        gap = transcription.end(interval, transcription.constants("end") @ all_X)
        return jnp.sum(costs), transcription.constants("derivative") @ all_X - rates, gap, limits

    costs, stages, gaps, limits = jax.vmap(one)(transcription.intervals(w), w.X, w.c)
    y_first, y_last = ends_unknowns(transcription, w)
    conditions, cost = transcription.last(w, y_last)
    before, first_cost = transcription.first(w, y_first)
    conditions = jnp.concatenate([before, conditions])
    return jnp.sum(costs) + first_cost + cost, Residuals(stages, gaps, conditions, limits - w.slack)


def values_of(
    transcription: Transcription, w: CollocationPoint, parts: Parts
) -> tuple[Scalar, Residuals]:
    """The same from the parts, which have the values already."""
    start = jax.vmap(with_start)(transcription.intervals(w), w.X)
    slopes = jnp.einsum("jk,ikd->ijd", transcription.constants("derivative"), start)
    rates, limits = jnp.split(parts.points.value, [transcription.size], axis=2)
    residuals = Residuals(
        slopes - rates,
        parts.ends.value,
        jnp.concatenate([parts.first.value, parts.last.value]),
        limits - w.slack,
    )
    return jnp.sum(parts.points.cost) + parts.first.cost + parts.last.cost, residuals
