"""The command `simulate`: simulates a scenario and writes the motion. Programs that are needed later compile in a thread
meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

from jaxhamel._lanes._xla_cpu._jit import cores
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._state_feedback import instability
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_all
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._terminal import Terminal
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.simulate._results import in_words
from jaxhamel.simulate._trajectory import why_it_failed
from jaxhamel.viz._motion._numbers import lead_of
from jaxhamel.viz._motion._page import prepare


def run_simulate(scenario: Scenario, out: Path, terminal: Terminal, started: float) -> Outcome:
    """Simulates the scenario and writes the files of the command.

    **Returns:** the outcome. Its `status` is `failed` if the simulation broke down; the files then hold the motion up to
    that time.

    **Raises:** `ScenarioError` before anything is written.
    """
    run = PreparedRun.of(scenario)
    folder(out)
    terminal.say(f"simulating {scenario.name}: {run.ts[0]:g} … {run.ts[-1]:g} s")
    trajectory = simulated(run)
    words, shown = instability_of(run, terminal), run.shown(trajectory)
    reached = progress_of(trajectory)
    outcome = Outcome("simulate", scenario, *status(trajectory), started, reached=reached)
    if words:
        lead = f"{lead_of(shown)} {words}".replace("`", "")
        outcome = replace(outcome, lead=lead, top={"loop": words})
    return write_all(out, outcome, shown)


def instability_of(run: PreparedRun, terminal: Terminal) -> str:
    """Says on the terminal that the gains of `[feedback]` do not hold their state, and returns the sentence; else an empty
    text."""
    words = instability(run.system, run.control, float(run.ts[0]))
    if words:
        terminal.say(words)
    return words


def simulated(run: PreparedRun) -> Trajectory:
    """Simulates the run with the scenario's solver, while a thread compiles the programs for the figures."""
    with named(None), meanwhile(lambda: prepare(run.standing())):
        return simulate(run.system, run.q0, run.u0, run.ts, run.control, **run.options)


def status(trajectory: Trajectory) -> tuple[str, str]:
    """The status (`success` or `failed`), and a sentence with the reason."""
    words = in_words(trajectory.result, trajectory.t_end)
    if bool(trajectory.succeeded):
        return "success", words
    return "failed", f"the simulation {words} {why_it_failed(trajectory)}".rstrip()


def progress_of(trajectory: Trajectory) -> dict[str, Any]:
    """The time that the simulation reached [s], and its numbers of accepted and rejected steps."""
    return {
        "time": float(trajectory.t_end),
        "steps": int(trajectory.stats["num_accepted_steps"]),
        "rejected_steps": int(trajectory.stats["num_rejected_steps"]),
    }


@contextmanager
def meanwhile(job: Callable[[], Any]) -> Iterator[None]:
    """Runs `job` in a thread, beside the body of the `with` statement, to compile programs before they are needed.

    Exceptions of `job` are dropped, because the code that needs the programs raises them again. After a signal the body's
    result does not wait for `job`. On a machine with one core `job` is not run. Timings: docs/performance.md#command-line.
    """
    if cores() == 1:
        yield
        return

    def run() -> None:
        with suppress(Exception):
            job()

    thread = Thread(target=run, daemon=True)
    thread.start()
    yield  # an error in the body is raised without waiting for the thread
    if not guard.is_signalled():
        thread.join()
