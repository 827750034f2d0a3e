"""Builds the closed loop about a plan: the regulator and controller of `[feedback]` and `[sensors]`, the robots of
`[closed_loop]`.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._words import counted
from jaxhamel.cli._closed_loop._estimator import check_estimator, estimator_of
from jaxhamel.cli._objects._spread import Nominal, check_sample, distributions, members
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import (
    ControlProblem,
    MotionPlan,
    Regulator,
    Sampled,
    StateSensors,
    closed_loop,
    regulate,
)
from jaxhamel.control._loop._closed_loop import compile_loop
from jaxhamel.control._loop._regulator import CHOICES
from jaxhamel.control._loop._riccati import MOST_HALVINGS
from jaxhamel.ensemble import Samples
from jaxhamel.mechanics import Kinematic, MovingParts, System
from jaxhamel.mechanics._tangent import tangent_size
from jaxhamel.simulate import Trajectory

# The table [closed_loop] of a scenario without one: a single robot.
ONE = {"trajectories": 1, "steps": 1, "tolerance": 0.0, "spread": []}


class Robots(NamedTuple):
    """The arguments of `jaxhamel.control.closed_loop` for B robots.

    `system`, `q0`, `u0`: system and initial state; `bias`: the constant errors of the sensors, `(B, n+k)`, or None;
    `axes`: for each leaf of (system, q0, u0) its batch axis 0, or None if all robots share it; `count`: B.
    """

    system: Any
    q0: Any
    u0: Any
    bias: Any
    axes: tuple[Any, Any, Any]
    count: int


def check_loop_tables(scenario: Scenario, problem: ControlProblem, seed: int) -> None:
    """Checks `[feedback]`, `[sensors]`, `[closed_loop]` and `[estimator]` against the problem, before the search begins.

    **Raises:** `ScenarioError` that names the key.
    """
    table = scenario["feedback"]
    if table is None:
        return
    horizon = float(problem.ts[-1] - problem.ts[0])
    if table["period"] > horizon:
        raise ScenarioError(
            f"`feedback.period` is {table['period']:g} s, longer than the plan, {horizon:g} s. Give a shorter one."
        )
    periods_of(table)
    moves = problem.system.prescribed_motion
    controls = jax.eval_shape(problem.curve, problem.ts[0]).size
    size = tangent_size(problem.system) + 2 * controls * moves
    for name, key, wanted in (
        ("feedback", "state_weights", size),
        ("feedback", "control_weights", controls),
        *(("sensors", key, size) for key in ("noise", "bias", "resolution")),
        *(("estimator", key, size) for key in ("start", "drift")),
    ):
        _check_count(scenario, name, key, wanted)
    check_estimator(scenario, size)
    robots = samples_of(scenario, problem, seed)
    if robots is not None:
        try:
            robots.check(lambda x: check_sample(x, _nominal(problem)))
        except ValueError as error:
            raise ScenarioError(" ".join(str(error).split())) from None


def _check_count(scenario: Scenario, name: str, key: str, wanted: int) -> None:
    found = len((scenario[name] or {}).get(key, []))
    if found not in (0, wanted):
        raise ScenarioError(
            f"`{name}.{key}` has {counted(found, 'entry')}; it must have {wanted}, or none for the default."
        )
    if key != "bias" and any(x < 0 for x in (scenario[name] or {}).get(key, [])):
        raise ScenarioError(f"`{name}.{key}` has a negative entry; all must be 0 or more.")
    if key == "control_weights" and any(x == 0 for x in scenario[name][key]):
        raise ScenarioError(f"`{name}.{key}` has an entry of 0; all must be larger than 0.")


def periods_of(table: Mapping[str, Any]) -> int:
    """`feedback.delay` as a number of sampling periods. **Raises:** `ScenarioError` if this number is not whole."""
    count = table["delay"] / table["period"]
    if abs(count - round(count)) > 1e-6 * max(count, 1.0):
        raise ScenarioError(
            f"`feedback.delay` is {table['delay']:g} s, no multiple of `feedback.period`, {table['period']:g} s. Give "
            f"{table['period'] * round(count):g}, or another period."
        )
    return round(count)


def loop_table(scenario: Scenario) -> Mapping[str, Any]:
    """The table `[closed_loop]`; if it is absent, one with a single robot."""
    return scenario["closed_loop"] or ONE


def samples_of(
    scenario: Scenario, problem: ControlProblem, seed: int, count: int | None = None
) -> Samples | None:
    """The random parameters of all robots, by default as many as `[closed_loop]` has; None if the robots are all alike."""
    table = loop_table(scenario)
    if not table["spread"]:
        return None
    spread = distributions(table["spread"], _nominal(problem), "closed_loop")
    return Samples(spread, count or table["trajectories"], seed)


def _nominal(problem: ControlProblem) -> Nominal:
    """The scenario's own system, taken out of the task's `MovingParts` or `Kinematic`, and its initial state."""
    system, q0, u0 = problem.system, problem.q0, problem.u0
    if isinstance(system, MovingParts):
        q0, u0, _ = system.inside(problem.ts[0], q0, u0)
    if isinstance(system, MovingParts | Kinematic):
        system = system.system
    return Nominal(system, q0, u0, None)


def robots_of(
    scenario: Scenario,
    problem: ControlProblem,
    plan: MotionPlan,
    seed: int,
    count: int | None = None,
) -> Robots:
    """The robots of `[closed_loop]`: copies of the planned one, with the random parameters of `[[closed_loop.spread]]`.

    Their moving parts start with the plan's positions and rates. `count`: their number; None: that of `[closed_loop]`.
    """
    count, nominal = int(count or loop_table(scenario)["trajectories"]), _nominal(problem)
    samples = samples_of(scenario, problem, seed, count)
    if samples is None:
        found, axes = nominal, jax.tree.map(lambda x: None, nominal)

        def wide(x):
            return jnp.broadcast_to(x, (count, *x.shape))

        q0, u0 = jax.tree.map(wide, (nominal.q0, nominal.u0))
    else:
        drawn = {k: jnp.asarray(x, nominal.u0.dtype) for k, x in samples[:].items()}
        found, axes = members(drawn, nominal)
        q0, u0 = _repeated((found.q0, found.u0), (axes.q0, axes.u0), count)
    system, system_axes = found.system, axes.system
    if isinstance(driven := plan.system, MovingParts | Kinematic):
        system_axes = _wrapped(driven, system, system_axes)
        system = eqx.tree_at(lambda driven: driven.system, driven, system)
    if isinstance(driven, MovingParts):
        theta, rate = plan.q[-1][0], plan.u[0, u0.shape[1] :]
        q0, u0 = jax.vmap(lambda q, u: driven.state(q, u, theta, rate))(q0, u0)
    return Robots(
        system, q0, u0, _biases(scenario, seed, count, u0.dtype), (system_axes, 0, 0), count
    )


def _repeated(state, axes, count: int):
    """The state with a leading axis for every robot."""
    leaves, structure = jax.tree.flatten(state)
    wide = [
        x if axis == 0 else jnp.broadcast_to(x, (count, *x.shape))
        for x, axis in zip(leaves, flat_axes_of(axes, state), strict=True)
    ]
    return jax.tree.unflatten(structure, wide)


def _wrapped(driven: System, system: Any, axes: Any) -> Any:
    """The batch axes of the parameters of `driven`, a `MovingParts` or `Kinematic`, from those of the system inside it."""
    return jax.tree.unflatten(jax.tree.structure(driven), flat_axes_of(axes, system))


def flat_axes_of(axes: Any, values: Any) -> list[int | None]:
    """The batch axis of every leaf of `values`, from the tree `axes`, which may have one entry for a whole subtree."""

    def absent(x):
        return x is None

    def each(axis, part):
        return [axis] * len(jax.tree.leaves(part))

    return jax.tree.leaves(jax.tree.map(each, axes, values, is_leaf=absent), is_leaf=absent)


def _biases(scenario: Scenario, seed: int, count: int, dtype: Any) -> Any:
    """Random constant errors of each robot's sensors, `(B, n+k)`; None without `sensors.bias`."""
    width = (scenario["sensors"] or {}).get("bias")
    if not width:
        return None
    drawn = np.random.default_rng([seed, 17]).normal(size=(count, len(width)))
    return jnp.asarray(drawn * np.asarray(width), dtype)


