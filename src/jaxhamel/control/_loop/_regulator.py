"""Time-varying linear–quadratic regulation of a motion about a plan, on the group."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._checks import concrete
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Control, QuasiVelocity, Scalar, Time
from jaxhamel.control._checks._regulator import (
    check_accuracy,
    check_cost,
    check_frame,
    check_gains,
    check_linearised,
    check_plan,
    check_regulated,
)
from jaxhamel.control._loop._bryson import PlanSizes, bryson, plan_sizes
from jaxhamel.control._loop._linearised_plan import INTERVALS, frame_signs, linearised, refined
from jaxhamel.control._loop._riccati import riccati, step_parts
from jaxhamel.geometry import AbstractSpace
from jaxhamel.mechanics import System, as_control
from jaxhamel.mechanics._controls._moving_parts import innermost
from jaxhamel.mechanics._description._parameters import parameter, with_array_leaves
from jaxhamel.mechanics._system import overrides
from jaxhamel.mechanics._tangent import tangent_size
from jaxhamel.simulate._simulate import dtype_of_state
from jaxhamel.simulate._solvers._base_classes import apply

ACCURACY = 1e-8  # of P at the first time, as a share of its largest entry
# The accuracy asked for is at least this number of rounding errors (eps of the dtype): 1e-4 in single precision.
ROUNDING = 1e3
# The numbers of steps in each interval of a plan that are tried until P has this accuracy.
CHOICES = (1, 2, 4, 8)
MOST_PLAN_STEPS = 2**31 - 1  # steps are counted by 32-bit integers
ENDS = slice(None, -1), slice(1, None)  # select the starts and the ends of all intervals


class Correction(eqx.Module):
    """The law of a `Regulator` at one time: command = c − K δ, δ = (local(q*, q), u − u*)."""

    q: Configuration
    u: Float[Array, " k"]
    control: Float[Array, " p"]
    gains: Float[Array, "p d"]
    space: AbstractSpace

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Float[Array, " p"]:
        """The command c − K δ."""
        error = jnp.concatenate([self.space.local(self.q, q), u - self.u])
        return self.control - self.gains @ error


class Regulator(eqx.Module):
    """A plan and the feedback that stabilises a motion along it:

        control(t, q, u) = c(t) − K(t) δ ,   δ = (local(q*(t), q), u − u*(t)) .

    - `ts`: equal steps, `(N+1,)`; `q`, `u`: the plan q*, u* at `ts`, with a leading axis; `control`: c, a callable of t.
    - `gains`: K, `(N+1, p, n+k)`; `values`: P, `(N+1, n+k, n+k)`: ½ δ·P(t) δ is the least cost from (t, δ) on, to second
      order in δ.
    - `slopes`: the plan's rate δ̇ at both ends of each interval, times the interval's length, in exponential coordinates
      about its start, `(N, 2, n+k)`; `space`: the configuration space of q.
    - `linear`: (A, B) of δ̇ = A δ + B δc at `ts`, `(N+1, n+k, n+k)` and `(N+1, n+k, p)`.
    - `costs`: the matrices (Q, R, S) of the cost.
    - `lead`: a time [s] by which c is read ahead, c(t + lead), up to the plan's end; default 0. For a digital controller
      with period T and delay d T, lead = (d + 1/2) T gives, to second order, the mean of c while the command acts.

    Between the times `ts`, q* and u* are cubic in these coordinates and have the plan's velocities at both ends; K is
    interpolated linearly. Before the first and after the last time, q*, u* and K keep their end values. A regulator is a law
    for `jaxhamel.Feedback` and for `jaxhamel.control.Sampled`.
    """

    ts: Float[Array, " N+1"]
    q: Configuration
    u: Float[Array, "N+1 k"]
    control: Any
    gains: Float[Array, "N+1 p d"]
    values: Float[Array, "N+1 d d"]
    slopes: Float[Array, "N 2 d"]
    space: AbstractSpace
    linear: tuple[Float[Array, "N+1 d d"], Float[Array, "N+1 d p"]]
    lead: Any = parameter(default=0.0)
    costs: tuple[Float[Array, "d d"], Float[Array, "p p"], Float[Array, "d d"]] | None = None

    @property
    def made_for(self) -> tuple[AbstractSpace, int]:
        """The space and the number of quasi-velocities of the states that the law takes."""
        return self.space, self.u.shape[-1]

    def __call__(self, t: Time, q: Configuration, u: QuasiVelocity) -> Float[Array, " p"]:
        """The command c(t + lead) − K(t) δ."""
        return self.at(t)(t, q, u)

    def at(self, t: Time) -> "Correction":
        """The law at one time, an affine function of δ without tables."""
        q, u, gains = self.plan(t)
        return Correction(q, u, self.control(self._acting(t)), gains, self.space)

    def _acting(self, t: Time) -> Scalar:
        """The time t + lead at which c is read, at most the plan's end."""
        t = jnp.asarray(t, self.ts.dtype)
        return jnp.maximum(t, jnp.minimum(t + self.lead.astype(t.dtype), self.ts[-1]))

    def plan(self, t: Time) -> tuple[Configuration, Float[Array, " k"], Float[Array, "p d"]]:
        """The plan and the gains, (q*, u*, K), at t."""
        last = self.ts.shape[0] - 2
        place = (t - self.ts[0]) / (self.ts[-1] - self.ts[0]) * (last + 1)
        index = jnp.clip(jnp.floor(place).astype(int), 0, last)
        share = jnp.clip(place - index.astype(place.dtype), 0.0, 1.0)
        n, slopes = self.space.dim, self.slopes[index]
        q0, q1 = (jax.tree.map(lambda x, i=i: x[index + i], self.q) for i in (0, 1))
        chord = jnp.concatenate([self.space.local(q0, q1), self.u[index + 1] - self.u[index]])
        delta = _cubic(share, chord, *slopes)
        gains = self.gains[index] + share * (self.gains[index + 1] - self.gains[index])
        return self.space.retract(q0, delta[:n]), self.u[index] + delta[n:], gains


