"""Builds the control problem and the method of `[task]`."""

from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

from jaxhamel._typing import Configuration
from jaxhamel.cli._objects._build import limited
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._system import named, state_in
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief, nearest
from jaxhamel.control import (
    ContactLimits,
    ControlAt,
    ControlEnergy,
    ControlProblem,
    Endpoint,
    FourierSeries,
    MassAcceleration,
    MultipleShooting,
    Spline,
    StateAtEnd,
    TrackingProblem,
    rolling_along,
)
from jaxhamel.control._problem._costs import last_factor
from jaxhamel.mechanics._description._declarations import state_of
from jaxhamel.mechanics._system import controls_of
from jaxhamel.systems import RollingBall


class Coordinates(eqx.Module):
    """The output of a task: some of the stored numbers of a configuration, those with the indices `places`."""

    places: tuple[int, ...] = eqx.field(static=True)

    def __call__(self, q: Configuration) -> Array:
        return ravel_pytree(q)[0][jnp.array(self.places)]


def build_problem(scenario: Scenario, seed: int, run: PreparedRun | None = None) -> ControlProblem:
    """The control problem of `[task]` for a run prepared from the scenario.

    **Raises:** `ScenarioError` if the system does not fit the task.
    """
    run = PreparedRun.of(scenario) if run is None else run
    system = run.system
    if isinstance(system, RollingBall) and run.path is not None:
        _check_at_origin(scenario)
    task = scenario["task"]
    output = _output(run, task)
    n = _controls(task, system)
    curve, intervals = _curve(task, n, scenario["time"]["end"], seed)
    ts = jnp.linspace(0.0, scenario["time"]["end"], intervals + 1)
    curve = limited(curve, task, n, "task")
    with named("task"):
        if output is None:
            return _to_state(run, task, ts, curve)
        return _along_path(run, task, ts, curve, output)


def _along_path(
    run: PreparedRun, task: Mapping[str, Any], ts: Array, curve: Any, output: Callable
) -> ControlProblem:
    rest = jnp.asarray(task["rest"], dtype=float)
    ball = isinstance(run.system, RollingBall)
    return TrackingProblem(
        run.system,
        run.q0,
        run.u0,
        ts,
        curve,
        run.path,
        output=output,
        tracking_weight=task["tracking_weight"],
        acceleration_weight=task["acceleration_weight"],
        costs=_contact(task),
        constraints=(ControlAt(value=rest, rate=jnp.zeros_like(rest)),),
        guess=rolling_along(run.path, ts, run.system.radius) if ball else None,  # pyright: ignore[reportAttributeAccessIssue]
    )


def _to_state(run: PreparedRun, task: Mapping[str, Any], ts: Array, curve: Any) -> ControlProblem:
    """The problem of reaching a state with least control effort; the end is a constraint, or a cost with a weight."""
    q, u = state_in(run.system, {k: task[k] for k in ("q", "u") if k in task}, "task")
    target = {"q": q if "q" in task else None, "u": u if "u" in task else None}
    if all(x is None for x in target.values()):
        raise ScenarioError("`task.q` is missing; give the state to reach, `q`, `u` or both.")
    costs: list[Any] = [ControlEnergy(task["effort_weight"])]
    if task["acceleration_weight"]:
        costs.append(MassAcceleration(task["acceleration_weight"]))
    if task["end_weight"]:
        costs.append(Endpoint(**target, weight=task["end_weight"]))
    exact = () if task["end_weight"] else (StateAtEnd(**target),)
    return ControlProblem(run.system, run.q0, run.u0, ts, curve, tuple(costs), exact)


def build_method(scenario: Scenario, max_seconds: float) -> MultipleShooting:
    """The multiple shooting of `[task]`, with `max_seconds` as its time limit."""
    task = scenario["task"]
    with named("task"):
        return MultipleShooting(
            steps=task["steps"],
            max_iterations=task["max_iterations"],
            max_seconds=max_seconds,
            cost_tolerance=task["cost_tolerance"],
            goal=task.get("goal") or None,
        )


