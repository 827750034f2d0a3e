"""The state of the interior-point method between two iterations, and the errors of its iterate."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._charts._bases import InCharts, rebased, turning
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._derivatives import (
    Duals,
    Parts,
    Residuals,
    rows_of_conditions,
)
from jaxhamel.control._interior_point._direction import stationarity
from jaxhamel.control._interior_point._filter import Filter, emptied, empty_filter
from jaxhamel.control._scaling._scaled import scaled, scaled_duals, scaled_residuals
from jaxhamel.control._scaling._sizes import TypicalSizes


class Errors(NamedTuple):
    """The errors of an iterate: stationarity and complementarity, scaled as by IPOPT, and violation."""

    stationarity: Scalar
    violation: Scalar
    complementarity: Scalar

    def largest(self) -> Scalar:
        """The largest of the three errors."""
        return jnp.max(jnp.stack(self))


class SearchState(NamedTuple):
    """The state of the method between two iterations.

    - `w`, `duals`: the iterate and its multipliers; `mu`: the barrier parameter; `filter`: the filter of the line search;
      `estimates`: whether the next iteration estimates the multipliers instead of making a step.
    - `cost`, `errors`: those of the iterate; `done`: whether the search has converged; `stuck`: the number of successive
      steps of the shortest length; `near`: the number of successive iterates within ten times the tolerance, or
      within rounding.
    - `floor`: the least regularisation of all steps; `damping`: a further lower limit of it after steps that the line search
      had to shorten; `shift`: the last regularisation above these that a step needed, or 0.
    - `missed`: the share of the conditions' residuals that the last Newton direction leaves, to first order.
    """

    w: CollocationPoint
    duals: Duals
    mu: Scalar
    filter: Filter
    estimates: Bool[Array, ""]
    cost: Scalar
    errors: Errors
    done: Bool[Array, ""]
    stuck: Int[Array, ""]
    near: Int[Array, ""]
    floor: Scalar
    shift: Scalar
    damping: Scalar
    missed: Scalar


class Solved(NamedTuple):
    """A transcription, the state of the search at its solution, and the derivatives there."""

    transcription: Transcription
    state: SearchState
    parts: Parts | None


def errors_of(
    transcription: Transcription,
    w: CollocationPoint,
    duals: Duals,
    parts: Parts,
    residuals: Residuals,
    mu: Scalar,
) -> Errors:
    """The errors of an iterate as a solution of the barrier problem with the barrier parameter μ, in the problem's sizes."""
    residuals = scaled_residuals(transcription.sizes, residuals)
    transcription, w, duals, parts = scaled(transcription, w, duals, parts)
    bounds = [
        (duals.low, w.slack - transcription.lower),
        (duals.high, transcription.upper - w.slack),
        (duals.p_low, w.p - transcription.p_lower),
        (duals.p_high, transcription.p_upper - w.p),
    ]
    zero = jnp.zeros_like(mu)
    all_duals = jnp.concatenate([x.ravel() for x in jax.tree.leaves(duals)])
    scale = jnp.maximum(1.0, jnp.mean(jnp.abs(all_duals)) / 100)
    off = [
        jnp.max(jnp.where(jnp.isfinite(gap) & (gap > 0), jnp.abs(z * gap - mu), 0.0))
        for z, gap in bounds
        if gap.size
    ]
    complementarity = jnp.max(jnp.stack([zero, *off])) / scale
    return Errors(
        stationarity(transcription, parts, duals) / scale, residuals.largest(), complementarity
    )


@compiled_with(QUICK)
def first_state(transcription: Transcription, w: CollocationPoint, mu: Scalar) -> SearchState:
    """The state before the first iteration; without bounds, μ is 0.

    The multipliers are estimated before the first step: with zero multipliers the Hessian lacks the curvature of the
    equations of motion, and the first steps are as long as the regularisation allows.
    """
    dtype = w.X.dtype

    def number(x):
        return jnp.asarray(x, dtype)

    limited = bool(transcription.lower.size or transcription.p_lower.size)
    mu_first = mu if limited else jnp.zeros_like(mu)

    def finite(bound, like):
        return jnp.where(jnp.broadcast_to(jnp.isfinite(bound), like.shape), 1.0, 0.0).astype(dtype)

    equal = transcription.lower == transcription.upper
    low = jnp.where(equal, 0.0, finite(transcription.lower, w.slack))
    high = jnp.where(equal, 0.0, finite(transcription.upper, w.slack))
    rows = sum(rows_of_conditions(transcription, w))
    duals = Duals(
        jnp.zeros_like(w.x),
        jnp.zeros_like(w.X),
        jnp.zeros(rows, dtype),
        jnp.zeros_like(w.slack),
        low,
        high,
        finite(transcription.p_lower, w.p),
        finite(transcription.p_upper, w.p),
    )
    if transcription.sizes is not None:
        duals = scaled_duals(TypicalSizes(*(1.0 / size for size in transcription.sizes)), duals)
    large = number(jnp.inf)
    state = SearchState(
        w, duals, mu_first, empty_filter(dtype), jnp.asarray(True), large,
        Errors(large, large, large), jnp.asarray(False), jnp.asarray(0), jnp.asarray(0), number(0.0),
        number(0.0), number(0.0), number(0.0),
    )  # fmt: skip
    return strong(state)


def resumed(state: SearchState) -> SearchState:
    """The state from which a search continues after a change of its iterate or problem: not done, with an empty filter."""
    nothing = jnp.zeros((), int)
    known, no = emptied(state.filter), jnp.asarray(False)
    fresh = {"done": no, "estimates": no, "near": nothing, "stuck": nothing}
    return strong(state._replace(filter=known, **fresh))


def displaced(transcription: Transcription, state: SearchState, w: CollocationPoint) -> SearchState:
    """Returns the state from which a search continues at another iterate `w`, in charts about the nodes of `w`."""
    state = resumed(state._replace(w=w))
    return about_own_nodes(transcription, state) if turning(transcription.system.space) else state


@compiled_with(QUICK)
def about_own_nodes(transcription: Transcription, state: SearchState) -> SearchState:
    """Returns the same state in other charts: the base of each chart is now the node itself."""
    old = InCharts(state.w, state.duals.costates, state.duals.stages)
    w, costates, stages = rebased(transcription, old)
    return state._replace(w=w, duals=state.duals._replace(costates=costates, stages=stages))


def strong(state: SearchState) -> SearchState:
    """The state without JAX's weak types, so that `more_iterations` is compiled only once."""
    return jax.tree.map(lambda x: jax.lax.convert_element_type(x, x.dtype), state)
