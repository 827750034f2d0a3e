"""`ensemble.simulate`: many motions of one kind of system at once."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._shapes import Seen
from jaxhamel._typing import Configuration, Control
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._simulate_lanes import (
    in_adaptive_steps,
    in_equal_steps,
    takes_adaptive_steps,
    takes_equal_steps,
)
from jaxhamel.mechanics import ROUTES, System
from jaxhamel.mechanics._checks._system import check_frame_at, check_route
from jaxhamel.mechanics._controls._control import Feedback, checked_at_start
from jaxhamel.mechanics._controls._recorded import check_recorded
from jaxhamel.simulate import Trajectory
from jaxhamel.simulate import simulate as simulate_one
from jaxhamel.simulate._checks import check_options
from jaxhamel.simulate._simulate import dtype_of_state, most_steps


def simulate(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    ts: ArrayLike,
    control: Control = None,
    *,
    in_axes: Any = 0,
    **options: Any,
) -> Trajectory:
    """The motions of an ensemble, each as `jaxhamel.simulate` computes it:

        result[b] = jaxhamel.simulate(system[b], q0[b], u0[b], ts, control[b]) .

    **Arguments:**

    - `system`, `q0`, `u0`, `control`: as for `jaxhamel.simulate`. The arrays of an argument that differs from trajectory to
      trajectory have a batch axis: a system built by `jax.vmap(make_system)(parameters)`, `u0` of shape `(B, k)`.
    - `ts`: times [s], `(T,)`, the same for all.
    - `in_axes`: as for `jax.vmap` over `(system, q0, u0, control)`: an integer, None, or one entry for each of the four.
      `in_axes=(None, 0, 0, None)` is one system under one control from many states.
    - `options`: as for `jaxhamel.simulate`: `rtol`, `atol`, `dt`, `solver`, `route`, …

    Without `dt`, and with no other options than `solver` (explicit Runge–Kutta with an error estimate), `rtol`, `atol`,
    `max_steps` and `route`, the trajectories run in lanes. Each takes the same steps as in `jaxhamel.simulate`, and none
    waits for another, neither in the motion nor in its derivatives, which are those of `jaxhamel.simulate`.

    With `dt`, and with no other options than `solver` (explicit Runge–Kutta or on groups; default `Tsit5()`) and `route`,
    they run in lanes as well, see `jaxhamel.ensemble.rollout`: the same numbers to rounding, many times faster. If a
    trajectory breaks down, `t_end` is then the last of `ts` that it reached.

    **Returns:** a `Trajectory` whose arrays have a leading ensemble axis: `q`, `u` are `(B, T, …)`, `result` has one
    entry for each trajectory. A trajectory that breaks down does not affect the others.

    **Raises:** `ValueError` for an empty ensemble, for batch sizes that differ, or for an invalid state, with its index.
    """
    members = Members.of(system, q0, u0, control, in_axes)
    times = _times_checked(members, ts, options)
    if takes_equal_steps(members, ts, options):
        return in_equal_steps(members, times, **options)
    if takes_adaptive_steps(members, ts, options):
        return in_adaptive_steps(members, times, options)
    return _by_vmap(members, times, _as_arrays(options) | {"max_steps": _most(ts, options)})


def _times_checked(
    members: Members, ts: ArrayLike, options: Mapping[str, Any]
) -> Float[Array | np.ndarray, " T"]:
    """Checks the times, and converts them to the dtype of the state.

    **Raises:** `ValueError` or `TypeError` as `jaxhamel.simulate` does: for wrong shapes, and for wrong values that all
    trajectories share.
    """
    system, q0, u0, control = members.with_own(members.own)
    _checks.check_time_array(ts)
    dtype = dtype_of_state(q0, u0)
    traced = isinstance(ts, jax.core.Tracer)
    times = ts.astype(dtype) if traced else np.asarray(ts, dtype)  # known under jit, too
    _checks.check_times(times)
    _checks.check_steps(*(options.get(name) for name in ("rtol", "atol", "dt")))
    check_options(*(options.get(name) for name in ("solver", "adjoint", "max_steps", "route")))
    check_route(options.get("route"), ROUTES)
    check_recorded(system, times, control)
    _check_motion(members, times)
    if members.shares(3) and not isinstance(control, Feedback):
        _checks.check_control_along(times, control)
    if members.shares(0) and members.shares(1):
        check_frame_at(system, times[0], q0)
    return times


def _check_motion(members: Members, ts: Float[Array | np.ndarray, " T"]) -> None:
    """Checks the shapes of frame and control by a trace, once for each kind of ensemble, because tracing is slow."""
    with _CHECKED.once(members, ts) as is_new:
        if is_new:
            eqx.filter_eval_shape(_motion_shapes, members, jnp.asarray(ts))


_CHECKED = Seen()


def _motion_shapes(members: Members, ts: Float[Array, " T"]) -> None:

    def check(*own):
        system, q0, u0, control = members.with_own(own)
        system.check_control(ts[0], checked_at_start(system, ts[0], q0, u0, control))
        check_frame_at(system, ts[0], q0)
        return own

    jax.vmap(check)(*members.own)


def _as_arrays(options: dict[str, Any]) -> dict[str, Any]:
    """Converts numbers to arrays, so that new values do not recompile."""
    numbers = {"rtol", "atol", "dt"} & {name for name, x in options.items() if x is not None}
    return options | {name: jnp.asarray(options[name]) for name in numbers}


def _most(ts: ArrayLike, options: dict[str, Any]) -> int:
    """`max_steps` if given, else the number that follows from times and step, before they are traced."""
    max_steps, dt = options.get("max_steps"), options.get("dt")
    return most_steps(max_steps, ts, dt, bool(options.get("dense")))


@compiled
def _by_vmap(members: Members, ts: ArrayLike, options: dict[str, Any]) -> Trajectory:
    def one(*own):
        system, q0, u0, control = members.with_own(own)
        return simulate_one(system, q0, u0, ts, control, **options)

    return jax.vmap(one)(*members.own)
