"""Simulates a system under a digital controller, one trajectory or many in lanes."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._compiled import compile_ahead, compiled
from jaxhamel._lanes._transform import flat_axes, lanes
from jaxhamel._typing import Configuration, QuasiVelocity, Scalar
from jaxhamel.control._checks._closed_loop import (
    check_closed_loop,
    check_command,
    check_key,
    check_measured,
    check_samples,
)
from jaxhamel.control._checks._laws import check_memory, has_memory
from jaxhamel.control._loop._sampled import Held, Sampled
from jaxhamel.mechanics import Constant, System, VectorField
from jaxhamel.mechanics._checks._feedback import check_feedback_value
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._controls._control import looked_at
from jaxhamel.mechanics._examination._boundary import check_forms
from jaxhamel.simulate import Trajectory
from jaxhamel.simulate._simulate import dtype_of_state
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped
from jaxhamel.simulate._trajectory import of_equal_steps


class Loop(NamedTuple):
    """The state of a closed loop at a sample: the system's, the command before, commands that are yet to act, the
    estimator's belief and the law's memory (None without them)."""

    q: Configuration
    u: QuasiVelocity
    last: Float[Array, " p"]
    waiting: tuple[Float[Array, " p"], ...]
    belief: Any
    memory: Any


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

    **Returns:** a `Trajectory` at the K + 1 times, with a leading ensemble axis where there is one. Its `control` is a
    function of time, the commands as they acted, with the last `memory` of a law that has one. A trajectory that breaks
    down is NaN from there on, `result` says so. A motion that grows but stays finite is no failure: `stats` has the
    largest |u_i| in the first and in the last tenth of the samples, `largest_first` and `largest_last`, of the commands
    where u is empty, and `print` shows them.

    **Raises:** `ValueError` or `TypeError` for states, commands or keys that do not fit.

    Differentiable in both modes, by every number of the system, the state and the controller; through a `RecedingHorizon`
    in forward mode.
    """
    return _run(*_run_with(system, q0, u0, controller, samples, t0, steps, key, in_axes, route))


def compile_loop(*given: Any, **options: Any) -> None:
    """Compiles `closed_loop` for these arguments and runs nothing; the next call of it with such arguments is fast."""
    named = {"t0": 0.0, "steps": 2, "key": None, "in_axes": None, "route": None} | options
    compile_ahead(_run, *_run_with(*given, **named))


def _run_with(
    system: Any, q0: Any, u0: Any, controller: Any, samples: int, t0: Any, steps: int, key: Any, in_axes: Any, route: Any
):  # fmt: skip
    """The arguments of `_run`, checked."""
    check_closed_loop(system, (q0, u0, t0), controller, (samples, steps, key), route)
    given = {"system": system, "q0": q0, "u0": u0, "controller": controller}
    given = {name: _arrays(part) for name, part in given.items()}
    axes = None if in_axes is None else _axes_of(in_axes, given)
    batch = None if axes is None else _checks.check_batch(given, axes)
    _checks.check_size(1 if batch is None else batch)
    start = _first_of(tuple(given.values()), axes)
    dtype = dtype_of_state(start[1], start[2])
    t0 = jnp.asarray(t0, dtype)
    check_samples(t0, controller.period, samples)
    cast = lambda x: jnp.asarray(x, dtype)  # noqa: E731
    first = (start[0], *jax.tree.map(cast, start[1:3]), start[3])
    width = _check(first, t0, key)
    parts, axes, table = _without_table(tuple(given.values()), axes)
    arrays, others = eqx.partition(parts, eqx.is_array)
    axes = None if axes is None else tuple(_of_arrays(parts, axes))
    plan = Periods(samples, steps, route, width, batch, axes, controller.delay)
    return arrays, others, table, t0, key, plan


class Periods(NamedTuple):
    """The static arguments of a closed loop, which decide on the program that is compiled."""

    samples: int
    steps: int
    route: str | None
    width: tuple[int, int]  # numbers of a command, of an observation
    batch: int | None
    axes: tuple[int | None, ...] | None
    delay: int


@compiled
def _run(arrays, others, table, t0, key, plan: Periods) -> Trajectory:
    flat, structure = jax.tree.flatten(arrays)
    whole = lambda flat: eqx.combine(jax.tree.unflatten(structure, flat), others)  # noqa: E731
    begin = lambda flat: _begin(whole(flat), t0.dtype, plan)  # noqa: E731
    finish = lambda flat, rows, memory: _trajectory(whole(flat), t0, rows, memory, plan)  # noqa: E731
    if plan.axes is not None:
        axes = list(plan.axes)
        begin = jax.vmap(begin, (axes,))
        finish = jax.vmap(finish, (axes, 1, 0))
    turn = partial(_turn, whole, flat, (table, t0, key), plan)
    first = begin(flat)
    last, rows = jax.lax.scan(turn, first, jnp.arange(plan.samples))
    join = lambda x, later: jnp.concatenate([x[None], later])  # noqa: E731
    q, u = jax.tree.map(join, (first.q, first.u), rows[:2])
    return finish(flat, (q, u, rows[2]), last.memory)


