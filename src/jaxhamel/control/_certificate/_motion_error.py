"""Errors of the transcription: distances between the polynomials and the motion under the found control, and between their
costs."""

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._points import OneInterval
from jaxhamel.control._collocation._transcription import (
    CollocationPoint,
    Interval,
    Transcription,
    along,
)
from jaxhamel.control._interior_point._derivatives import points_of
from jaxhamel.control._problem._costs import running_residual
from jaxhamel.control._problem._scalar_costs import RunningCost, total
from jaxhamel.control._scaling._sizes import in_size, size_of
from jaxhamel.mechanics import Constant, VectorField
from jaxhamel.mechanics._tangent import local
from jaxhamel.simulate._solvers._runge_kutta import looped, tableau

CHECKING_STEPS = 8  # steps of an eighth-order method per interval


@compiled_with(QUICK)
def transcription_error(
    transcription: Transcription, w: CollocationPoint, costates: Float[Array, "N+1 d"]
) -> tuple[Scalar, Scalar]:
    """The largest of the distances e_i, in the tangent space, between a node and the motion integrated from the node before
    it, in the states' sizes, and Σ λ_i·e_i + ΔJ_i, the change of the cost by all of them to first order.

    ΔJ_i is the running cost along the motion through an interval, minus the quadrature at its collocation points. Where
    costates are large, as at a cusp of a switching curve, small distances change the cost by much.
    """
    method, field, span = tableau(diffrax.Dopri8()), VectorField(), transcription.span(w.p)
    system = transcription.designed(w.p)

    def one(interval: Interval, state, after, c: Float[Array, "s m"]):
        t0, length = transcription.t0 + interval.start * span, interval.length * span
        control = OneInterval(t0, length, c, transcription.rule.points)

        def rate(t, y):
            q, u, _ = y
            at = (system, t, q, u, Constant(control(t)))
            return *field(t, (q, u), (system, control)), running_cost(transcription, at)

        def step(y, i):
            (q, u, cost), h = y, length / CHECKING_STEPS
            q, u, cost = looped(rate, method, t0 + i * h, h, (q, u, cost))[0]
            return (system.space.normalise(q), u, cost), None

        numbers = jnp.arange(CHECKING_STEPS).astype(length.dtype)
        (q, u, cost), _ = jax.lax.scan(step, (*state, jnp.zeros_like(length)), numbers)
        return local(system, after, (q, u)), cost

    def by_point(at, y):
        interval, share, weight = at
        return transcription.stage(interval, share, weight, y)[1]

    states = transcription.states(w)
    ends = along(states, slice(None, -1)), along(states, slice(1, None))
    errors, costs = jax.vmap(one)(transcription.intervals(w), *ends, w.c)
    by_points = jax.vmap(by_point)(*points_of(transcription, w))
    change = jnp.sum(costates[1:] * errors) + jnp.sum(costs) - jnp.sum(by_points)
    return jnp.max(jnp.abs(in_size(errors, size_of(transcription.sizes, "x")))), change


def running_cost(transcription: Transcription, at: tuple) -> Scalar:
    """The cost per time, in its unit, at one (system, t, q, u, control)."""
    r = running_residual(transcription.costs, *at)
    value = total(RunningCost, transcription.costs, *at)
    return jnp.asarray(0.5 * jnp.sum(r * r) + value, at[3].dtype) / transcription.cost_unit
