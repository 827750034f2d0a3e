"""The command `simulate`: scenario in, motion out, everything written."""

from pathlib import Path
from typing import Any

from jaxhamel.cli._commands._meanwhile import meanwhile
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_all
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._terminal import Terminal
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.simulate._results import in_words
from jaxhamel.viz._motion._view import prepare


def run_simulate(scenario: Scenario, out: Path, terminal: Terminal, started: float) -> Outcome:
    """Simulate the scenario and write its files.

    **Returns:** the outcome; its `status` is `failed` when the simulation broke down, and the
    files hold the motion up to there.

    **Raises:** `ScenarioError` before anything is written.
    """
    run = PreparedRun.of(scenario)
    folder(out)
    terminal.say(f"simulating {scenario.name}: {run.ts[0]:g} … {run.ts[-1]:g} s")
    trajectory = simulated(run)
    reached = progress_of(trajectory)
    outcome = Outcome("simulate", scenario, *status(trajectory), started, reached=reached)
    return write_all(out, outcome, run.shown(trajectory))


def simulated(run: PreparedRun) -> Trajectory:
    """The motion, by the scenario's solver; meanwhile what its pictures need is compiled."""
    with named("scenario"), meanwhile(lambda: prepare(run.standing())):
        return simulate(run.system, run.q0, run.u0, run.ts, run.control, **run.options)


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
