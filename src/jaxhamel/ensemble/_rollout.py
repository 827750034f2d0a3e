"""`rollout`: integrates many motions, with a batch vector for each number of the state (`lanes`).

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j) ,     y₁ = N(y + h Σ_i b_i k_i)

y = (q, u) in storage coordinates; N divides quaternions by their norm at the end of each step (a projected Runge–Kutta
method, of the same order: Hairer, Lubich and Wanner, Geometric Numerical Integration, IV.4). The steps are equal for all
trajectories (`_equal_steps/`), or each trajectory chooses its own by an error estimate (`_adaptive_steps/`).
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._lanes._columns import ColumnLayout
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel._typing import Configuration, Control
from jaxhamel.ensemble._adaptive_steps._adaptive_paths import AdaptiveOptions, Equation
from jaxhamel.ensemble._checks._members import check_rollout_times
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._equal_steps._recorded_steps import before_jumps
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._group_steps import in_velocities, method_on
from jaxhamel.ensemble._paths import by_tolerance, paths
from jaxhamel.mechanics import ROUTES, System, VectorField
from jaxhamel.mechanics._checks._system import check_route
from jaxhamel.simulate import simulate
from jaxhamel.simulate._solvers._runge_kutta import Tableau


def rollout(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    ts: ArrayLike,
    control: Control = None,
    *,
    dt: float | None = None,
    rtol: ArrayLike | None = None,
    atol: ArrayLike | None = None,
    max_steps: int | None = None,
    in_axes: Any = 0,
    method: Any = None,
    route: str | None = None,
    checkpoint: bool | None = None,
    kernel: Kernel | bool | None = None,
) -> tuple[Configuration, Float[Array, "B T k"]]:
    """The states of an ensemble at `ts`, by equal steps no longer than `dt` or by adaptive steps of each trajectory.

    **Arguments:**

    - `system`, `q0`, `u0`, `control`, `in_axes`: as for `jaxhamel.ensemble.simulate`.
    - `ts`: times [s], `(T,)`, increasing; the same for all. With `dt` they have to be concrete, because they decide the
      number of steps.
    - `dt`: the longest step [s], concrete; each interval of `ts` is divided into equal steps. Without it, error estimates
      choose the steps of each trajectory separately, as in `jaxhamel.simulate`: no trajectory waits for another.
    - `rtol`, `atol`, `max_steps`: limits of adaptive steps, as for `jaxhamel.simulate`. The method is then one of diffrax
      with an error estimate, default `Tsit5()`; derivatives are those of the steps taken, with their lengths held fixed;
      `checkpoint` and `kernel` have no effect.
    - `method`: with `dt`, `"rk4"` (default), an explicit Runge–Kutta method of diffrax (`diffrax.Tsit5()`,
      `diffrax.Dopri8()`, …), or a method on groups: `jaxhamel.LieGroup(diffrax.Tsit5(), space)`,
      `jaxhamel.CommutatorFree2()`, `jaxhamel.CommutatorFree4()`. On a matrix group a Runge–Kutta method is taken as
      `LieGroup` takes it.
    - `route`: to the equations of motion, see `jaxhamel.acceleration`.
    - `checkpoint`: True: reverse mode stores the states at `ts` and, if these are few, about √n of all n states, and
      recomputes the others, so that memory grows like the square root of the number of steps. False: it stores the states
      of all steps. None: False if these take at most 64 MiB, else True.
    - `kernel`: True or a `jaxhamel.ensemble.Kernel`: a single GPU kernel takes all steps; programs for other devices stay
      the same. None: True if JAX's default device is a GPU. False: never.

    **Returns:** (q, u), arrays with leading axes (B, T), like `q` and `u` of `jaxhamel.ensemble.simulate`. A trajectory
    that breaks down is NaN or infinite from then on and affects no other.

    Outside of jit, a warning says how many trajectories with adaptive steps did not reach the last time.

    **Raises:** `ValueError` for shapes that do not fit, times out of order, times or `dt` that are traced where they must be
    concrete, `dt` that is not positive; `TypeError` for a method that is not accepted.

    Works under jit, grad and jvp, with derivatives with respect to per-trajectory and shared inputs. New values do not
    recompile, with three exceptions: another set of shared numbers that are 0, 1 or −1, other shared arrays of integers, and
    times that change the number of steps.
    """
    members = Members.of(system, q0, u0, control, in_axes).prepared()
    check_route(route, ROUTES)
    if dt is None:
        equation = mechanical_equation(route)
        return by_tolerance(equation, members, ts, rtol, atol, method, max_steps)
    _checks.check_steps(rtol, atol, dt)
    method = "rk4" if method is None else method
    check_rollout_times(ts, dt)
    stepped = before_jumps(method_on(system.space, method), members.control, ts, dt)
    plan = Plan.of(ts, dt, stepped, checkpoint, kernel)
    return _compiled(members, jnp.asarray(ts), route, plan)


def rolled_out(members: Members, ts: Float[Array, " T"], route: str | None, plan: Plan):
    """The states of all members at `ts`; the function that is compiled."""
    group = None if isinstance(plan.method, Tableau) else plan.method
    state, motion = mechanical(members, route, group)
    return state.entries(row.T for row in paths(motion, ts, plan))


_compiled = jit(rolled_out)


# Expresses an ensemble of mechanical systems as functions of the numbers of one lane.


def mechanical(
    members: Members, route: str | None, method: Any = None
) -> tuple[ColumnLayout, SteppedMotion]:
    """The layout of a state (q, u), and the motion of all members; `method`: a method on groups, or None for any other."""
    first = jax.vmap(lambda own: members.with_own(own)[1:3])(members.own)
    state, own = ColumnLayout.of(first), ColumnLayout.of(members.own)
    field, space = VectorField(route), members.space
    shared, fixed = members.shared

    def at(mine, shared) -> tuple[Any, Callable[..., Any]]:
        system, _, _, control = members.with_numbers(own.entries(mine), shared, fixed)
        return system, lambda t, y: field(t, y, (system, control))

    def rate(t, y, mine, shared):
        return state.numbers(at(mine, shared)[1](t, state.entries(y)))

    def step(t, h, y, mine, shared):
        system, rate = at(mine, shared)
        slope = in_velocities(system.space, rate)
        return state.numbers(method.step(system.space, slope, t, h, state.entries(y)))

    def unit(y, shared):
        q, u = state.entries(y)
        return state.numbers((space.normalise(q), u))

    y, mine = state.columns(first), own.columns(members.own)
    return state, SteppedMotion(rate, unit, y, mine, shared, None if method is None else step)


@cache
def mechanical_equation(route: str | None) -> Equation:
    """The equations of motion in the form that adaptive steps need (`Equation`)."""
    return Equation(partial(mechanical, route=route), partial(_alone, route), _first_state)


def _first_state(member: tuple[Any, ...]):
    return member[1:3]


def _alone(route: str | None, member: tuple[Any, ...], ts, asked: AdaptiveOptions):
    system, q0, u0, control = member
    options: dict[str, Any] = asked._asdict() | {"route": route}
    found = simulate(system, q0, u0, ts, control, **options)
    return (found.q, found.u), found.t_end, (found.q_end, found.u_end)
