"""First and second derivatives of all parts of a transcription, from one call for all intervals.

Each part (a stage, the place of a limit, the end of an interval, both ends of the whole) depends on few unknowns y, so that
its Hessian is small: the second derivatives of the Lagrangian are assembled from these.
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


class Duals(NamedTuple):
    """Multipliers, of L = J + Σ λ_{i+1}·(end − x_{i+1}) + μ·(stage defects) + y·(conditions) + limits·(function − slack).

    - `costates`: λ `(N+1, d)`; `stages`: μ `(N, s, d)`; `conditions`: at both ends, y `(b,)`; `limits`: `(N, M, r)`.
    - `low`, `high`: of the slacks' bounds, not negative; `p_low`, `p_high`: of the end time's.
    """

    costates: Float[Array, "N+1 d"]
    stages: Float[Array, "N s d"]
    conditions: Float[Array, " b"]
    limits: Float[Array, "N M r"]
    low: Float[Array, "N M r"]
    high: Float[Array, "N M r"]
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
    """All parts; those of intervals have a leading axis N, then one for their places."""

    stages: Derivatives
    limits: Derivatives
    ends: Derivatives
    first: Derivatives
    last: Derivatives


def _part(function, y: Float[Array, " y"], multiplier: Float[Array, " f"]) -> Derivatives:
    """The derivatives of y ↦ (value, cost), of the Lagrangian cost + multiplier·value."""

    def lagrangian(y):
        value, cost = function(y)
        return cost + jnp.dot(multiplier, value), (value, cost)

    def first(y):
        gradient, values = jax.grad(lagrangian, has_aux=True)(y)
        return (gradient, *values), values

    (hessian, jacobian, gradient), (value, cost) = jax.jacfwd(first, has_aux=True)(y)
    return Derivatives(value, cost, jacobian, gradient, hessian)


class Places(NamedTuple):
    """The weights of X_0 … X_s and of c_1 … c_s at the places of the limits, `(M, s+1)` and `(M, s)`."""

    X: Float[Array, "M s+1"]
    c: Float[Array, "M s"]


def places_of(transcription: Transcription) -> Places:
    """The weights at the places of the limits."""
    return weights_at(transcription, transcription.places)


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
    stages, limits, ends = jax.vmap(
        lambda *given: _interval(transcription, w.p, *given), in_axes=0
    )(transcription.intervals(w), w.X, w.c, duals.stages, duals.limits, duals.costates[1:])
    first = lambda y: (transcription.first(w, y), jnp.zeros((), y.dtype))  # noqa: E731
    last = lambda y: transcription.last(w, y)  # noqa: E731
    y_first, y_last = ends_unknowns(transcription, w)
    rows = eqx.filter_eval_shape(first, y_first)[0].shape[0]
    y = duals.conditions
    return Parts(
        stages, limits, ends, _part(first, y_first, y[:rows]), _part(last, y_last, y[rows:])
    )


def ends_unknowns(transcription: Transcription, w: CollocationPoint) -> tuple[Array, Array]:
    """y of `first` and of `last`."""
    return (
        jnp.concatenate([w.c[0].ravel(), w.p]),
        jnp.concatenate([w.x[-1], w.c[-1].ravel(), w.p]),
    )


def _interval(transcription: Transcription, p, interval: Interval, X, c, mu, limits, costate):
    """The parts of one interval."""
    rule, places = transcription.rule, places_of(transcription)
    dtype = X.dtype
    shares, weights = (jnp.asarray(x, dtype) for x in (rule.points, rule.weights))

    def stage(share, weight, y, multiplier):
        function = lambda y: transcription.stage(interval, share, weight, y)  # noqa: E731
        return _part(function, y, -multiplier)

    def limit(share, y, multiplier):
        none = jnp.zeros((), dtype)
        return _part(lambda y: (transcription.limit(interval, share, y), none), y, multiplier)

    def end(y):
        return transcription.end(interval, y), jnp.zeros((), dtype)

    all_X = with_start(interval, X)
    X_end = transcription.constants("end") @ all_X
    y_limits = stage_unknowns(places.X @ all_X, places.c @ c, p)
    return (
        jax.vmap(stage)(shares, weights, stage_unknowns(X, c, p), mu),
        jax.vmap(limit)(jnp.asarray(transcription.places, dtype), y_limits, limits),
        _part(end, X_end, costate),
    )


# --- values alone --------------------------------------------------------------------------------


class Residuals(NamedTuple):
    """Stage defects `(N, s, d)`, gaps between intervals `(N, d)`, conditions `(b,)`, limits − slack `(N, M, r)`."""

    stages: Float[Array, "N s d"]
    gaps: Float[Array, "N d"]
    conditions: Float[Array, " b"]
    limits: Float[Array, "N M r"]

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
        rule, dtype, places = transcription.rule, X.dtype, places_of(transcription)
        shares, weights = (jnp.asarray(x, dtype) for x in (rule.points, rule.weights))
        all_X = with_start(interval, X)
        y = stage_unknowns(X, c, w.p)
        hf, costs = jax.vmap(lambda *x: transcription.stage(interval, *x))(shares, weights, y)
        y = stage_unknowns(places.X @ all_X, places.c @ c, w.p)
        at = jnp.asarray(transcription.places, dtype)
        limits = jax.vmap(lambda *x: transcription.limit(interval, *x))(at, y)
        X_end = transcription.constants("end") @ all_X
        gap = transcription.end(interval, X_end)
        return jnp.sum(costs), transcription.constants("derivative") @ all_X - hf, gap, limits

    costs, stages, gaps, limits = jax.vmap(one)(transcription.intervals(w), w.X, w.c)
    y_first, y_last = ends_unknowns(transcription, w)
    conditions, cost = transcription.last(w, y_last)
    conditions = jnp.concatenate([transcription.first(w, y_first), conditions])
    return jnp.sum(costs) + cost, Residuals(stages, gaps, conditions, limits - w.slack)


def values_of(
    transcription: Transcription, w: CollocationPoint, parts: Parts
) -> tuple[Scalar, Residuals]:
    """The same from the parts, which have the values already."""
    start = jax.vmap(with_start)(transcription.intervals(w), w.X)
    slopes = jnp.einsum("jk,ikd->ijd", transcription.constants("derivative"), start)
    residuals = Residuals(
        slopes - parts.stages.value,
        parts.ends.value,
        jnp.concatenate([parts.first.value, parts.last.value]),
        parts.limits.value - w.slack,
    )
    return jnp.sum(parts.stages.cost) + parts.last.cost, residuals