def _cubic(s: Scalar, end: Array, slope0: Array, slope1: Array) -> Array:
    """The cubic with p(0) = 0, p(1) = end, p′(0) = slope0, p′(1) = slope1, at s (Hermite)."""
    rest = 1.0 - s
    return s * s * (3.0 - 2.0 * s) * end + s * rest * (rest * slope0 - s * slope1)


def regulate(
    system: System,
    ts: ArrayLike,
    q: Configuration,
    u: ArrayLike,
    control: Control,
    *,
    state_cost: ArrayLike | None = None,
    control_cost: ArrayLike | None = None,
    final_cost: ArrayLike | None = None,
    steps: int | None = None,
    route: str | None = None,
) -> Regulator:
    """The feedback of least cost about a plan, for small deviations δ of the state and δc of the control:

        J = ½ δ(T)·S δ(T) + ½ ∫ δ·Q δ + δc·R δc dt ,    δ̇ = A(t) δ + B(t) δc ,
        −Ṗ = AᵀP + P A − P B R⁻¹ Bᵀ P + Q ,   P(T) = S ,    K = R⁻¹ Bᵀ P .

    A and B are those of `jaxhamel.mechanics.linearise`, in the tangent space of the group. A method of order 8 integrates P
    backwards in time; between the times `ts` the equations are linearised about the plan's motion, which is integrated from
    each of them. Without costs the plan decides (Bryson's rule): Q = diag(1/x_i²) and R = diag(1/c_j²) with

        x_i = max |δ_i| of the plan from its first configuration and from u = 0 ,    c_j = max |c_j(t) − its mean| .

    Entries of one part of the state with the same unit, such as the axes of a position, take the largest size among them.
    An entry that moves by less than a tenth of the size that follows from the others by the equations of motion (the one
    that changes another entry by its size during the plan, or that the others give it) takes this tenth; if nothing moves,
    all follow from a configuration of size 1 (m, rad). The motions of the loop do not depend on the units of the entries.

    **Arguments:**

    - `system`: any system driven by its control; where parts of it move, a `jaxhamel.MovingParts`.
    - `ts`: times with equal steps, `(N+1,)` [s]; `q`, `u`: the plan at `ts`, with a leading time axis, as in a `Trajectory`.
    - `control`: the plan's control, a callable of t or a constant, of p numbers.
    - `state_cost`: Q, `(n+k,)` for a diagonal or `(n+k, n+k)`, of δ = (δ_q, δ_u) as in `linearise`; None: by Bryson's rule.
    - `control_cost`: R, positive, `(p,)` or `(p, p)`; None: by Bryson's rule.
    - `final_cost`: S, as Q, of any size. None: with a `state_cost` 0, with which the gains fall to zero at T, and an
      unstable motion grows at the end; without one P(T) of a plan that lasts twice as long, with A(T) and B(T) after T. In
      single precision, with a large S and fewer controls than coordinates, P has few correct digits near T.
    - `steps`: steps of P in each interval of `ts`, at whose four parts the equations are linearised; None: 1, 2, 4 or 8,
      the first with which the estimated error of P(ts[0]) is at most 1e-8 of its largest entry (1 inside `jit`).
    - `route`: to the equations of motion, see `jaxhamel.acceleration`.

    **Returns:** a `Regulator`.

    **Raises:** `ValueError` or `TypeError` for shapes that do not fit, costs that are not symmetric or not positive, unequal
    steps of `ts`; `ValueError` for a plan on which the frame is singular or the linearised equations are not finite, with
    the time, for gains that are not finite, because the steps are too long for a fast closed loop, and for missing costs
    inside jit, grad or vmap.

    Source: Anderson and Moore 1990, ch. 2; Bryson and Ho 1975, ch. 5; on a group, δ as in Müller 2023, eq. (7.2); Prince and
    Dormand 1981.
    """
    system, control = with_array_leaves((system, as_control(control)))
    check_regulated(system, ts, q, u, route)
    dtype = dtype_of_state(q, u)

    def cast(x):
        return jnp.asarray(x, dtype)

    ts, q, u = cast(ts), jax.tree.map(cast, q), cast(u)
    size = tangent_size(system)
    planned = check_plan(system, ts, q, u, control)
    costs = [
        _square(name, cost, width, name == "control_cost")
        for name, cost, width in (
            ("state_cost", state_cost, size),
            ("control_cost", control_cost, planned),
            ("final_cost", _final_cost(state_cost, final_cost, size), size),
        )
    ]
    if steps is not None:
        _checks.check_count("steps", steps, most=MOST_PLAN_STEPS)
    Q, R, S = (None if x is None else x.astype(u.dtype) for x in costs)
    wanted = max(ACCURACY, ROUNDING * float(jnp.finfo(dtype).eps))
    *fewer, last = CHOICES if steps is None else (steps,)
    for count in fewer:
        found, error = _regulate(system, ts, q, u, control, (Q, R, S), count, route)
        known = concrete(error)
        if known is None or known <= wanted:
            return found
    found, error = _regulate(system, ts, q, u, control, (Q, R, S), last, route)
    check_gains(found.gains, last)
    if steps is None:
        check_accuracy(error, wanted, last)
    return found


