"""First and second derivatives of all parts of a transcription, from one call for all intervals.

A part is a collocation point, the end of an interval, the first time or the last time. Each part depends on few unknowns y,
so that its Hessian is small; the Hessian of the Lagrangian is assembled from those of the parts. The equations of motion and
the limits at a point are one part, since both need the same accelerations.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._one_lane import lanes_if_short
from jaxhamel._typing import Scalar
from jaxhamel.control._charts._bases import about_nodes, in_old_charts, turning
from jaxhamel.control._charts._start_nodes import (
    StartDerivatives,
    no_start_derivatives,
    start_derivatives,
)
from jaxhamel.control._collocation._points import lagrange
from jaxhamel.control._collocation._transcription import CollocationPoint, Interval, Transcription
from jaxhamel.control._interior_point._point_derivatives import (
    FEWEST_DIRECTIONS,
    SHORTEST,
    SHORTEST_AT_ENDS,
    Derivatives,
    derivatives,
    derivatives_at_points,
    gradients,
)


class Duals(NamedTuple):
    """The multipliers of L = J + Σ λ_{i+1}·(end − x_{i+1}) + μ·(stage defects) + y·(conditions) + limits·(function − slack).

    - `costates`: λ `(N+1, d)`; `stages`: μ `(N, s, d)`; `conditions`: y `(b,)`, at the first and the last time; `limits`:
      the multipliers of the path limits, `(N, s, r)`.
    - `low`, `high`: multipliers ≥ 0 of the slacks' lower and upper bounds; `p_low`, `p_high`: the same for the parameters.
    """

    costates: Float[Array, "N+1 d"]
    stages: Float[Array, "N s d"]
    conditions: Float[Array, " b"]
    limits: Float[Array, "N s r"]
    low: Float[Array, "N s r"]
    high: Float[Array, "N s r"]
    p_low: Float[Array, " p"]
    p_high: Float[Array, " p"]


class Parts(NamedTuple):
    """The derivatives of all parts: at collocation points, with leading axes `(N, s)`; at the ends of intervals, `(N,)`; at
    the first and at the last time; by the first nodes of the intervals.

    The value at a collocation point is (h f, limits), with the multipliers (−μ, multipliers of the limits). The nodes are
    the bases of their charts.
    """

    points: Derivatives
    ends: Derivatives
    first: Derivatives
    last: Derivatives
    starts: StartDerivatives

    def with_hessians(self, factor: Scalar | float) -> "Parts":
        """The same parts with all Hessians multiplied by `factor`."""
        return Parts(*(part._replace(hessian=factor * part.hessian) for part in self))  # pyright: ignore[reportArgumentType]


class Places(NamedTuple):
    """The weights that interpolate X_0 … X_s and c_1 … c_s at M places of an interval, `(M, s+1)` and `(M, s)`."""

    X: Float[Array, "M s+1"]
    c: Float[Array, "M s"]


def weights_at(transcription: Transcription, shares: tuple[float, ...]) -> Places:
    """The interpolation weights at the places `shares` of an interval, from 0 to 1."""
    points, at = np.asarray(transcription.rule.points), np.asarray(shares)
    dtype = transcription.shares.dtype
    both = lagrange(np.append(0.0, points), at), lagrange(points, at)
    return Places(*(jnp.asarray(x, dtype) for x in both))


def stage_unknowns(X: Array, c: Array, p: Array) -> Float[Array, "s y"]:
    """The unknowns y = (X, c, p) at several places of an interval."""

    def many(x):
        return jnp.broadcast_to(x[None], (X.shape[0], *x.shape))

    return jnp.concatenate([X, c, many(p)], axis=1)


def with_start(interval: Interval, X: Float[Array, "s d"]) -> Float[Array, "s+1 d"]:
    """X_0 … X_s: the interval's first node and its stages."""
    return jnp.concatenate([interval.x[None], X])


def parts_of(transcription: Transcription, w: CollocationPoint, duals: Duals) -> Parts:
    """The derivatives of all parts at an iterate."""
    multipliers = jnp.concatenate([-duals.stages, duals.limits], axis=2)
    points = _all_points(transcription, w, multipliers)
    ends = _all_ends(transcription, w, duals.costates[1:])
    of_ends = jnp.einsum("ia,iab->ib", duals.costates[1:], ends.jacobian)
    starts = start_derivatives(transcription, w, duals.stages, of_ends)
    return Parts(points, ends, *both_ends_of(transcription, w, duals), starts)


