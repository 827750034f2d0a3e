"""`integrate`: solves one differential equation for many parameters and initial values."""

from collections.abc import Callable
from functools import cache
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._lanes._columns import ColumnLayout
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel.ensemble._adaptive_steps._adaptive_paths import AdaptiveOptions, Equation
from jaxhamel.ensemble._checks._members import check_slope
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._paths import by_tolerance, paths
from jaxhamel.simulate import AutoAdjoint
from jaxhamel.simulate._solvers._runge_kutta import tableau
from jaxhamel.simulate._step_size import watched_pid
from jaxhamel.simulate._trajectory import nan_where


def integrate(
    f: Callable[..., Any],
    y0: Any,
    ts: ArrayLike,
    args: Any = None,
    *,
    dt: float | None = None,
    rtol: ArrayLike | None = None,
    atol: ArrayLike | None = None,
    max_steps: int | None = None,
    in_axes: Any = 0,
    method: Any = None,
    checkpoint: bool | None = None,
    kernel: Kernel | bool | None = None,
) -> Any:
    """Many solutions of an ordinary differential equation at `ts`, by equal steps or by adaptive steps of each solution:

        dy/dt = f(t, y, args) ,     y(ts[0]) = y0 .

    `jaxhamel.ensemble.rollout` does the same for mechanical systems.

    **Arguments:**

    - `f`: `(t, y, args)` to dy/dt, for one trajectory: a function of the operations that `jaxhamel.ensemble.lanes` takes,
      or a callable pytree. dy/dt has the structure, shapes and dtype of y.
    - `y0`: a pytree of arrays of one floating dtype.
    - `ts`: times, `(T,)`, increasing; the same for all. With `dt` they have to be concrete.
    - `args`: any pytree, passed to `f`.
    - `dt`: the longest step, concrete; each interval of `ts` is divided into equal steps. Without it, error estimates
      choose the steps of each trajectory separately, within `rtol`, `atol` and `max_steps`.
    - `in_axes`: as for `jax.vmap` over `(y0, args)`: an integer, None, or one entry for each of the two.
    - `method`, `checkpoint`, `kernel`: as for `jaxhamel.ensemble.rollout`.

    **Returns:** the states, arrays with leading axes (B, T). A trajectory that breaks down is NaN or infinite from then on.

    Outside of jit, a warning says how many trajectories with adaptive steps did not reach the last time.

    **Raises:** `ValueError` for shapes that do not fit, times out of order, times or `dt` that are traced where they must be
    concrete, `dt` that is not positive; `TypeError` for an `f` that is not callable, or a method that is not accepted.

    Works under jit, grad and jvp.

        rho = jnp.linspace(0.0, 21.0, 1000)
        lorenz = lambda t, y, rho: jnp.stack([10 * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - 8 / 3 * y[2]])
        ends = integrate(lorenz, jnp.array([1.0, 0.0, 0.0]), [0.0, 1.0], rho, dt=1e-3, in_axes=(None, 0))[:, -1]
    """
    _checks.check_callable("f", f, "(t, y, args) to dy/dt")
    members = Members.gathered({"y0": y0, "args": args}, in_axes, (f,))
    if dt is None:
        return by_tolerance(ordinary_equation(), members, ts, rtol, atol, method, max_steps)
    _checks.check_steps(rtol, atol, dt)
    plan = Plan.of(ts, dt, tableau("rk4" if method is None else method), checkpoint, kernel)
    return _integrate(members, jnp.asarray(ts), plan)


@jit
def _integrate(members: Members, ts: Float[Array, " T"], plan: Plan):
    state, motion = ordinary(members)
    return state.entries(row.T for row in paths(motion, ts, plan))


# Expresses an ensemble of ordinary differential equations dy/dt = f(t, y, args) as functions of the numbers of one lane.
#
# The inputs of a member are (y0, args, f).


def ordinary(members: Members) -> tuple[ColumnLayout, SteppedMotion]:
    """The layout of y, and the motion of all members in lanes."""
    first = jax.vmap(lambda own: members.with_own(own)[0])(members.own)
    state, own = ColumnLayout.of(first), ColumnLayout.of(members.own)
    shared, fixed = members.shared

    def rate(t, y, mine, shared):
        y, (_, args, f) = state.entries(y), members.with_numbers(own.entries(mine), shared, fixed)
        slope = f(t, y, args)
        check_slope(slope, y)
        return state.numbers(slope)

    y, mine = state.columns(first), own.columns(members.own)
    return state, SteppedMotion(rate, lambda y, shared: y, y, mine, shared)


@cache
def ordinary_equation() -> Equation:
    """The differential equation in the form that adaptive steps need (`Equation`)."""
    return Equation(ordinary, _alone, lambda member: member[0])


def _alone(
    member: tuple[Any, ...], ts: Float[Array, " T"], asked: AdaptiveOptions
) -> tuple[Any, Array, Any]:
    """The solution of one member by diffrax: its states at `ts`, the last time, and the state at that time."""
    y0, args, f = member

    def slope(t, y, args) -> Any:
        return f(t, y, args)

    path, end = diffrax.SubSaveAt(ts=ts), diffrax.SubSaveAt(t1=True)
    found: Any = diffrax.diffeqsolve(
        diffrax.ODETerm(slope),
        asked.solver,
        ts[0],
        ts[-1],
        None,
        y0,
        args,
        saveat=diffrax.SaveAt(subs=(path, end)),
        stepsize_controller=watched_pid(asked.rtol, asked.atol, ts),
        adjoint=AutoAdjoint(),
        max_steps=asked.max_steps,
        throw=False,
    )
    (times, (t_end,)), (states, last) = found.ts, found.ys
    states = nan_where(~jnp.isfinite(times), states)
    return states, t_end, jax.tree.map(lambda x: x[0], last)
