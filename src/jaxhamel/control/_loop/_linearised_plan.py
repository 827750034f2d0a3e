"""The linear–quadratic problem along a plan: the plan and its linearised equations at the nodes of all steps."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, WIDE, compiled_with
from jaxhamel._typing import Scalar, Time
from jaxhamel.mechanics import Constant, VectorField
from jaxhamel.mechanics._tangent import retract, tangent_size
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped

# The motion and the linearised equations are computed at the nodes of Gauss–Lobatto quadrature with five points: the quartic
# through the matrices at these gives P to order 8, because its error is orthogonal to quadratic polynomials.
_OUTER = (7.0 - 21.0**0.5) / 14.0
NODES = np.array([0.0, _OUTER, 0.5, 1.0 - _OUTER, 1.0])
INTERVALS = len(NODES) - 1  # the number of intervals between the nodes of a step
# Steps of RK4 from one node to the next; with one, this error is the largest on coarse plans.
MOTION_STEPS = 2
LANES = {**FEW_RUNS, **WIDE}  # options of programs in lanes


class PlanPoints(NamedTuple):
    """Points of a plan, with a leading axis: times, states, values of the control."""

    t: Float[Array, " M"]
    q: Any
    u: Float[Array, "M k"]
    control: Float[Array, "M p"]


@compiled_with(LANES)
def refined(system, ts: Array, q, u: Array, control, steps: int, route) -> PlanPoints:
    """The plan at the nodes of all steps, `steps` in each interval of `ts`; RK4 integrates its motion from each of `ts`."""
    h = ts[1:] - ts[:-1]
    after_step = lanes(partial(_state_after_step, system, route))

    def part(state, at):
        share, length = at
        start = ts[:-1] + share * h
        during = jax.vmap(lambda t, h: _control_in_step(control, t, h))(start, length * h)
        return after_step(start, length * h, state, during), state

    nodes = ((np.arange(steps)[:, None] + NODES[:-1]) / steps).ravel()
    gaps = np.diff(nodes, append=1.0) / MOTION_STEPS
    shares = (nodes[:, None] + gaps[:, None] * np.arange(MOTION_STEPS)).ravel()
    at = tuple(jnp.asarray(x, ts.dtype) for x in (shares, np.repeat(gaps, MOTION_STEPS)))
    _, states = jax.lax.scan(part, q_and_u(q, u, slice(None, -1)), at)
    inner = jax.tree.map(lambda x: _woven(x[::MOTION_STEPS]), states)
    q, u = jax.tree.map(
        lambda x, last: jnp.concatenate([x, last[-1:]]), inner, q_and_u(q, u, slice(None))
    )
    times = jnp.append((ts[:-1, None] + h[:, None] * at[0][None, ::MOTION_STEPS]).ravel(), ts[-1])
    return PlanPoints(times, q, u, jax.vmap(control)(times))


@compiled_with(FEW_RUNS)
def frame_signs(system, at: PlanPoints) -> Float[Array, " M"]:
    """The sign of det A(t, q) of the frame A at every point of the plan; 0 where it is singular."""
    return jax.vmap(lambda t, q: jnp.linalg.slogdet(system.frame(t, q))[0])(at.t, at.q)


class Stages(eqx.Module):
    """A control with given values at the start, the middle and the end of a step, quadratic in between."""

    start: Scalar
    step: Scalar
    values: Float[Array, "3 p"]

    def __call__(self, t: Time) -> Float[Array, " p"]:
        """c(t)."""
        s = (t - self.start) / self.step
        weights = jnp.stack([(1 - 2 * s) * (1 - s), 4 * s * (1 - s), s * (2 * s - 1)])
        return weights @ self.values


def _control_in_step(control, t: Scalar, h: Scalar) -> Stages:
    return Stages(t, h, jnp.stack([control(t), control(t + 0.5 * h), control(t + h)]))


def _state_after_step(system, route, t: Time, h: Scalar, state, control: Stages):
    """The state one step of RK4 later, under a control that is given at the step's stages."""
    field = VectorField(route)

    def rate(t, y):
        return field(t, y, (system, control))

    q, u = looped(rate, RK4, t, h, state)[0]
    return system.space.normalise(q), u


def q_and_u(q, u, part: slice):
    """(q, u) at some of the times."""
    return jax.tree.map(lambda x: x[part], (q, u))


def _woven(parts: Array) -> Array:
    """Merges the axes (part, interval, …) into one axis, interval after interval."""
    swapped = jnp.swapaxes(parts, 0, 1)
    return swapped.reshape(swapped.shape[0] * swapped.shape[1], *swapped.shape[2:])


class Linearised(NamedTuple):
    """`rates` (v, u̇), and A, B of `jaxhamel.mechanics.linearise`, at many points."""

    rates: Float[Array, "M d"]
    A: Float[Array, "M d d"]
    B: Float[Array, "M d p"]


@compiled_with(LANES)
def linearised(system, at: PlanPoints, route) -> Linearised:
    """The rates of change, and the matrices A and B of the linearised equations, at every point of the plan.

    Every column of (A, B) at every point is computed in parallel, as one lane.
    """
    n, d, p = system.space.dim, tangent_size(system), at.control.shape[1]
    field = VectorField(route)

    def rates(t, q, u, control):
        q_dot, u_dot = field(t, (q, u), (system, Constant(control)))
        return jnp.concatenate([system.space.velocity(q, q_dot), u_dot])

    def column(point: PlanPoints, place):
        e = (jnp.arange(d + p) == place).astype(point.u.dtype)

        def along(s):
            q, u = retract(system, (point.q, point.u), s * e[:d])
            return rates(point.t, q, u, point.control + s * e[d:])

        zero, one = jnp.zeros((), e.dtype), jnp.ones((), e.dtype)
        value, slope = jax.jvp(along, (zero,), (one,))
        turned = system.space.ad(value[:n]) @ e[:n]
        return value, slope.at[:n].add(-turned)

    size = len(at.t)
    repeated = jax.tree.map(lambda x: jnp.repeat(x, d + p, axis=0), at)
    values, columns = lanes(column)(repeated, jnp.tile(jnp.arange(d + p), size))
    both = jnp.swapaxes(columns.reshape(size, d + p, d), 1, 2)
    return Linearised(values[:: d + p], both[..., :d], both[..., d:])
