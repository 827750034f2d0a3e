"""The command `simulate`: scenario in, motion out, everything written."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxhamel.cli._commands._meanwhile import meanwhile
from jaxhamel.cli._objects._build import (
    build_control,
    build_initial,
    build_system,
    build_times,
    named,
    solver_options,
)
from jaxhamel.cli._objects._task import build_path
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._motion import Run
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_all
from jaxhamel.cli._results._views import prepare
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.simulate._results import in_words


def run_simulate(scenario: Scenario, out: Path, terminal: Terminal, started: float) -> Outcome:
    """Simulate the scenario and write its files.

    **Returns:** the outcome; its `status` is `failed` when the simulation broke down, and the
    files hold the motion up to there.

    **Raises:** `ScenarioError` before anything is written.
    """
    system = build_system(scenario)
    control = build_control(scenario, system)
    q0, u0 = build_initial(scenario)
    ts, options = build_times(scenario), solver_options(scenario)
    folder(out)
    terminal.say(f"simulating {scenario.name}: {ts[0]:g} … {ts[-1]:g} s")
    with named("scenario"), prepared(scenario, standing(system, control, q0, u0, ts)):
        trajectory = simulate(system, q0, u0, ts, control, **options)
    reached = progress_of(trajectory)
    outcome = Outcome("simulate", scenario, *status(trajectory), started, reached=reached)
    return write_all(out, outcome, with_task(run_of(trajectory, system, control), scenario))


def prepared(scenario: Scenario, like: Run) -> AbstractContextManager[None]:
    """Meanwhile what the pictures of a run like this one need is compiled."""
    return meanwhile(lambda: prepare(scenario.kind, with_task(like, scenario)))


def standing(system: Any, control: Any, q0: Any, u0: Any, ts: np.ndarray) -> Run:
    """A run that stays where it starts."""
    repeat = lambda x: np.broadcast_to(x, (len(ts), *np.shape(x)))  # noqa: E731
    return Run(system, control, ts, *jax.tree.map(repeat, (q0, u0)))


def status(trajectory: Trajectory) -> tuple[str, str]:
    """`success` or `failed`, and the sentence that says why."""
    words = in_words(trajectory.result, trajectory.t_end)
    return (
        ("success", words) if bool(trajectory.succeeded) else ("failed", f"the simulation {words}")
    )


def progress_of(trajectory: Trajectory) -> dict[str, Any]:
    """How far the simulation came and what it took."""
    return {
        "time": float(trajectory.t_end),
        "steps": int(trajectory.stats["num_accepted_steps"]),
        "rejected_steps": int(trajectory.stats["num_rejected_steps"]),
    }


def with_task(run: Run, scenario: Scenario) -> Run:
    """The run with the path that the scenario's task asks for, if it has one."""
    task = scenario["task"]
    if task is None:
        return run
    return replace(run, path=build_path(scenario), friction_limit=task["friction_limit"] or None)


def run_of(trajectory: Trajectory, system: Any, control: Any) -> Run:
    """The rows that were reached, and the very last state when the simulation stopped early."""
    keep = np.asarray(trajectory.valid)
    if not keep.any():
        raise ScenarioError(
            "the motion cannot be begun: the equations are not finite at the initial state. Look at `initial` and "
            "`system` for numbers that are too large or too small."
        )
    ts = np.asarray(trajectory.ts)[keep]
    q, u = jax.tree.map(lambda x: np.asarray(x)[keep], (trajectory.q, trajectory.u))
    if not keep.all() and float(trajectory.t_end) > ts[-1]:
        ts = np.append(ts, float(trajectory.t_end))
        append = lambda rows, last: np.concatenate([rows, np.asarray(last)[None]])  # noqa: E731
        q, u = jax.tree.map(append, (q, u), (trajectory.q_end, trajectory.u_end))
    return Run(system, control, ts, q, u)
