"""Simulates a system under a digital controller, one trajectory or many in lanes."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel._compiled import compile_ahead
from jaxhamel._lanes._transform import axes_of_leaves, lists_as_arrays
from jaxhamel._lanes._xla_cpu._jit import jit, outermost
from jaxhamel._typing import Configuration, QuasiVelocity, Scalar
from jaxhamel.control._checks._closed_loop import (
    check_closed_loop,
    check_command,
    check_key,
    check_observation,
    check_parts_of,
    check_same_observation,
    check_sampling_times,
    check_width_of_model,
)
from jaxhamel.control._checks._laws import check_memory, has_memory
from jaxhamel.control._loop._periods._in_lanes import in_lanes
from jaxhamel.control._loop._periods._noise import noise_in, noise_keys
from jaxhamel.control._loop._periods._period import (
    Periods,
    after_period,
    as_arguments,
    decided,
    first_loop,
    sampled_at,
    trajectory_of,
)
from jaxhamel.control._loop._sampled import Sampled
from jaxhamel.mechanics import Constant, System
from jaxhamel.mechanics._checks._feedback import check_feedback_value
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._controls._control import checked_value
from jaxhamel.mechanics._description._parameters import with_array_leaves
from jaxhamel.mechanics._examination._boundary import check_forms
from jaxhamel.simulate import Trajectory
from jaxhamel.simulate._simulate import dtype_of_state


def closed_loop(
    system: System,
    q0: Configuration,
    u0: ArrayLike,
    controller: Sampled,
    samples: int,
    *,
    t0: ArrayLike = 0.0,
    steps: int = 2,
    key: Any = None,
    in_axes: Any = None,
    route: str | None = None,
) -> Trajectory:
    """The motion under a digital controller, at its sampling times t_k = t_0 + k T:

        x_{k+1} = flow of T from x_k under the command c_{k−d} ,   c_k = controller(t_k, x_k) .

    **Arguments:**

    - `system`, `q0`, `u0`: as for `jaxhamel.simulate`; where parts of the system move, a `jaxhamel.MovingParts`.
    - `controller`: a `Sampled`.
    - `samples`: the number K of periods.
    - `t0`: the initial time [s].
    - `steps`: Runge–Kutta steps (RK4) in each period.
    - `key`: a JAX random key for the noise of the sensors; each trajectory gets noise of its own.
    - `in_axes`: as for `jax.vmap` over `(system, q0, u0, controller)`; None: one trajectory. The trajectories of an
      ensemble run in lanes, as in `jaxhamel.ensemble.rollout`.
    - `route`: to the equations of motion, see `jaxhamel.acceleration`.

    **Returns:** a `Trajectory` at the K + 1 times, with a leading ensemble axis if `in_axes` is given. Its `control` gives
    the commands that acted as a function of time and, for a law with memory, the last `memory`. A trajectory that breaks
    down is NaN from that time on, and its `result` is a failure. A motion that grows but stays finite is no failure: for
    such motions `stats` has the largest |u_i| in the first tenth, the first half and the last tenth of the samples, as
    `largest_first`, `largest_half` and `largest_last` (of the commands if u is empty), and `print` shows them. With an
    estimator of the whole state, `stats` also has `estimation_error`, `(K,)`: δ·P⁻¹ δ / d after each sample, with the
    estimate's error δ, its covariance P and their size d, all without the positions and rates of moving parts, which
    follow their commands exactly; its expectation is 1 if the estimator is consistent. These numbers have no derivative.

    **Raises:** `ValueError` or `TypeError` for states, commands or keys that do not fit.

    Differentiable in both modes, by every number of the system, the state and the controller; through a `RecedingHorizon`
    in forward mode.
    """
    return _run_one_loop(
        *_run_with(system, q0, u0, controller, samples, t0, steps, key, in_axes, route)
    )


def compile_loop(*given: Any, **options: Any) -> None:
    """Compiles `closed_loop` for these arguments and runs nothing; the next call of it with such arguments is fast."""
    named = {"t0": 0.0, "steps": 2, "key": None, "in_axes": None, "route": None} | options
    compile_ahead(outermost(_run_one_loop), *_run_with(*given, **named))


def _run_with(
    system: Any, q0: Any, u0: Any, controller: Any, samples: int, t0: Any, steps: int, key: Any, in_axes: Any, route: Any
):  # fmt: skip
    """Checks the arguments of `closed_loop`, and converts them to those of `_run_one_loop`."""
    check_closed_loop(system, (q0, u0, t0), controller, (samples, steps, key), route)
    given = {"system": system, "q0": q0, "u0": u0, "controller": controller}
    given = {name: lists_as_arrays(part) for name, part in given.items()}
    axes = None if in_axes is None else axes_of_leaves(in_axes, given)
    given = {name: with_array_leaves(part) for name, part in given.items()}
    batch = None if axes is None else _checks.check_batch(given, axes)
    _checks.check_size(1 if batch is None else batch)
    start = _first_of(tuple(given.values()), axes)
    dtype = dtype_of_state(start[1], start[2])
    t0 = jnp.asarray(t0, dtype)
    check_sampling_times(t0, controller.period, samples)

    def cast(x):
        return jnp.asarray(x, dtype)

    first = (start[0], *jax.tree.map(cast, start[1:3]), start[3])
    width = check_first_trajectory(first, t0, key)
    parts, axes, table = _without_table(tuple(given.values()), axes)
    arrays, others = eqx.partition(parts, eqx.is_array)
    axes = None if axes is None else tuple(_axes_of_arrays(parts, axes))
    plan = Periods(samples, steps, route, width, batch, axes, controller.delay)
    return arrays, others, table, t0, key, plan


@jit
def _run_one_loop(arrays, others, table, t0, key, plan: Periods) -> Trajectory:
    shared, keys = (table, t0), noise_keys(key, plan)
    if plan.axes is not None:
        return in_lanes(arrays, others, shared, keys, plan)
    parts = eqx.combine(arrays, others)

    def turn(loop, at):
        k, key = at
        at = sampled_at(parts, shared, k)
        noise = noise_in(key, jnp.uint32(0), plan.width[1], t0.dtype) if plan.width[1] else None
        loop, applied = decided(parts, loop, (*at, noise), plan)
        loop = after_period(parts, loop, at[:2], applied, plan)
        return loop, (loop.q, loop.u, applied, loop.error)

    first = first_loop(parts, t0.dtype, plan)
    last, rows = jax.lax.scan(turn, first, (jnp.arange(plan.samples), keys))

    def join(x, later):
        return jnp.concatenate([x[None], later])

    q, u = jax.tree.map(join, (first.q, first.u), rows[:2])
    return trajectory_of(parts, t0, (q, u, *rows[2:]), last.memory, plan)


def _without_table(parts: tuple[Any, ...], axes: list[int | None] | None):
    """(parts, axes, table): a law that is a table over time is taken out of the parts; otherwise `table` is None.

    Such a law has a method `at(t)`, and all trajectories share the law and the period. It is looked up once in each period,
    ahead of the lanes.
    """
    *others, controller = parts
    first, size = len(jax.tree.leaves(others)), len(jax.tree.leaves(controller.law))
    own = [] if axes is None else axes[first : first + size + 1]  # the period follows the law
    if not hasattr(controller.law, "at") or any(axis is not None for axis in own):
        return parts, axes, None
    rest = eqx.tree_at(lambda c: c.law, controller, None)
    axes = None if axes is None else [*axes[:first], *axes[first + size :]]
    return (*others, rest), axes, controller.law


def check_first_trajectory(first, t0: Scalar, key) -> tuple[int, int]:
    """Checks the first trajectory, (system, q0, u0, controller) = `first`.

    Returns the numbers of entries of a command and of an observation.
    """
    system, q0, u0, controller = first
    check_state(system, q0, u0)
    zero, exact = Constant(jnp.zeros(system.n_controls or 0, t0.dtype)), None
    check_parts_of(controller, system)
    if controller.sensors is not None:
        exact = check_observation(controller.sensors, (system, t0, q0, u0, zero))
        check_key(key, controller.sensors)
        if controller.estimator is not None:
            check_same_observation(controller, t0, zero, exact)
    value = _first_command(controller, (system, t0, q0, u0), zero, exact)
    width = check_command(controller, value)
    if controller.model is not None:
        check_width_of_model(controller.model, width)
    check_forms(system, t0, q0, u0, Constant(value))
    return width, 0 if exact is None else exact.shape[0]


def _first_command(controller: Sampled, at, zero: Constant, exact) -> Array:
    """Checks the law's command at the initial state and returns it; for a law with memory it returns zeros of its shape."""
    system, t0, q, u = at
    observes = exact is not None and controller.estimator is None
    if controller.estimator is not None:
        q, u = _first_estimate(controller, t0.dtype)
    if not has_memory(controller.law):
        law = controller.law
        if exact is not None and observes:
            law = OfSensors(controller, system, zero, exact.shape[0])
        return checked_value(system, t0, q, u, law, "`law`")
    gives_state = getattr(controller.sensors, "gives_state", False)
    given = (exact,) if observes and not gives_state else (q, u)
    value = check_memory(controller.law, (t0, *given))
    check_feedback_value(system, t0, value, t0.dtype, "`law`")
    check_command(controller, value)
    return jnp.zeros(value.shape, t0.dtype)


