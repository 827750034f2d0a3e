"""The elastic problem: finds the smallest violations with which all constraints can be met together.

Each condition at the ends may be violated by e⁺ − e⁻, each path limit by ε at all times:

    min  Σ (e⁺ + e⁻) + Σ ε + 1e-4 J ,    e⁺, e⁻, ε ≥ 0 .

Each violation is divided by the size of its constraint in the sum. If all violations are zero, the motion is feasible, and
the search continues from it. Otherwise the violations above zero show which constraints cannot be met together; their sum is
the least that was found.

A motion may cross a limit of the state between two collocation points, such as a thin wall, without a violation at either.
Such a limit g is then asked for beside the points, too, by its tangents along the motion, up to half-way to the next point:

    lower − ε ≤ g ± δ ġ ≤ upper + ε .
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._points import PointRule
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Interval,
    Transcription,
)
from jaxhamel.control._interior_point._derivatives import evaluate
from jaxhamel.control._scaling._sizes import TypicalSizes, size_of

SHARE_OF_COST = 1e-4  # weight of the cost J: without it the controls would not be unique


class Elastic(Transcription):
    """A transcription with elastic constraints; in p, the elastic variables follow the problem's own parameters.

    - `of_state`: whether each row of the limits is a function of the state alone.
    - `copies`: the number of places at which each bound holds: 1, the point itself, or 3, beside it, too.
    """

    n_first: int = eqx.field(static=True, kw_only=True)
    n_last: int = eqx.field(static=True, kw_only=True)
    of_state: tuple[bool, ...] = eqx.field(static=True, kw_only=True)
    copies: int = eqx.field(static=True, kw_only=True)

    def elastic(self, p: Float[Array, " p"]) -> tuple[Array, Array]:
        """The violations that p contains: e⁺ − e⁻ of the conditions at both ends `(b,)`, and ε ≥ 0 of the limits `(r,)`."""
        count = self.n_first + self.n_last
        rest = p[self.n_parameters :]
        return rest[:count] - rest[count : 2 * count], rest[2 * count :]

    def stage(
        self, interval: Interval, share: Scalar, weight: Scalar, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " d"], Scalar]:
        """The problem's stage, with its cost times `SHARE_OF_COST`."""
        rate, cost = super().stage(interval, share, weight, y)
        return rate, SHARE_OF_COST * cost

    def limit(self, interval: Interval, share: Scalar, y: Float[Array, " y"]) -> Float[Array, " r"]:
        """The limits' functions twice: + ε, for the lower bounds, and − ε, for the upper bounds."""
        value, epsilon = self._values(interval, share, y), self.elastic(self.split(y)[2])[1]
        epsilon = jnp.tile(epsilon, self.copies)
        return jnp.concatenate([value + epsilon, value - epsilon])

    def _values(self, interval: Interval, share: Scalar, y: Float[Array, " y"]) -> Array:
        """The limits' functions at a point and, if asked for, by their tangents half-way to the points before and after."""
        own = super().limit
        if self.copies == 1:
            return own(interval, share, y)
        X = self.split(y)[0]
        change = jnp.ones_like(share), self.rate(interval, share, y)
        value, slope = jax.jvp(
            lambda share, X: own(interval, share, jnp.concatenate([X, y[X.shape[0] :]])), (share, X), change
        )  # fmt: skip
        slope = jnp.where(jnp.asarray(self.of_state), slope, 0.0)
        before, after = (jnp.polyval(jnp.asarray(k, y.dtype), share) for k in reach(self.rule))
        return jnp.concatenate([value, value - before * slope, value + after * slope])

    def first(
        self, w: CollocationPoint, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " r1"], Scalar]:
        """The residuals of the conditions minus e⁺ − e⁻, and the cost times `SHARE_OF_COST`."""
        p = self._controls(y)[1]
        conditions, cost = super().first(w, y)
        return conditions - self.elastic(p)[0][: self.n_first], SHARE_OF_COST * cost

    def last(
        self, w: CollocationPoint, y: Float[Array, " y"]
    ) -> tuple[Float[Array, " r2"], Scalar]:
        """The residuals of the conditions minus e⁺ − e⁻, and the cost times `SHARE_OF_COST` plus all elastic variables."""
        p = self._controls(y[self.size :])[1]
        conditions, cost = super().last(w, y)
        violations = p[self.n_parameters :]
        if self.sizes is not None:
            violations = violations / self.sizes.p[self.n_parameters :]
        total = jnp.sum(violations)
        return conditions - self.elastic(p)[0][self.n_first :], SHARE_OF_COST * cost + total


def reach(rule: PointRule) -> tuple[np.ndarray, np.ndarray]:
    """How far the tangents at a collocation point reach to the point before it and to the point after it.

    They reach half-way to the next point, and all the way to an end of the interval, in shares of the interval. Each of the
    two distances is a polynomial of the point's place; its coefficients are returned, highest power first.
    """
    points = np.asarray(rule.points)
    gaps = np.diff(np.concatenate([[0.0], points, [1.0]]))
    gaps[1:-1] /= 2
    degree = len(points) - 1
    return np.polyfit(points, gaps[:-1], degree), np.polyfit(points, gaps[1:], degree)


