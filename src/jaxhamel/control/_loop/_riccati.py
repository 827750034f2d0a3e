"""The linear–quadratic problem along a plan: linearised equations at many times, and the Riccati equation backwards."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, compiled_with
from jaxhamel._typing import Scalar, Time
from jaxhamel.mechanics import Constant, VectorField
from jaxhamel.mechanics._tangent import retract, tangent_size
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped, runge_kutta_step

Matrix = Float[Array, "d d"]
TIMES_OF_RATES = 32  # number of times, about, at which the rates of the closed loop are computed
MOST_HALVINGS = 8  # a step has at most 2^8 parts
# All but the last `ENDING` steps have this many times as many parts as stability needs (docs/performance.md#regulator).
FINER_PARTS = 2.0
ENDING = (
    8  # number of steps before the end in which P may change fast because the final cost is large
)


class StepParts(NamedTuple):
    """The numbers of parts of each of the last `ENDING` steps of the Riccati equation, and of each step before them."""

    ending: int
    before: int


class PlanPoints(NamedTuple):
    """Points of a plan, with a leading axis: times, states, values of the control."""

    t: Float[Array, " M"]
    q: Any
    u: Float[Array, "M k"]
    control: Float[Array, "M p"]


@compiled_with(FEW_RUNS)
def refined(system, ts: Array, q, u: Array, control, parts: int, route) -> PlanPoints:
    """Divides each interval of `ts` into equal parts, and integrates the plan's motion from its start to these by RK4."""
    h = (ts[1:] - ts[:-1]) / parts
    after_step = lanes(partial(_state_after_step, system, route))

    def part(state, i):
        start = ts[:-1] + i * h
        during = jax.vmap(lambda t, h: _control_in_step(control, t, h))(start, h)
        return after_step(start, h, state, during), state

    steps = jnp.arange(parts).astype(ts.dtype)
    _, states = jax.lax.scan(part, q_and_u(q, u, slice(None, -1)), steps)
    inner = jax.tree.map(_woven, states)
    q, u = jax.tree.map(
        lambda x, last: jnp.concatenate([x, last[-1:]]), inner, q_and_u(q, u, slice(None))
    )
    times = jnp.append((ts[:-1, None] + h[:, None] * steps[None]).ravel(), ts[-1])
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


@compiled_with(FEW_RUNS)
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


@compiled_with(FEW_RUNS)
def riccati(
    A: Float[Array, "M d d"],
    B: Float[Array, "M d p"],
    costs,
    h: Float[Array, " N"],
    parts: StepParts,
) -> tuple[Float[Array, "N+1 d d"], Float[Array, "N+1 p d"]]:
    """P and K = R⁻¹ Bᵀ P at the ends of all steps, integrated backwards from P(T) = S:

        −Ṗ = AᵀP + P A − P B R⁻¹ Bᵀ P + Q = X + Xᵀ + Q ,    X = P (A − ½ B R⁻¹ Bᵀ P) .

    RK4 runs backwards with the steps `h`, each divided into parts. A and B are given at the ends and middles of the steps,
    M = 2 N + 1; A and B R⁻¹ Bᵀ are interpolated quadratically in between.
    """
    Q, R, S = costs
    weighted = jnp.linalg.solve(R, B.reshape(-1, len(R)).T).T.reshape(B.shape)  # B R⁻¹
    half = 0.5 * weighted @ jnp.swapaxes(B, 1, 2)

    def step(count: int, P: Matrix, at) -> tuple[Matrix, Matrix]:
        *nodes, h = at

        def rate(s: Time, P: Matrix) -> Matrix:
            """dP/ds at the share s of the step."""
            here, half_here = jax.tree.map(lambda *x: _quadratic(s, x), *nodes)
            X = P @ (here - half_here @ P)
            return -h * (X + X.T + Q)

        def part(P: Matrix, end: Scalar) -> tuple[Matrix, None]:
            P = runge_kutta_step(rate, RK4, end, jnp.asarray(-1.0 / count, h.dtype), P)
            return 0.5 * (P + P.T), None

        ends = (jnp.arange(count) + 1).astype(h.dtype) / count
        P, _ = jax.lax.scan(part, P, ends, reverse=True, unroll=count == 1)
        return P, P

    start, middle, end = (
        (A[part], half[part]) for part in (slice(0, -1, 2), slice(1, None, 2), slice(2, None, 2))
    )
    found, last = [S[None]], S
    for some, count in _stretches(len(h), parts):
        at = jax.tree.map(lambda x, some=some: x[some], (start, middle, end, h))
        last, P = jax.lax.scan(partial(step, count), last, at, reverse=True)
        found.insert(0, P)
    P = jnp.concatenate(found)
    return P, jnp.swapaxes(weighted[::2], 1, 2) @ P


def _stretches(count: int, parts: StepParts) -> list[tuple[slice, int]]:
    """Groups of steps with the same number of parts, as (steps, number of parts), the last steps first."""
    first = max(0, count - ENDING)
    if parts.before == parts.ending or first == 0:
        return [(slice(0, None), parts.ending)]
    return [(slice(first, None), parts.ending), (slice(0, first), parts.before)]


def _quadratic(s: Time, x: tuple[Array, Array, Array]) -> Array:
    """The value at s of the quadratic through the values `x` at 0, ½ and 1."""
    return (1 - 2 * s) * (1 - s) * x[0] + 4 * s * (1 - s) * x[1] + s * (2 * s - 1) * x[2]


def step_parts(A: Any, B: Any, costs: Any, h: Any) -> StepParts:
    """The numbers of parts of a step with which RK4 is stable, powers of two; (1, 1) if numbers are traced or not finite.

    A part is so short that the rates of the closed loop times its length are at most 1/2; the fastest rates of P are twice
    as large. The rates of the closed loop are the eigenvalues of the Hamiltonian matrix ((A, −B R⁻¹ Bᵀ), (−Q, −Aᵀ)), and
    near the end those of B R⁻¹ Bᵀ S if S is large. At a time τ before the end a large S decays at the rate 1/τ:
    P = (S⁻¹ + B R⁻¹ Bᵀ τ)⁻¹.
    """
    known = [_checks.concrete(x) for x in (A, B, *costs, h)]
    numbers = [x for x in known if x is not None and np.all(np.isfinite(x))]
    if len(numbers) < len(known):
        return StepParts(1, 1)
    A, B, Q, R, S, h = numbers
    some = slice(None, None, max(1, len(A) // TIMES_OF_RATES))
    G = B[some] @ np.linalg.inv(R) @ np.swapaxes(B[some], 1, 2)
    whole = np.block([[A[some], -G], [np.broadcast_to(-Q, G.shape), -np.swapaxes(A[some], 1, 2)]])
    regular, ending = (np.max(np.abs(np.linalg.eigvals(x))) for x in (whole, G @ S))
    later = min(ending, 1.0 / (ENDING * np.min(h)))
    last = _number_of_substeps(max(regular, ending) * np.max(h))
    return StepParts(
        last, min(last, _number_of_substeps(FINER_PARTS * max(regular, later) * np.max(h)))
    )


def _number_of_substeps(rate: float) -> int:
    """The number of parts of a step, for `rate`: the fastest rate of the closed loop times the step's length."""
    return 2 ** int(np.clip(np.ceil(np.log2(2.0 * rate + 1e-9)), 0, MOST_HALVINGS))
