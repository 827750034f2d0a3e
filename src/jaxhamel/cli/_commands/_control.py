"""The command `control`: searches for a control, shows progress, and writes the result."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.cli._closed_loop._loop import check_loop_tables
from jaxhamel.cli._commands._closed_loop import close_at_first, closed_about
from jaxhamel.cli._commands._early import seconds_of
from jaxhamel.cli._commands._plan import run_plan
from jaxhamel.cli._commands._simulate import meanwhile, progress_of
from jaxhamel.cli._interrupt import guard, search_seconds
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._objects._task import build_method, build_problem
from jaxhamel.cli._results._folder import SEARCH, folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import point_stands, write_all, write_summary
from jaxhamel.cli._results._search_file import SearchFile
from jaxhamel.cli._results._solution import SoFar, write_solution
from jaxhamel.cli._scenario._plan_schema import PLANS
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._terminal import Terminal
from jaxhamel.control import ControlProblem, Result, replay
from jaxhamel.control._loop._plan import plan_of_motion
from jaxhamel.control._methods._method import result_of
from jaxhamel.control._methods._multiple_shooting_search import MultipleShootingSearch
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._result import measure
from jaxhamel.viz._motion._page import prepare

FILES = ("solution.toml", SEARCH)
ADVICE = (
    "Go on with --resume and more time or iterations, --max-seconds or task.max_iterations, ask for a slower or smaller "
    "path, or start elsewhere with task.perturbation=0.01 and another --seed."
)


def run_control(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    seed: int = 0,
    max_seconds: float | None = None,
    resume: bool = False,
) -> Outcome:
    """Solves the scenario's task and writes the files of the command.

    **Arguments:** `max_seconds`: time limit of the search, counted from `started`; None takes the scenario's own. `resume`:
    whether to continue from an earlier search's point in `out`.

    **Raises:** `ScenarioError` before anything is written.
    """
    if scenario["task"]["path"] in PLANS:
        return run_plan(scenario, out, terminal, started, seed, max_seconds, resume)
    budget = seconds_of(scenario, max_seconds)
    prepared = PreparedRun.of(scenario)
    problem = build_problem(scenario, seed, prepared)
    check_loop_tables(scenario, problem, seed)
    method = build_method(scenario, search_seconds(budget, started))
    file = SearchFile(out, scenario)
    search = method.search(problem, free_parameters(problem.curve)[0])
    if resume:
        with named("task"):
            search.resume(file.read())
    folder(out)
    if resume:
        point_stands(scenario, file, budget, started, {})
    unknowns = np.size(jax.tree.leaves(problem.curve)[0])
    terminal.say(f"{scenario.name}: {unknowns} coefficients, up to {budget:g} s; compiling …")
    so_far = _so_far(scenario, search, file, problem.curve, budget, started)

    def compile_later_programs() -> None:
        if scenario["feedback"] is not None:
            curve = problem.curve
            plan = plan_of_motion(problem, replay(problem, curve), curve)
            close_at_first(scenario, problem, plan, seed)
        _shown_at_first(problem, prepared)

    with terminal.updating(), meanwhile(compile_later_programs):
        result = _result_of_search(problem, search, terminal, so_far)
    ended = _status(result, method.defect_tolerance, stopped=max_seconds is not None)
    outcome = _outcome(scenario, result, ended, started)
    run = prepared.shown(result.trajectory, result.control)
    write_solution(out / "solution.toml", scenario, result.control)
    if ended[0] == "success":
        file.remove()
    else:
        file.write(search.to_arrays())
    ended_early = outcome.ended_before("all figures were written")
    write_summary(out / "summary.json", ended_early.summary(["summary.json"]))
    guard.kept(f"{scenario.name}: {_not_shown(out, budget)}")
    stands = ended[0] in ("success", "stopped")
    outcome, charts, companion = closed_about(outcome, result, seed, terminal, stands)
    run = replace(run, costs=result.history["cost"])
    outcome = write_all(out, outcome, run, charts, companion)
    terminal.say(str(result))
    return outcome


def _result_of_search(
    problem: ControlProblem, search: MultipleShootingSearch, terminal: Terminal, so_far: SoFar
) -> Result:
    """The result of the search, which shows its progress and writes the best control found so far."""

    def shown(state: Any) -> None:
        so_far.reached(state)
        terminal.update(progress(state))

    return result_of(problem, search, shown)


def _so_far(
    scenario: Scenario,
    search: MultipleShootingSearch,
    file: SearchFile,
    curve: Any,
    seconds: float,
    started: float,
) -> SoFar:
    """The object that writes search.npz, solution.toml and summary.json while the search runs."""
    out, rebuild = file.path.parent, free_parameters(curve)[1]
    path = out / "solution.toml"
    words = (
        f"before the search had ended and its result was examined; its control so far is in {path}, which jaxhamel simulate "
        "shows: go on with --resume"
    )

    def write(state: Any) -> None:
        file.write(search.to_arrays())
        write_solution(path, scenario, rebuild(jnp.asarray(state.p)))
        outcome = _unfinished(scenario, state, f"the command was ended {words}.", started)
        write_summary(out / "summary.json", outcome.summary(["summary.json"]))

    more = f"the {seconds:g} s were over {words}, or give it more time, --max-seconds or task.max_seconds."
    return SoFar(write, f"{scenario.name}: {more}")


def _unfinished(scenario: Scenario, state: Any, words: str, started: float) -> Outcome:
    """The outcome of a search after some iterations; it is the final one if the command is ended while it searches."""
    seconds = time.monotonic() - started
    reached = {
        "cost": state.cost,
        "tracking_rms": state.tracking_rms,
        "iterations": state.iteration,
        "converged": False,
    }
    return Outcome("control", scenario, "failed", words, started, seconds, reached, files=FILES)


def _not_shown(out: Path, seconds: float) -> str:
    """The message if the time limit ends the command after the search, before all figures are written."""
    return (
        f"the {seconds:g} s were over before all figures were written; the control is in {out / 'solution.toml'}, which "
        "jaxhamel simulate shows. Or give it more time, --max-seconds or task.max_seconds."
    )


def _shown_at_first(problem: ControlProblem, run: PreparedRun) -> None:
    """Simulates and measures the initial guess like the later result, which compiles the programs for the result."""
    trajectory = replay(problem, problem.curve)
    measure(problem, trajectory, problem.curve)
    prepare(run.shown(trajectory, problem.curve))


def progress(state: Any) -> str:
    """The progress line of the search; the time left is shown once the pace of the iterations is known."""
    left = f", at most {state.time_left:.0f} s left" if state.iteration > 2 else ""
    rms = state.tracking_rms
    tracking = "" if rms is None or np.isnan(rms) else f"tracking {_length_in_words(rms)}  "
    return (
        f"iteration {state.iteration:3d}  cost {state.cost:.3e}  "
        f"{tracking}{state.elapsed:.0f} s{left}  "
        f"gap {state.defect:.0e}"
    )


def _length_in_words(metres: float) -> str:
    return f"{1e3 * metres:.3g} mm" if metres < 1 else f"{metres:.3g} m"


def _outcome(scenario: Scenario, result: Result, ended: tuple[str, str], started: float) -> Outcome:
    reached = {key: value for key, value in result.to_dict().items() if key != "seconds"}
    reached |= {"search_seconds": result.seconds, **progress_of(result.trajectory)}
    tiles = ((str(len(result.history["cost"])), "iterations"),)
    files = FILES[:1] if ended[0] == "success" else FILES
    more = {"reached": reached, "tiles": tiles, "lead": _lead(result), "files": files}
    return Outcome("control", scenario, *ended, started, **more)


def _status(result: Result, tolerance: float, stopped: bool) -> tuple[str, str]:
    """The status of the result (`success`, `stopped`, `interrupted` or `failed`), and a sentence with the reason.

    `stopped`: the search ended before it converged, but its motion has no gaps between the intervals, or the user gave the
    time limit `--max-seconds` (the argument `stopped`).
    """
    if result.converged:
        return "success", f"solved: {result.status}"
    if result.status.startswith("interrupted"):
        return "interrupted", result.status
    closed = float(result.history["defect"][-1]) < tolerance
    if bool(result.trajectory.succeeded) and (stopped or closed):
        return "stopped", f"not converged: {result.status}"
    end = float(result.trajectory.t_end)
    return "failed", f"the search failed: {result.status}; simulated to t = {end:.6g} s. {ADVICE}"


def _lead(result: Result) -> str:
    rms, size = result.tracking_rms, result.path_size
    if rms is None or not size:
        return ""
    share = f"{100 * rms / size:.2g} % of its size"
    return (
        f"The ball rolls {result.path_length:.3g} m and stays within {_length_in_words(rms)} (RMS) of the "
        f"reference path, {share}. The masses' motion was found by gradients through the simulation."
    )
