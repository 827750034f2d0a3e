"""The state of a closed loop, and one period of it."""

from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, QuasiVelocity, Scalar
from jaxhamel.control._checks._laws import has_memory
from jaxhamel.control._loop._prediction import flow_under
from jaxhamel.control._loop._sampled import Held, Sampled
from jaxhamel.mechanics import Constant, MovingParts, VectorField
from jaxhamel.mechanics._tangent import local, tangent_size
from jaxhamel.simulate import Trajectory
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped
from jaxhamel.simulate._trajectory import of_equal_steps


class Loop(NamedTuple):
    """The state of a closed loop at a sample.

    `q`, `u`: the system's state; `commands`: the previous commands, the latest last: one for each period of the delay, and
    at least one; `belief`: the estimator's; `memory`: the law's. Both are None for a controller without them. `error`: the
    `normalised_error` of the estimate at the last sample, None if it has no covariance of the system's state.
    """

    q: Configuration
    u: QuasiVelocity
    commands: tuple[Float[Array, " p"], ...]
    belief: Any
    memory: Any
    error: Any = None


class Periods(NamedTuple):
    """The static arguments of a closed loop: another value compiles another program."""

    samples: int  # periods of a motion
    steps: int  # Runge–Kutta steps of a period
    route: str | None
    width: tuple[int, int]  # numbers of a command, of an observation
    batch: int | None  # trajectories; None: one, without a leading axis
    axes: tuple[int | None, ...] | None  # the ensemble axis of each array
    delay: int  # periods


def first_loop(parts, dtype, plan: Periods) -> Loop:
    """The state before the first sample."""
    _, q0, u0, controller = parts

    def cast(x):
        return jnp.asarray(x, dtype)

    command = jnp.broadcast_to(cast(controller.start), plan.width[:1])
    belief = None if controller.estimator is None else controller.estimator.start()
    belief = jax.tree.map(lambda x: cast(x) if eqx.is_inexact_array(x) else x, belief)
    memory = controller.law.start() if has_memory(controller.law) else None
    commands, state = (command,) * max(plan.delay, 1), (jax.tree.map(cast, q0), cast(u0))
    error = jnp.zeros((), dtype) if _is_of_state(belief, state) else None
    return Loop(*state, commands, belief, memory, error)


def _is_of_state(belief: Any, state: tuple) -> bool:
    """Whether an estimator's belief has the coordinates of the state (q, u), and a covariance."""

    def shapes(x):
        return jax.tree.map(jnp.shape, x)

    return hasattr(belief, "covariance") and shapes((belief.q, belief.u)) == shapes(state)


def decided(parts, loop: Loop, at, plan: Periods) -> tuple[Loop, Array]:
    """(the loop after the law is evaluated at a sample, the command that acts until the next one).

    `at`: (t₀, k, the law at its time if it is a table over time, the noise of the sensors).
    """
    (system, _, _, controller), (t0, k, law, noise) = parts, at
    t = t0 + k * controller.period.astype(t0.dtype)
    given, belief = _given(system, controller, t, loop, noise)
    if controller.model is not None:
        given = _predicted(controller, t, given, loop, plan)
        t = time_of_law(controller, t0, k)
    if law is None:
        law = controller.law.at(t) if hasattr(controller.law, "at") else controller.law
    value, memory = law.step(loop.memory, t, *given) if has_memory(law) else (law(t, *given), None)
    command = controller.command(jnp.asarray(value), loop.commands[-1])
    applied = loop.commands[0] if controller.delay else command
    error = None if loop.error is None else normalised_error(system, belief, (loop.q, loop.u))
    return Loop(loop.q, loop.u, (*loop.commands[1:], command), belief, memory, error), applied


def normalised_error(system, belief: Any, state: tuple) -> Scalar:
    """δ·P⁻¹ δ / d of an estimate, with the d numbers `with_errors` of the error local(estimate, state), and their covariance
    P; without derivative."""
    belief, state = jax.lax.stop_gradient((belief, state))
    kept = with_errors(system)
    delta = local(system, (belief.q, belief.u), state)[kept]
    return delta @ jnp.linalg.solve(belief.covariance[kept][:, kept], delta) / len(delta)


def with_errors(system) -> np.ndarray:
    """The places, in a tangent vector of states, of the numbers that can have an error: all but those of moving parts, which
    follow their commands exactly."""
    moving = system.n_controls if isinstance(system, MovingParts) else 0
    places = np.arange(tangent_size(system))
    n = system.space.dim
    return np.concatenate([places[: n - moving], places[n : len(places) - moving]])


def after_period(parts, loop: Loop, at, applied: Array, plan: Periods) -> Loop:
    """The loop one period after a sample."""
    return through_period(parts, loop, at, applied, plan)[0]


