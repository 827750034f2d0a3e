"""rollout: many motions in equal steps, each number of the state a batch vector of its own (`lanes`).

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j) ,     y₁ = N(y + h Σ_i b_i k_i)

y = (q, u) in storage coordinates; N divides quaternions by their norm at the end of each step (a projected Runge–Kutta
method, of the same order: Hairer, Lubich and Wanner, Geometric Numerical Integration, IV.4). One loop runs over the
steps, one inside it over the stages, so that XLA compiles and optimises one right-hand side.
"""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel._typing import Configuration, Control
from jaxhamel.ensemble._by_tolerance import by_tolerance
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._mechanical import mechanical, mechanical_equation
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._group_steps import method_on
from jaxhamel.ensemble._paths import paths
from jaxhamel.mechanics import ROUTES, System
from jaxhamel.simulate._runge_kutta import Tableau


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
    """The states of an ensemble at `ts`, by equal steps no longer than `dt` or by steps of its own for each trajectory.

    **Arguments:**

    - `system`, `q0`, `u0`, `control`, `in_axes`: as for `jaxhamel.ensemble.simulate`.
    - `ts`: times [s], `(T,)`, increasing; the same for all. With `dt` they have to be concrete: they decide how many steps
      there are.
    - `dt`: the longest step [s], concrete; each interval of `ts` is divided into equal steps. Without it steps are chosen
      by error estimates, as `jaxhamel.simulate` chooses them, for each trajectory by itself: none waits for another.
    - `rtol`, `atol`, `max_steps`: of these steps, as for `jaxhamel.simulate`. The method is then one of diffrax that
      estimates its error, default `Tsit5()`; derivatives are those of the steps taken, their lengths held fixed;
      `checkpoint` and `kernel` mean nothing.
    - `method`: with `dt`, `"rk4"` (default), an explicit Runge–Kutta method of diffrax (`diffrax.Tsit5()`,
      `diffrax.Dopri8()`, …), or a method on groups: `jaxhamel.LieGroup(diffrax.Tsit5(), space)`,
      `jaxhamel.CommutatorFree2()`, `jaxhamel.CommutatorFree4()`. On a matrix group a Runge–Kutta method is taken as
      `LieGroup` takes it.
    - `route`: to the equations of motion, see `jaxhamel.acceleration`.
    - `checkpoint`: whether reverse mode keeps the states at `ts` and, where these are few, about √n of all n besides, and
      computes the others again: memory grows like the square root of the number of steps. False: it keeps
      the states of all steps. None: it does that where they take no more than 64 MiB.
    - `kernel`: whether one GPU kernel does all steps, a `jaxhamel.ensemble.Kernel` or True; in programs for other devices
      that changes nothing. None: where JAX finds a GPU; False: nowhere.

    **Returns:** (q, u), arrays with leading axes (B, T): what `jaxhamel.ensemble.simulate` has as `q` and `u`. A trajectory
    that breaks down is NaN or infinite from there on, and disturbs no other.

    **Raises:** `ValueError` for shapes that do not fit, times out of order or traced, `dt` that is not positive.

    Works under jit, grad and jvp; derivatives reach what differs from trajectory to trajectory and what all share. Other
    numbers compile nothing again, save that the program knows which of the numbers that all share are 0, 1 or −1; other
    times do only where they change the number of steps.
    """
    members = Members.of(system, q0, u0, control, in_axes)
    _checks.check_route(route, ROUTES)
    if dt is None:
        equation = mechanical_equation(route)
        return by_tolerance(equation, members, ts, rtol, atol, method, max_steps)
    _checks.check_steps(rtol, atol, dt)
    method = "rk4" if method is None else method
    plan = Plan.of(ts, dt, method_on(system.space, method), checkpoint, kernel)
    return _compiled(members, jnp.asarray(ts), route, plan)


def rolled_out(members: Members, ts: Float[Array, " T"], route: str | None, plan: Plan):
    """Being compiled: the states of all members at `ts`."""
    group = None if isinstance(plan.method, Tableau) else plan.method
    state, motion = mechanical(members, route, group)
    return state.entries(row.T for row in paths(motion, ts, plan))


_compiled = jit(rolled_out)