@compiled_with(QUICK)
def elastic_start(
    transcription: Transcription, w: CollocationPoint, of_state: tuple[bool, ...], copies: int = 1
) -> tuple[Elastic, Any]:
    """The elastic problem, and an iterate strictly within its bounds, made from the problem's iterate `w`."""
    conditions = evaluate(transcription, w)[1].conditions
    kind = {"of_state": of_state, "copies": copies}
    problem = _made_elastic(transcription, w, conditions.shape[0], kind)
    own, of_limits = (
        0.1 * jnp.asarray(size_of(transcription.sizes, x), w.X.dtype)
        for x in ("conditions", "limits")
    )
    r = transcription.lower.shape[2]
    parts = jnp.maximum(conditions, 0.0) + own, jnp.maximum(-conditions, 0.0) + own, jnp.zeros(r)
    w = w._replace(p=jnp.concatenate([w.p, *(x.astype(w.p.dtype) for x in parts)]))
    value = evaluate(problem, w._replace(slack=jnp.zeros_like(problem.lower)))[1].limits
    excess = jnp.maximum(problem.lower - value, value - problem.upper)
    most = jnp.max(jnp.maximum(excess, 0.0), axis=(0, 1), initial=0.0)
    epsilon = jnp.max(most.reshape(2 * problem.copies, r), axis=0, initial=0.0) + of_limits
    given = jnp.tile(epsilon, problem.copies)
    slack = value + jnp.broadcast_to(jnp.concatenate([given, -given]), value.shape)
    return problem, w._replace(p=w.p.at[w.p.shape[0] - r :].set(epsilon), slack=slack)


def _made_elastic(
    transcription: Transcription, w: CollocationPoint, count: int, kind: dict[str, Any]
) -> Elastic:
    """The elastic problem of a transcription with `count` conditions at its ends."""
    y = jnp.concatenate([w.x[-1], w.c[-1].ravel(), w.p])
    n_last = transcription.last(w, y)[0].shape[0]
    extra, copies = 2 * count + transcription.lower.shape[2], kind["copies"]
    lower, upper = (jnp.tile(x, copies) for x in (transcription.lower, transcription.upper))
    none = jnp.full_like(lower, jnp.inf)
    zeros = jnp.zeros(extra, w.p.dtype)
    fields = {name: getattr(transcription, name) for name in transcription.__dataclass_fields__}
    fields |= {
        "lower": jnp.concatenate([lower, -none], axis=2),
        "upper": jnp.concatenate([none, upper], axis=2),
        "p_lower": jnp.concatenate([transcription.p_lower, zeros]),
        "p_upper": jnp.concatenate([transcription.p_upper, zeros + jnp.inf]),
        "sizes": _elastic_sizes(transcription.sizes, 2 * copies),
    }
    return Elastic(**fields, **kind, n_first=count - n_last, n_last=n_last)


def _elastic_sizes(sizes: TypicalSizes | None, copies: int) -> TypicalSizes | None:
    """The sizes of the elastic problem: an elastic variable has the size of its constraint."""
    if sizes is None:
        return None
    p = jnp.concatenate([sizes.p, sizes.conditions, sizes.conditions, sizes.limits])
    return sizes._replace(p=p, limits=jnp.tile(sizes.limits, copies))


def least_violations(
    elastic: Elastic, w: CollocationPoint
) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " r"]]:
    """The violation of each condition, and the elastic variable of each limit."""
    conditions, limits = elastic.elastic(w.p)
    return np.abs(np.asarray(conditions)), np.asarray(limits)


@compiled_with(QUICK)
def original(transcription: Transcription, w: CollocationPoint) -> CollocationPoint:
    """Converts an iterate of the elastic problem to one of the problem itself, with slacks within their bounds."""
    count = transcription.p_lower.shape[0]
    r = transcription.lower.shape[2]
    return _with_slacks_inside(transcription, w._replace(p=w.p[:count], slack=w.slack[:, :, :r]))


def _with_slacks_inside(
    transcription: Transcription, w: CollocationPoint, margin: Scalar | float = 0.01
) -> CollocationPoint:
    """The iterate whose slacks are the values of the limits, moved inside their bounds (`inside`)."""
    value = evaluate(transcription, w)[1].limits + w.slack
    return w._replace(slack=inside(transcription, value, margin))


with_slacks_inside = compiled_with(QUICK)(_with_slacks_inside)


def inside(
    transcription: Transcription, value: Float[Array, "N M r"], margin: Scalar | float = 0.01
) -> Float[Array, "N M r"]:
    """The values of the limits, moved inside their bounds where they are outside or too close.

    The distance from a bound b is then at least `margin` · max(size of the limit, |b|) or a hundredth of the distance
    between the lower and the upper bound, whichever is less.
    """
    lower, upper = transcription.lower, transcription.upper
    width = jnp.where(jnp.isfinite(upper - lower), upper - lower, jnp.inf)
    own = jnp.broadcast_to(
        jnp.asarray(size_of(transcription.sizes, "limits"), lower.dtype), lower.shape
    )

    def size(x):
        return jnp.maximum(own, jnp.where(jnp.isfinite(x), jnp.abs(x), own))

    value = jnp.maximum(value, lower + jnp.minimum(margin * size(lower), 0.01 * width))
    value = jnp.minimum(value, upper - jnp.minimum(margin * size(upper), 0.01 * width))
    return jnp.where(lower == upper, jnp.broadcast_to(lower, value.shape), value)