def both_ends_of(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> tuple[Derivatives, Derivatives]:
    """The derivatives of the parts at the first and at the last time."""
    first, last = _both_ends(transcription, w)
    y_first, y_last = ends_unknowns(transcription, w)
    rows, _ = rows_of_conditions(transcription, w)
    y = duals.conditions
    return derivatives(first, y_first, y[:rows]), derivatives(last, y_last, y[rows:])


def lagrangian_gradients(
    transcription: Transcription, w: CollocationPoint, duals: Duals
) -> tuple[Array, Array, Array, Array]:
    """The gradients of the Lagrangian by the unknowns of each part: (points `(N, s, y)`, ends `(N, d)`, first, last)."""
    multipliers = jnp.concatenate([-duals.stages, duals.limits], axis=2)

    def gradient_at(at, y, m):
        return gradients(lambda y: at_point(transcription, at, y), y, m)[0]

    where, y = points_of(transcription, w)
    points = lanes_if_short(gradient_at)(where, y, multipliers.reshape(y.shape[0], -1))
    ends = jax.vmap(lambda *given: _end_gradient(transcription, *given))(
        transcription.intervals(w), w.X, duals.costates[1:]
    )
    rows, conditions = rows_of_conditions(transcription, w)[0], duals.conditions
    pairs = zip(_both_ends(transcription, w), ends_unknowns(transcription, w), strict=True)
    (first, y_first), (last, y_last) = pairs
    both = gradients(first, y_first, conditions[:rows]), gradients(last, y_last, conditions[rows:])
    return by_intervals(w, points), ends, both[0][0], both[1][0]


def _end_gradient(transcription: Transcription, interval: Interval, X, costate) -> Array:
    def end(y):
        return (transcription.end(interval, y), jnp.zeros((), X.dtype))

    at = transcription.constants("end") @ with_start(interval, X)
    return gradients(end, at, costate)[0]


def no_parts(transcription: Transcription, w: CollocationPoint) -> Parts:
    """Zeros with the shapes of the result of `parts_of`. They are written out here: tracing `parts_of` would take long."""
    intervals, s, d = w.X.shape
    y_point = d + transcription.n_controls + w.p.shape[0]
    y_ends = [y.shape[0] for y in ends_unknowns(transcription, w)]
    rows = rows_of_conditions(transcription, w)

    def of(f, y, *many):
        return Derivatives(
            *(jnp.zeros((*many, *shape), w.X.dtype) for shape in ((f,), (), (f, y), (y,), (y, y)))
        )

    points = of(d + w.slack.shape[2], y_point, intervals, s)
    starts = no_start_derivatives(transcription, w)
    first, last = map(of, rows, y_ends)
    return Parts(points, of(d, d, intervals), first, last, starts)


def rows_of_conditions(transcription: Transcription, w: CollocationPoint) -> tuple[int, int]:
    """The numbers of conditions at the first and at the last time."""
    pairs = zip(_both_ends(transcription, w), ends_unknowns(transcription, w), strict=True)
    first, last = (eqx.filter_eval_shape(function, y)[0].shape[0] for function, y in pairs)
    return first, last


def _both_ends(transcription: Transcription, w: CollocationPoint) -> Any:
    """Two functions y ↦ (conditions, cost): of the part at the first time and of the part at the last time."""
    return lambda y: transcription.first(w, y), lambda y: transcription.last(w, y)


def _all_points(
    transcription: Transcription, w: CollocationPoint, multipliers: Float[Array, "N s f"]
) -> Derivatives:
    """The derivatives at all points, with leading axes `(N, s)`."""

    def function(at, y):
        return at_point(transcription, at, y)

    at, y = points_of(transcription, w)
    flat = multipliers.reshape(y.shape[0], -1)
    return by_intervals(w, derivatives_at_points(function, at, y, flat))


def points_of(
    transcription: Transcription, w: CollocationPoint
) -> tuple[Any, Float[Array, "Ns y"]]:
    """((interval, share, weight), y) of the points of all intervals, along one axis."""
    n, s = w.X.shape[:2]
    rule = transcription.rule
    each = [jnp.asarray(np.tile(x, n), w.X.dtype) for x in (rule.points, rule.weights)]
    intervals = jax.tree.map(lambda x: jnp.repeat(x, s, axis=0), transcription.intervals(w))
    at = intervals, *each
    y = jnp.concatenate([_in_one_row(w.X), _in_one_row(w.c)], axis=1)
    return at, jnp.concatenate([y, jnp.broadcast_to(w.p[None], (y.shape[0], w.p.shape[0]))], axis=1)


def _in_one_row(x: Float[Array, "N s *d"]) -> Float[Array, "Ns *d"]:
    """The arrays of the points of all intervals along one axis, interval after interval."""
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])