def regulator_of(scenario: Scenario, plan: MotionPlan) -> Regulator:
    """The regulator of `[feedback]` about the plan; for weights that are not given see `regulate`."""
    table = scenario["feedback"]
    weights, others = (
        jnp.asarray(table[key], plan.u.dtype) if table[key] else None
        for key in ("state_weights", "control_weights")
    )
    try:
        return regulate(*plan, state_cost=weights, control_cost=others, final_cost=weights)
    except ValueError as error:
        if "`steps`" not in str(error):
            raise ScenarioError(" ".join(str(error).split())) from None
        raise ScenarioError(
            "`feedback.control_weights` are too small beside `feedback.state_weights`: the Riccati equation is "
            f"unstable with {CHOICES[-1] * 2**MOST_HALVINGS} steps between two times of the plan. Give larger ones."
        ) from None


def weights_of(law: Regulator) -> tuple[Float[Array, " d"], Float[Array, " p"]]:
    """The weights of the squared errors of the state, and of the squared corrections of the control."""
    if law.costs is None:
        raise TypeError("`law` has no costs; it must be a result of `regulate`.")
    return jnp.diagonal(law.costs[0]), jnp.diagonal(law.costs[1])


def controller_of(
    scenario: Scenario, law: Regulator, bias: Any = None, system: System | None = None
) -> Sampled:
    """The sampled controller of `[feedback]` around the regulator `law`, with the sensors of `[sensors]`.

    `bias`: constant errors of the sensors, one row for each robot; `system`: the model of the estimator and of the
    prediction over the delay, which are left out without it.
    """
    table, seen = scenario["feedback"], scenario["sensors"]
    limit = table["limit"] or np.inf
    sensors = None
    if seen is not None and any(seen.values()):
        resolution = jnp.asarray(seen["resolution"]) if seen["resolution"] else None
        sensors = StateSensors(jnp.asarray(seen["noise"] or 0.0), 0.0, resolution)
        if bias is not None:  # one row for each robot
            sensors = eqx.tree_at(lambda sensors: sensors.bias, sensors, bias)
    estimator = None if system is None else estimator_of(scenario, sensors, law, system)
    model = system if table["predict"] else None
    ahead = (
        0.0 if model is not None else table["delay"]
    )  # a model is asked for the time of the command
    lead = jnp.asarray(ahead + 0.5 * table["period"], law.ts.dtype)
    return Sampled(
        eqx.tree_at(lambda law: law.lead, law, lead),
        table["period"],
        delay=periods_of(table),
        lower=-limit,
        upper=limit,
        # the plan's control in the middle of the time before the first command acts
        start=_control_value(law.control, law.ts[0] + 0.5 * table["delay"]),
        sensors=sensors,
        estimator=estimator,
        model=model,
    )


