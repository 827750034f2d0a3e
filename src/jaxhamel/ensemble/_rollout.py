"""rollout: many motions in equal steps, each number of the state a batch vector of its own (`lanes`).

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j) ,     y₁ = N(y + h Σ_i b_i k_i)

y = (q, u) in storage coordinates; N divides quaternions by their norm at the end of each step (a projected Runge–Kutta
method, of the same order: Hairer, Lubich and Wanner, Geometric Numerical Integration, IV.4). One loop runs over the
steps, one inside it over the stages, so that XLA compiles and optimises one right-hand side.
"""

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._typing import Configuration, Control
from jaxhamel.ensemble._columns import Layout
from jaxhamel.ensemble._lanes import lanes
from jaxhamel.ensemble._members import Members
from jaxhamel.ensemble._tableaus import Tableau, tableau
from jaxhamel.mechanics import ROUTES, System, VectorField
from jaxhamel.simulate._step_size import steps_in

Columns = tuple[Float[Array, " B"], ...]

# A step of so many stages is one program.
AT_ONCE = 6


def rollout(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    ts: ArrayLike,
    control: Control = None,
    *,
    dt: float,
    in_axes: Any = 0,
    method: Any = "rk4",
    route: str | None = None,
    checkpoint: bool = True,
) -> tuple[Configuration, Float[Array, "B T k"]]:
    """The states of an ensemble at `ts` by equal steps no longer than `dt`, without error control: the fast way.

    **Arguments:**

    - `system`, `q0`, `u0`, `control`, `in_axes`: as for `jaxhamel.ensemble.simulate`.
    - `ts`: times [s], `(T,)`, increasing and concrete (they decide how many steps there are); the same for all.
    - `dt`: the longest step [s], concrete; each interval of `ts` is divided into equal steps.
    - `method`: `"rk4"`, or an explicit Runge–Kutta method of diffrax (`diffrax.Tsit5()`, `diffrax.Dopri8()`, …).
    - `route`: to the equations of motion, see `jaxhamel.acceleration`.
    - `checkpoint`: whether reverse mode keeps the states at `ts` only and computes those between again: with as many
      steps between two times as there are times, memory grows like the square root of the number of steps.

    **Returns:** (q, u), arrays with leading axes (B, T): what `jaxhamel.ensemble.simulate` has as `q` and `u`. A trajectory
    that breaks down is NaN or infinite from there on, and disturbs no other.

    **Raises:** `ValueError` for shapes that do not fit, times out of order or traced, `dt` that is not positive.

    Works under jit, grad and jvp; derivatives reach what differs from trajectory to trajectory and what all share. Other
    numbers compile nothing again, other times do only where they change the number of steps.
    """
    members = Members.of(system, q0, u0, control, in_axes)
    _checks.check_route(route, ROUTES)
    _checks.check_rollout_times(ts, dt)
    counts = tuple(steps_in(np.asarray(ts, float), float(dt)))
    return _rollout(members, jnp.asarray(ts), _Plan(tableau(method), counts, route, checkpoint))


class _Plan(NamedTuple):
    """All that decides which program is compiled."""

    method: Tableau
    counts: tuple[int, ...]
    route: str | None
    checkpoint: bool


@eqx.filter_jit
def _rollout(members: Members, ts: Float[Array, " T"], plan: _Plan):
    state, own = Layout.of(_first_states(members)), Layout.of(members.own)
    y = state.columns(_first_states(members))
    step = _in_lanes(members, state, own, plan)
    paths, first = [tuple(x[None] for x in y)], 0
    for count, group in groupby(
        plan.counts
    ):  # neighbouring intervals of as many steps share a loop
        last = first + len(list(group))
        advance = partial(_advance, step, count)
        advance = jax.checkpoint(advance) if plan.checkpoint else advance
        span = ts[first : last + 1].astype(y[0].dtype)
        intervals = (span[:-1], (span[1:] - span[:-1]) / count)
        y, path = jax.lax.scan(partial(_interval, advance), y, intervals)
        paths.append(path)
        first = last
    return state.entries(jnp.concatenate(each).T for each in zip(*paths, strict=True))


