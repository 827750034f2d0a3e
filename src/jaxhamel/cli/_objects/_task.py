"""`[task]` as objects of the library: the path, the control problem, the method."""

from typing import Any

import jax
import jax.numpy as jnp

from jaxhamel.cli._objects._build import build_initial, build_system, limited, named
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import (
    Circle,
    ContactLimits,
    ControlAt,
    ControlProblem,
    FigureEight,
    Line,
    MultipleShooting,
    Spline,
    TrackingProblem,
    rolling_along,
)

PATHS = {
    "figure-eight": (FigureEight, ("width", "height")),
    "circle": (Circle, ("radius",)),
    "line": (Line, ("end",)),
}


def build_path(scenario: Scenario) -> Any:
    """The path of `[task]`, t -> `(2,)`."""
    task = scenario["task"]
    make, sizes = PATHS[task["path"]]
    period = task["period"] or scenario["time"]["end"]
    with named("task"):
        return make(period=period, ramp=task["ramp"], **{key: task[key] for key in sizes})


def build_problem(scenario: Scenario, seed: int) -> ControlProblem:
    """The control problem of `[task]`.

    **Raises:** `ScenarioError` where there is no task, or one that this system cannot have.
    """
    _check_task(scenario)
    task, system = scenario["task"], build_system(scenario)
    _check_rest(task, system.n_masses)
    path, (q0, u0) = build_path(scenario), build_initial(scenario)
    rest = jnp.asarray(task["rest"], dtype=float)
    spline = _spline(task, rest, scenario["time"]["end"], seed)
    ts = jnp.linspace(0.0, scenario["time"]["end"], spline.n_segments + 1)
    with named("task"):
        return TrackingProblem(
            system,
            q0,
            u0,
            ts,
            limited(spline, task, system.n_masses, "task"),
            path,
            tracking_weight=task["tracking_weight"],
            acceleration_weight=task["acceleration_weight"],
            costs=_contact(task),
            constraints=(ControlAt(value=rest, rate=jnp.zeros_like(rest)),),
            guess=rolling_along(path, ts, system.radius),
        )


def build_method(scenario: Scenario, max_seconds: float) -> MultipleShooting:
    """The method of `[task]`, with so many seconds left."""
    task = scenario["task"]
    with named("task"):
        return MultipleShooting(
            steps=task["steps"],
            max_iterations=task["max_iterations"],
            max_seconds=max_seconds,
            cost_tolerance=task["cost_tolerance"],
            goal=task["goal"] or None,
        )


def _check_task(scenario: Scenario) -> None:
    if scenario["task"] is None:
        raise ScenarioError(
            "`task` is missing; control needs a table [task] that says what path to follow. "
            "Built-in scenarios with a task: see `jaxhamel scenarios`."
        )
    if scenario.kind != "rolling-ball":
        raise ScenarioError(
            f'`system.kind` is "{scenario.kind}"; a [task] is to roll along a path, and needs '
            'a "rolling-ball".'
        )
    if scenario["time"]["start"] != 0.0:
        raise ScenarioError(
            f"`time.start` is {scenario['time']['start']:g}; a [task] starts at 0. Leave it out."
        )
    standing = {"orientation": [1.0, 0.0, 0.0, 0.0], "position": [0.0, 0.0], "omega": [0.0] * 3}
    for key, value in standing.items():
        if scenario["initial"][key] != value:
            raise ScenarioError(
                f"`initial.{key}` is {scenario['initial'][key]}; a path of [task] starts at rest at "
                f"the origin, at {value}. Leave it out, and turn the rails if need be."
            )


def _check_rest(task: dict[str, Any], n: int) -> None:
    if len(task["rest"]) != n or n == 0:
        raise ScenarioError(
            f"`task.rest` has {len(task['rest'])} entries; it must have {n or 'at least 1'}, "
            "one for each mass of the system."
        )


def _spline(task: dict[str, Any], rest: Any, end: float, seed: int) -> Spline:
    """The spline that stays at rest, changed at random where that is asked for."""
    with named("task"):
        spline = Spline.constant(rest, 0.0, end, task["coefficients"], task["degree"])
    noise = jax.random.normal(jax.random.key(seed), spline.coefficients.shape, float)
    coefficients = spline.coefficients + task["perturbation"] * noise
    return Spline(coefficients, 0.0, end, task["degree"])


def _contact(task: dict[str, Any]) -> tuple[Any, ...]:
    if not task["friction_limit"]:
        return ()
    return (ContactLimits(friction=task["friction_limit"], weight=task["contact_weight"]),)