def _final_cost(state_cost: Any, final_cost: Any, size: int) -> Any:
    """The final cost as given; 0 without one beside a given cost of the state."""
    return jnp.zeros(size) if final_cost is None and state_cost is not None else final_cost


def _square(name: str, cost: ArrayLike | None, size: int, positive: bool) -> Array | None:
    """Checks a cost, and converts it to a matrix; None without one."""
    if cost is None:
        return None
    _checks.check_arrays(**{name: cost})
    _checks.check_one_array(name, cost, "an array of weights")
    array = jnp.asarray(cost)
    check_cost(name, array, size, positive)
    return jnp.diag(array) if array.ndim == 1 else array


def _regulate(system, ts, q, u, control, costs, steps, route) -> tuple[Regulator, Scalar]:
    """The regulator, from checked arguments, and the estimated error of P at the first time as a share of P.

    `costs`: the matrices (Q, R, S), or None for the default of each.
    """
    at = refined(system, ts, q, u, control, steps, route)
    if overrides(innermost(system), "frame"):
        check_frame(system, at.t, frame_signs(system, at))
    rates, A, B = linearised(system, at, route)
    check_linearised(at.t, A, B)
    h = ts[1:] - ts[:-1]
    pieces = jnp.repeat(h, steps) / steps
    every = slice(None, None, INTERVALS * steps)
    linear = A[every], B[every]
    if costs[0] is None or costs[1] is None:
        costs = _by_bryson(costs, plan_sizes(system, ts, q, u, at.control[every], *linear))
        costs = jax.tree.map(lambda x: x.astype(u.dtype), costs)
    parts = step_parts(A, B, costs[:2], pieces)
    if costs[2] is None:
        costs = (*costs[:2], _final_of_longer_plan(A, B, costs, pieces, parts))
    values, gains, error = riccati(A, B, costs, pieces, parts)
    slopes = _slopes_of_state(system.space, h, q, rates[every])
    tables = gains[::steps], values[::steps], slopes
    found = Regulator(ts, q, u, control, *tables, system.space, linear, costs=costs)
    return found, error


def _by_bryson(costs, sizes: PlanSizes):
    """The costs, those of the state and of the control by Bryson's rule where they are missing."""
    (Q, R, S), (x, c) = costs, sizes
    return bryson(x) if Q is None else Q, bryson(c) if R is None else R, S


def _final_of_longer_plan(A, B, costs, h, parts: int) -> Float[Array, "d d"]:
    """P(T) of a plan that lasts twice as long, with the equations at T in its second half."""
    A, B = (jnp.broadcast_to(x[-1], x.shape) for x in (A, B))
    return riccati(A, B, (*costs[:2], jnp.zeros_like(costs[0])), h, parts).values[0]


@compiled
def _slopes_of_state(space, h, q, rates) -> Float[Array, "N 2 d"]:
    """h δ̇ at both ends of each interval, from the rates (v, u̇) at the ends: v = dexp_{−δ_q} δ̇_q, δ_q = log(q0⁻¹ q)."""
    n = space.dim

    def ends(h, before, after, start, end):
        turned = apply("dexpinv", space, -space.local(before, after), end[:n])
        return h * jnp.stack([start, jnp.concatenate([turned, end[n:]])])

    first, last = (jax.tree.map(lambda x, part=part: x[part], (q, rates)) for part in ENDS)
    return jax.vmap(ends)(h, first[0], last[0], first[1], last[1])