def by_intervals(w: CollocationPoint, found: Any) -> Any:
    """Reverses `points_of`: splits the axis of all points into the axes `(N, s)` of intervals and their points."""
    return jax.tree.map(lambda x: x.reshape(*w.X.shape[:2], *x.shape[1:]), found)


def ends_unknowns(transcription: Transcription, w: CollocationPoint) -> tuple[Array, Array]:
    """The unknowns y of the parts at the first and at the last time."""
    return (
        jnp.concatenate([w.c[0].ravel(), w.p]),
        jnp.concatenate([w.x[-1], w.c[-1].ravel(), w.p]),
    )


def _all_ends(
    transcription: Transcription, w: CollocationPoint, costates: Float[Array, "N d"]
) -> Derivatives:
    """The derivatives of the parts at the ends of all intervals."""
    intervals, weights = transcription.intervals(w), transcription.constants("end")

    def function(interval, y):
        return transcription.end(interval, y), jnp.zeros((), y.dtype)

    y = jax.vmap(lambda interval, X: weights @ with_start(interval, X))(intervals, w.X)
    shortest = SHORTEST_AT_ENDS if y.shape[1] >= FEWEST_DIRECTIONS else SHORTEST
    return derivatives_at_points(function, intervals, y, costates, shortest)


def at_point(transcription: Transcription, at: tuple[Interval, Scalar, Scalar], y):
    """((h f, limits), cost) at a collocation point; `at`: interval, share and weight."""
    interval, share, weight = at
    rate, cost = transcription.stage(interval, share, weight, y)
    return jnp.concatenate([rate, transcription.limit(interval, share, y)]), cost


# --- values without derivatives ------------------------------------------------------------------


class Residuals(NamedTuple):
    """The residuals of all equations of the transcription; all are 0 at a feasible point.

    Stage defects `(N, s, d)`, gaps between intervals `(N, d)`, conditions `(b,)`, path limits minus slack `(N, s, r)`.
    """

    stages: Float[Array, "N s d"]
    gaps: Float[Array, "N d"]
    conditions: Float[Array, " b"]
    limits: Float[Array, "N s r"]

    def norm(self) -> Scalar:
        """The sum of the absolute values of all residuals."""
        return sum((jnp.sum(jnp.abs(x)) for x in self), jnp.zeros((), self.gaps.dtype))

    def largest(self) -> Scalar:
        """The largest absolute value of all residuals."""
        tops = [jnp.max(jnp.abs(x)) for x in self if x.size]
        return jnp.max(jnp.stack(tops))


def evaluate(transcription: Transcription, w: CollocationPoint) -> tuple[Scalar, Residuals]:
    """Returns the cost J and the residuals of an iterate, whose polynomials are those in the charts about its nodes."""
    return evaluate_in_charts(transcription, w, bool(turning(transcription.system.space)))


def evaluate_in_charts(
    transcription: Transcription, w: CollocationPoint, about: bool = False
) -> tuple[Scalar, Residuals]:
    """The same; if not `about`, the polynomials are those in the charts about the bases."""
    ends, bases = transcription.intervals(w), w
    w = about_nodes(transcription, w) if about else w
    intervals = transcription.intervals(w)._replace(next_q=ends.next_q, next_x=ends.next_x)
    values = lanes_if_short(lambda at, y: at_point(transcription, at, y))
    found = values(*points_of(transcription, w))
    values, costs = by_intervals(w, found)
    rates, limits = jnp.split(values, [transcription.size], axis=2)

    def one(interval, X):
        all_X = with_start(interval, X)
        gap = transcription.end(interval, transcription.constants("end") @ all_X)
        return transcription.constants("derivative") @ all_X, gap

    slopes, gaps = jax.vmap(one)(intervals, w.X)
    pairs = zip(_both_ends(transcription, bases), ends_unknowns(transcription, bases), strict=True)
    (before, first_cost), (after, last_cost) = (function(y) for function, y in pairs)
    defects = slopes - rates
    if about:
        defects = in_old_charts(transcription, bases.X, w.X, defects)
    residuals = Residuals(defects, gaps, jnp.concatenate([before, after]), limits - w.slack)
    return jnp.sum(costs) + first_cost + last_cost, residuals


def weighted(duals: Duals, residuals: Residuals) -> Scalar:
    """Σ multipliers · residuals of all equations."""
    multipliers = duals.stages, duals.costates[1:], duals.conditions, duals.limits
    products = [jnp.sum(a * b) for a, b in zip(multipliers, residuals, strict=True)]
    return sum(products[1:], products[0])


def values_of(
    transcription: Transcription, w: CollocationPoint, parts: Parts
) -> tuple[Scalar, Residuals]:
    """The cost and the residuals, from parts that contain their values already."""
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