def through_period(parts, loop: Loop, at, applied: Array, plan: Periods) -> tuple[Loop, Any]:
    """(the loop one period after a sample, the states (q, u) before every step but the first, along a leading axis)."""
    rate = partial(rate_in_steps, parts, at, applied, plan)
    (q, u), before = after_steps(rate, partial(unit, parts), (loop.q, loop.u), at[0].dtype, plan)
    (_, _, _, controller), (t0, k) = parts, at
    belief, period = loop.belief, controller.period.astype(t0.dtype)
    if controller.estimator is not None:
        belief = controller.estimator.predict(belief, t0 + k * period, period, Constant(applied))
    return loop._replace(q=q, u=u, belief=belief), jax.tree.map(lambda x: x[1:], before)


def rate_in_steps(parts, at, applied: Array, plan: Periods, place: Scalar, y):
    """h f(t_k + s h, y), the rate of the state y = (q, u) in steps of length h, s = `place` steps after the sample."""
    (system, _, _, controller), (t0, k) = parts, at
    period = controller.period.astype(t0.dtype)
    h = period / plan.steps
    rates = VectorField(plan.route)(t0 + k * period + place * h, y, (system, Constant(applied)))
    return jax.tree.map(lambda x: h * x, rates)


def unit(parts, y):
    """The state y = (q, u), its quaternions normalised."""
    return parts[0].space.normalise(y[0]), y[1]


def after_steps(rate, unit, y, dtype, plan: Periods):
    """(the state y after the RK4 steps of one period, the states before each of them along a leading axis).

    `rate`: (number of steps since the sample, y) → h f.
    """
    one = jnp.ones((), dtype)

    def one_step(before, i):
        return unit(looped(rate, RK4, i, one, before)[0]), before

    return jax.lax.scan(one_step, y, jnp.arange(plan.steps).astype(dtype))


def _given(system, controller: Sampled, t: Scalar, loop: Loop, noise) -> tuple[tuple, Any]:
    """(the law's arguments after t, the estimator's belief). Sensors measure under the command that acts from t on if there
    is a delay, otherwise under the previous one."""
    if controller.sensors is None:
        return (loop.q, loop.u), None
    acting = Constant(loop.commands[0])
    seen = controller.sensors(system, t, loop.q, loop.u, acting, noise)
    if controller.estimator is None:
        return as_arguments(seen), None
    belief = controller.estimator.update(loop.belief, t, seen, acting)
    return (belief.q, belief.u), belief


def _predicted(controller: Sampled, t: Scalar, state: tuple, loop: Loop, plan: Periods) -> tuple:
    """The state at which the next command begins to act, as the model predicts it from the one at t."""
    commands = loop.commands if controller.delay else ()
    period = controller.period.astype(t.dtype)
    return flow_under(commands, controller.model, state, t, period, plan.steps, plan.route)


def time_of_law(controller: Sampled, t0: Scalar, k: Array) -> Scalar:
    """The time with which the law is called in sample k: that of the sample or, with a model, that of its command."""
    ahead = 0 if controller.model is None else controller.delay
    return t0 + (k + ahead) * controller.period.astype(t0.dtype)


def as_arguments(seen: Any) -> tuple[Any, ...]:
    """The arguments of a law after t: (observation,), or the measured state (q, u)."""
    return seen if isinstance(seen, tuple) else (seen,)


def sampled_at(parts, shared, k: Array) -> tuple[Scalar, Scalar, Any]:
    """(t₀, k, the law at its time in this sample); the law is None if it is not a table over time."""
    table, t0 = shared
    k = k.astype(t0.dtype)
    return t0, k, None if table is None else table.at(time_of_law(parts[3], t0, k))


def trajectory_of(parts, t0, rows, memory, plan: Periods) -> Trajectory:
    """The `Trajectory` of one loop, from the law's last memory and `rows` = (q, u, commands, errors of the estimates) at all
    samples."""
    (system, _, _, controller), (q, u, applied, errors) = parts, rows
    period = controller.period.astype(t0.dtype)
    ts = t0 + period * jnp.arange(plan.samples + 1).astype(t0.dtype)
    taken = plan.steps * jnp.arange(plan.samples + 1)
    given = system, Held(t0, period, applied, memory)
    found = of_equal_steps(given, ts, (q, u), taken, plan.samples * plan.steps)
    of_estimates = {} if errors is None else {"estimation_error": errors}
    stats = found.stats | _largest(u, applied) | of_estimates
    return eqx.tree_at(lambda found: found.stats, found, stats)


def _largest(u: Array, applied: Array) -> dict[str, Array]:
    """The largest |u_i| in the first tenth, the first half and the last tenth of the samples; NaN if the motion breaks down
    before. If u is empty, it is that of the commands. The derivative is 0, so that reverse mode stores nothing for it."""
    rates = jax.lax.stop_gradient(u if u.shape[1] else applied)
    size = jnp.max(jnp.abs(rates), axis=1, initial=0.0)
    tenth, half = -(-len(size) // 10), -(-len(size) // 2)
    parts = {"first": size[:tenth], "half": size[:half], "last": size[-tenth:]}
    return {f"largest_{name}": jnp.max(part) for name, part in parts.items()}