def _turn(whole, flat, shared, plan: Periods, loop: Loop, k: Array):
    """Period k of all trajectories."""
    table, t0, key = shared
    k_t = k.astype(t0.dtype)
    now = None if table is None else table.at(t0 + k_t * whole(flat)[3].period.astype(t0.dtype))
    at, fixed = eqx.partition((t0, k_t, now), eqx.is_array)

    def decide(flat, loop, at, noise):
        return decided(whole(flat), loop, (*eqx.combine(at, fixed), noise))

    def move(flat, loop, at, applied):
        return after_period(whole(flat), loop, eqx.combine(at, fixed)[:2], applied, plan)

    def both(flat, loop, at, noise):
        loop, applied = decide(flat, loop, at, noise)
        return move(flat, loop, at, applied), applied

    given = flat, loop, at, _noise(key, k, t0.dtype, plan)
    axes = (list(plan.axes), 0, None, 0) if plan.axes is not None else None
    controller = whole(flat)[3]
    in_lanes = getattr(controller.law if now is None else now, "in_lanes", True)
    if axes is None:
        loop, applied = both(*given)
    elif in_lanes and controller.sensors is None:
        loop, applied = lanes(both, axes)(*given)
    else:  # with sensors two programs take half the time of one (docs/performance.md#closed-loops)
        loop, applied = (lanes if in_lanes else jax.vmap)(decide, axes)(*given)
        loop = lanes(move, axes)(flat, loop, at, applied)
    return loop, (loop.q, loop.u, applied)


def _begin(parts, dtype, plan: Periods) -> Loop:
    _, q0, u0, controller = parts
    cast = lambda x: jnp.asarray(x, dtype)  # noqa: E731
    last = jnp.broadcast_to(cast(controller.start), plan.width[:1])
    belief = None if controller.estimator is None else controller.estimator.start()
    belief = jax.tree.map(cast, belief)
    memory = controller.law.start() if has_memory(controller.law) else None
    return Loop(jax.tree.map(cast, q0), cast(u0), last, (last,) * plan.delay, belief, memory)


def decided(parts, loop: Loop, at) -> tuple[Loop, Array]:
    """The loop after a sample, and the command that acts until the next one."""
    (system, _, _, controller), (t0, k, law, noise) = parts, at
    law = controller.law if law is None else law
    t = t0 + k * controller.period.astype(t0.dtype)
    given, belief = _given(system, controller, t, loop, noise)
    value, memory = law.step(loop.memory, t, *given) if has_memory(law) else (law(t, *given), None)
    command = controller.command(jnp.asarray(value), loop.last)
    applied, *waiting = (*loop.waiting, command)
    return Loop(loop.q, loop.u, command, tuple(waiting), belief, memory), applied


def after_period(parts, loop: Loop, at, applied: Array, plan: Periods) -> Loop:
    """The loop one period after a sample."""
    (system, _, _, controller), (t0, k) = parts, at
    period = controller.period.astype(t0.dtype)
    t = t0 + k * period
    field, h = VectorField(plan.route), period / plan.steps
    rate = lambda t, y: field(t, y, (system, Constant(applied)))  # noqa: E731

    def advance(y, i):
        q, u = looped(rate, RK4, t + i * h, h, y)[0]
        return (system.space.normalise(q), u), None

    (q, u), _ = jax.lax.scan(advance, (loop.q, loop.u), jnp.arange(plan.steps).astype(h.dtype))
    belief = loop.belief
    if controller.estimator is not None:
        belief = controller.estimator.predict(belief, t, period, Constant(applied))
    return loop._replace(q=q, u=u, belief=belief)


def _given(system, controller: Sampled, t: Scalar, loop: Loop, noise) -> tuple[tuple, Any]:
    """The arguments of the law after t, and the estimator's belief; the sensors feel the command before."""
    if controller.sensors is None:
        return (loop.q, loop.u), None
    acting = Constant(loop.waiting[0] if loop.waiting else loop.last)
    seen = controller.sensors(system, t, loop.q, loop.u, acting, noise)
    if controller.estimator is None:
        return as_arguments(seen), None
    belief = controller.estimator.update(loop.belief, t, seen, acting)
    return (belief.q, belief.u), belief


def as_arguments(seen: Any) -> tuple[Any, ...]:
    """The arguments of a law after t: an observation, or a measured state (q, u)."""
    return seen if isinstance(seen, tuple) else (seen,)


def _without_table(parts: tuple[Any, ...], axes: list[int | None] | None):
    """(parts, axes) without the law and the law, where it is one that has a method `at(t)` and that all trajectories share.

    Such a law, a table over time, is looked up once in each period, ahead of the lanes.
    """
    *others, controller = parts
    first, size = len(jax.tree.leaves(others)), len(jax.tree.leaves(controller.law))
    own = [] if axes is None else axes[first : first + size]
    if not hasattr(controller.law, "at") or any(axis is not None for axis in own):
        return parts, axes, None
    rest = eqx.tree_at(lambda c: c.law, controller, None)
    axes = None if axes is None else [*axes[:first], *axes[first + size :]]
    return (*others, rest), axes, controller.law