def _interval(advance: Callable, y: Columns, at: tuple[Array, Array]) -> tuple[Columns, Columns]:
    end = advance(y, *at)
    return end, end


def _first_states(members: Members):
    """(q0, u0) with a batch axis in every array."""
    return jax.vmap(lambda own: members.with_own(own)[1:3])(members.own)


def _in_lanes(members: Members, state: Layout, own: Layout, plan: "_Plan") -> Callable:
    """(t, h, y) ↦ y₁, one step on columns: in one program where that is small enough, else a stage at a time.

    Derivatives go a stage at a time, too: the whole step backward would be a program of thousands of operations.
    """
    field, space = VectorField(plan.route), members.with_own(members.own)[0].space
    shared, fixed = members.shared

    @jax.jit
    def rate(t, y, mine, shared):
        system, _, _, control = members.with_numbers(own.entries(mine), shared, fixed)
        return state.numbers(field(t, state.entries(y), (system, control)))

    def unit(y):
        q, u = state.entries(y)
        return state.numbers((space.normalise(q), u))

    def one_step(t, h, y, mine, shared):
        slope = lambda t, y: rate(t, y, mine, shared)  # noqa: E731
        return unit(_written_out(slope, plan.method, t, h, y))

    def by_stages(t, h, y, mine, shared):
        slope = lambda t, y: lanes(rate, (None, 0, 0, None))(t, y, mine, shared)  # noqa: E731
        return lanes(unit)(
            (_chained if plan.method.chained else _full)(slope, plan.method, t, h, y)
        )

    at_once = len(plan.method.b) <= AT_ONCE
    step = jax.custom_jvp(lanes(one_step, (None, None, 0, 0, None)) if at_once else by_stages)
    step.defjvp(partial(jax.jvp, by_stages))
    return lambda t, h, y: step(t, h, y, own.columns(members.own), shared)


def _advance(step: Callable, count: int, y: Columns, start, h) -> Columns:
    """`count` steps of size h."""

    def one(y, n):
        return step(start + n * h, h, y), None

    return jax.lax.scan(one, y, jnp.arange(count).astype(h.dtype))[0]


def _written_out(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """One stage after the other, for one trajectory."""
    slopes: list[Columns] = []

    def along(weights):
        used = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
        rates = (sum(h.dtype.type(w) * k[i] for w, k in used) for i in range(len(y)))
        return tuple(x + h * rate for x, rate in zip(y, rates, strict=True)) if used else y

    for row, c in zip(method.a, method.c, strict=True):
        slopes.append(slope(t + h.dtype.type(c) * h, along(row)))
    return along(method.b)


def _chained(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """Stages that need only the one before: two vectors for each number of the state."""
    ahead = [*(row[i] for i, row in enumerate(method.a[1:])), 0.0]

    def stage(carry, numbers):
        here, total = carry
        ahead, b, c = numbers
        k = slope(t + c * h, here)
        here = tuple(x + (ahead * h) * k for x, k in zip(y, k, strict=True))
        return (here, tuple(s + (b * h) * k for s, k in zip(total, k, strict=True))), None

    numbers = tuple(jnp.asarray(x, y[0].dtype) for x in (ahead, method.b, method.c))
    return jax.lax.scan(stage, (y, y), numbers)[0][1]


def _full(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """All slopes so far are kept, `(s, B)` for each number of the state."""
    a, b, c = (jnp.asarray(x, y[0].dtype) for x in method)
    stages = len(method.b)

    def along(weights, slopes):
        return tuple(x + h * jnp.tensordot(weights, k, 1) for x, k in zip(y, slopes, strict=True))

    def stage(slopes, numbers):
        i, weights, c = numbers
        k = slope(t + c * h, along(weights, slopes))
        return tuple(all_k.at[i].set(k) for all_k, k in zip(slopes, k, strict=True)), None

    slopes = tuple(jnp.zeros((stages, *x.shape), x.dtype) for x in y)
    slopes, _ = jax.lax.scan(stage, slopes, (jnp.arange(stages), a, c))
    return along(b, slopes)