def _first_estimate(controller: Sampled, dtype) -> Any:
    """The estimator's first state (q, u), which the law is given in place of the system's."""
    filter = getattr(controller.estimator, "filter", controller.estimator)
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), (filter.q, filter.u))


class OfSensors(eqx.Module):
    """A controller's law as a function of (t, q, u), through its sensors without noise. As a pytree it is compiled once."""

    controller: Sampled
    system: Any
    acting: Any
    count: int = eqx.field(static=True)

    def __call__(self, t: Scalar, q: Configuration, u: QuasiVelocity) -> Any:
        noise = jnp.zeros(self.count, t.dtype)
        seen = self.controller.sensors(self.system, t, q, u, self.acting, noise)
        return self.controller.law(t, *as_arguments(seen))


def _axes_of_arrays(parts: tuple[Any, ...], axes: list[int | None]) -> list[int | None]:
    """The axes of those leaves that are arrays."""
    return [a for x, a in zip(jax.tree.leaves(parts), axes, strict=True) if eqx.is_array(x)]


def _first_of(parts, axes: list[int | None] | None):
    """The system, the state and the controller of the first of several closed loops."""
    if axes is None:
        return parts
    leaves, structure = jax.tree.flatten(parts)
    taken = [x if a is None else jnp.take(x, 0, a) for x, a in zip(leaves, axes, strict=True)]
    return jax.tree.unflatten(structure, taken)
