"""`integrate`: solves one differential equation for many parameters and initial values."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel.ensemble._by_tolerance import by_tolerance
from jaxhamel.ensemble._equal_steps._equal_steps import Plan
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._ordinary import ordinary, ordinary_equation
from jaxhamel.ensemble._paths import paths
from jaxhamel.simulate._solvers._runge_kutta import tableau


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

    **Returns:** the states, arrays with leading axes (B, T). A trajectory that breaks down is NaN or infinite from there on.

    A warning tells how many trajectories of adaptive steps did not reach the last time, outside of jit.

    **Raises:** `ValueError` for shapes that do not fit, times out of order or traced, `dt` that is not positive.

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