def _check_at_origin(scenario: Scenario) -> None:
    standing = {"orientation": [1.0, 0.0, 0.0, 0.0], "position": [0.0, 0.0], "omega": [0.0] * 3}
    for key, value in standing.items():
        if scenario["initial"][key] != value:
            raise ScenarioError(
                f"`initial.{key}` is {scenario['initial'][key]}; a path of [task] starts at rest at "
                f"the origin, at {value}. Leave it out, and turn the rails if need be."
            )


def _output(run: PreparedRun, task: Mapping[str, Any]) -> Callable | None:
    """The two coordinates that follow the path: those of `task.coordinates`, or the body's position; None without a path."""
    if run.path is None:
        return None
    names = state_of(run.system)
    sizes = [x.size for x in jax.tree.leaves(run.q0)]
    columns = [c for part, n in zip(names.q, sizes, strict=True) for c in part.names(n)]
    wanted = task["coordinates"] or ["x", "y"]
    if isinstance(run.system, RollingBall) and not task["coordinates"]:
        return last_factor
    if not task["coordinates"] and not set(wanted) <= set(columns):
        raise ScenarioError(
            f'`system.kind` is "{run.scenario.kind}", which has no coordinates x and y to follow the path of [task]. '
            f"Name the two coordinates that follow it in `task.coordinates`, among {', '.join(columns)}."
        )
    for name in wanted:
        if name not in columns:
            raise ScenarioError(
                f"`task.coordinates` has {brief(name)}, which is no coordinate of this system."
                f"{nearest(name, columns)} It has {', '.join(columns)}."
            )
    return Coordinates(tuple(columns.index(name) for name in wanted))


def _controls(task: Mapping[str, Any], system: Any) -> int:
    """The number of controls that the system states; for a system that states none, the number of values in `task.rest`."""
    values, given = len(task["rest"]), controls_of(system)
    if not values and given and task["path"] == "to-state":
        return given
    n = values if given is None else given
    if values != n or n == 0:
        none = "the system has no control" if given == 0 else f"it must have {n or 'at least 1'}"
        raise ScenarioError(
            f"`task.rest` has {values} entries; {none}, one for each control of the system."
        )
    return n


def _curve(task: Mapping[str, Any], n: int, end: float, seed: int) -> tuple[Any, int]:
    """The curve at which the search begins, and the number of its intervals.

    The curve is constant, with the value `task.rest`; a positive `task.perturbation` adds random numbers to it.
    """
    rest = jnp.asarray(task["rest"] or [0.0] * n, dtype=float)
    if task.get("harmonics"):
        waves = jnp.zeros((task["harmonics"], n))
        with named("task"):
            start = FourierSeries(rest, waves, waves, end)
        return _perturbed(start, task, seed), max(task["intervals"], 2 * task["harmonics"])
    with named("task"):
        spline = Spline.constant(rest, 0.0, end, task["coefficients"], task["degree"])
    noise = jax.random.normal(jax.random.key(seed), spline.coefficients.shape, float)
    coefficients = spline.coefficients + task["perturbation"] * noise
    return Spline(coefficients, 0.0, end, task["degree"]), spline.n_segments


def _perturbed(series: FourierSeries, task: Mapping[str, Any], seed: int) -> FourierSeries:
    noise = jax.random.normal(jax.random.key(seed), (2, *series.cosine.shape), float)
    changed = tuple(task["perturbation"] * wave for wave in noise)
    return eqx.tree_at(lambda s: (s.cosine, s.sine), series, changed)


def _contact(task: Mapping[str, Any]) -> tuple:
    if not task["friction_limit"]:
        return ()
    return (ContactLimits(friction=task["friction_limit"], weight=task["contact_weight"]),)