def _noise(key, k, dtype, plan: Periods) -> Array | None:
    """One number for each measured one, in each sample; None without sensors.

    Those of many trajectories are drawn in columns, which takes less than half the time of rows
    (docs/performance.md#closed-loops).
    """
    shape = plan.width[1:] if plan.batch is None else (plan.width[1], plan.batch)
    if plan.width[1] == 0:
        return None
    if key is None:
        return jnp.zeros(shape[::-1], dtype)
    return jax.random.normal(jax.random.fold_in(key, k), shape, dtype).T


def _trajectory(parts, t0, rows, memory, plan: Periods) -> Trajectory:
    (system, _, _, controller), (q, u, applied) = parts, rows
    period = controller.period.astype(t0.dtype)
    ts = t0 + period * jnp.arange(plan.samples + 1).astype(t0.dtype)
    taken = plan.steps * jnp.arange(plan.samples + 1)
    given = system, Held(t0, period, applied, memory)
    found = of_equal_steps(given, ts, (q, u), taken, plan.samples * plan.steps)
    return eqx.tree_at(lambda found: found.stats, found, found.stats | _largest(u, applied))


def _largest(u: Array, applied: Array) -> dict[str, Array]:
    """The largest |u_i| in the first and the last tenth of the samples, of the commands where u is empty; `nan` if the
    motion breaks down before."""
    rates = u if u.shape[1] else applied
    size = jnp.max(jnp.abs(rates), axis=1, initial=0.0)
    tenth = -(-len(size) // 10)
    return {"largest_first": jnp.max(size[:tenth]), "largest_last": jnp.max(size[-tenth:])}


def _check(first, t0: Scalar, key) -> tuple[int, int]:
    """Numbers of a command and of an observation, by the first trajectory's state; that it fits."""
    system, q0, u0, controller = first
    check_state(system, q0, u0)
    zero, exact = Constant(jnp.zeros(system.n_controls or 0, t0.dtype)), None
    if controller.sensors is not None:
        exact = check_measured(controller.sensors, (system, t0, q0, u0, zero))
        check_key(key, controller.sensors)
    value = _first_command(controller, (system, t0, q0, u0), zero, exact)
    width = check_command(controller, value)
    check_forms(system, t0, q0, u0, Constant(value))
    return width, 0 if exact is None else exact.shape[0]


def _first_command(controller: Sampled, at, zero: Constant, exact) -> Array:
    """The command at the initial state, checked; of a law with memory zeros of its shape."""
    system, t0, q0, u0 = at
    observes = exact is not None and controller.estimator is None
    if not has_memory(controller.law):
        law = controller.law
        if exact is not None and observes:
            law = OfSensors(controller, system, zero, exact.shape[0])
        return looked_at(system, t0, q0, u0, law, "`law`")
    gives_state = getattr(controller.sensors, "gives_state", False)
    given = (exact,) if observes and not gives_state else (q0, u0)
    value = check_memory(controller.law, (t0, *given))
    check_feedback_value(system, t0, value, t0.dtype, "`law`")
    check_command(controller, value)
    return jnp.zeros(value.shape, t0.dtype)


class OfSensors(eqx.Module):
    """A controller's law as a function of (t, q, u), by its sensors without noise; a pytree, so that it is compiled once."""

    controller: Sampled
    system: Any
    acting: Any
    count: int = eqx.field(static=True)

    def __call__(self, t: Scalar, q: Configuration, u: QuasiVelocity) -> Any:
        noise = jnp.zeros(self.count, t.dtype)
        seen = self.controller.sensors(self.system, t, q, u, self.acting, noise)
        return self.controller.law(t, *as_arguments(seen))


def _arrays(value: Any) -> Any:
    """Lists and numbers as arrays; a configuration's tuple stays a tuple."""
    if isinstance(value, tuple):
        return tuple(_arrays(part) for part in value)
    return jnp.asarray(value) if isinstance(value, list | float | int | np.ndarray) else value


def _axes_of(in_axes, given: dict[str, Any]) -> list[int | None]:
    axes, leaves = flat_axes(in_axes, given), jax.tree.leaves(tuple(given.values()))
    return [axis if hasattr(x, "shape") else None for axis, x in zip(axes, leaves, strict=True)]


def _of_arrays(parts: tuple[Any, ...], axes: list[int | None]) -> list[int | None]:
    return [a for x, a in zip(jax.tree.leaves(parts), axes, strict=True) if eqx.is_array(x)]


def _first_of(parts, axes: list[int | None] | None):
    """The first trajectory's system, state and controller."""
    if axes is None:
        return parts
    leaves, structure = jax.tree.flatten(parts)
    taken = [x if a is None else jnp.take(x, 0, a) for x, a in zip(leaves, axes, strict=True)]
    return jax.tree.unflatten(structure, taken)