@compiled
def _control_value(control: Any, t: Any) -> Any:
    """control(t), compiled as one program; without `jit` each operation would be compiled by itself."""
    return control(t)


def motions_of(
    scenario: Scenario, robots: Robots, controller: Sampled, samples: int, seed: int
) -> Trajectory:
    """Simulates all robots in closed loop over `samples` sampling periods; the `Trajectory` has a leading axis of robots."""
    given, options = _arguments(scenario, robots, controller, samples, seed)
    return closed_loop(*given, **options)


def compile_motions(
    scenario: Scenario, robots: Robots, controller: Sampled, samples: int, seed: int
) -> None:
    """Compiles the program of `motions_of` for these arguments, without running it."""
    given, options = _arguments(scenario, robots, controller, samples, seed)
    compile_loop(*given, **options)


def _arguments(
    scenario: Scenario, robots: Robots, controller: Sampled, samples: int, seed: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    axes = jax.tree.map(lambda x: None, controller)
    if robots.bias is not None:
        axes = eqx.tree_at(lambda c: c.sensors.bias, axes, 0, is_leaf=lambda x: x is None)
    given = robots.system, robots.q0, robots.u0, controller, samples
    return given, {
        "t0": controller.law.ts[0],
        "steps": loop_table(scenario)["steps"],
        "key": None if controller.sensors is None else jax.random.key(seed),
        "in_axes": (*robots.axes, axes),
    }
