"""The command `control` for tasks that collocation solves: the search, its certificate, and the files."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel._search._loop import Verdict
from jaxhamel.cli._closed_loop._loop import check_loop_tables
from jaxhamel.cli._commands._closed_loop import close_at_first, closed_about
from jaxhamel.cli._commands._early import seconds_of
from jaxhamel.cli._commands._simulate import meanwhile
from jaxhamel.cli._commands._training import TrainingFolder
from jaxhamel.cli._interrupt import guard, search_seconds
from jaxhamel.cli._objects._plan import build_collocation, build_plan
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._results._folder import SEARCH, folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import point_stands, write_all, write_columns, write_summary
from jaxhamel.cli._results._search_file import SearchFile
from jaxhamel.cli._results._solution import SoFar
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._terminal import Terminal
from jaxhamel.control import Certificate, Indirect, Result, plan_of
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._indirect._shooting import has_free_end_time
from jaxhamel.viz._motion._plan_page import (
    control_names,
    controls_along,
    costate_names,
    lead,
    plan_charts,
    plan_tiles,
    proof,
    shown_motion,
)

ADVICE = "Go on with --resume, raise method.intervals, method.max_iterations or method.max_seconds, or check the limits."
# The certificate's `second_order` if the second-order conditions were not examined.
UNDECIDED = "undecided"
ENDED = "the command was ended before the search had ended"
FILES = ("control.csv", "costates.csv")
FEASIBLE = 1e-5  # the largest violation of the constraints by a plan about which the loop is closed


def run_plan(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    seed: int,
    max_seconds: float | None,
    resume: bool = False,
) -> Outcome:
    """Plans the scenario's task by collocation, simulates robots that follow the plan by feedback, and writes all files.

    **Arguments:** `seed`: the seed of the robots' random parameters; `max_seconds`: the time limit of the search, counted
    from `started`, by default that of `[method]`; `resume`: whether to continue from an earlier search's point in `out`.

    **Raises:** `ScenarioError` before anything is written.
    """
    budget = seconds_of(scenario, max_seconds)
    problem = build_plan(PreparedRun.of(scenario))
    check_loop_tables(scenario, problem, seed)
    method = build_collocation(scenario, search_seconds(budget, started))
    file = SearchFile(out, scenario)
    with named("task"):
        search = CollocationSearch(method, problem, file.read() if resume else None)
    folder(out)
    if resume:
        certificate = _not_met(ENDED, float("nan"), float("nan"))
        point_stands(scenario, file, budget, started, {"certificate": certificate._asdict()})
    training = TrainingFolder(out, terminal, resume, started, max_seconds)
    training.begin()
    intervals = len(search.transcription.shares) - 1
    terminal.say(f"{scenario.name}: {intervals} intervals, up to {budget:g} s; compiling …")

    def compile_later_programs() -> None:
        _examined_at_first(scenario, CollocationSearch(method, problem), seed)

    with terminal.updating(), meanwhile(compile_later_programs):
        result = _searched(scenario, search, file, terminal, started, budget)
        if scenario["method"]["indirect"]:
            result = Indirect(method).after(result)
    outcome = _outcome(scenario, result, started)
    outcome = _with_closed_loop(outcome, result, out, terminal, seed, budget, training)
    if outcome.status == "success" and scenario["policy"] is None:
        file.remove()
    terminal.say(str(result))
    return outcome


def _with_closed_loop(
    outcome: Outcome,
    result: Result,
    out: Path,
    terminal: Terminal,
    seed: int,
    budget: float,
    training: TrainingFolder,
) -> Outcome:
    """Simulates robots about the plan, if the scenario has a feedback, and writes tables, figures, page and summary."""
    scenario = outcome.scenario
    _write_tables(out, result)
    if scenario["feedback"] is not None:
        ended = outcome.ended_before("the closed loop was written")
        write_summary(out / "summary.json", ended.summary(["summary.json"]))
        guard.kept(f"{scenario.name}: {_not_closed(out, budget)}")
    outcome, loop_charts, robot = closed_about(
        outcome, result, seed, terminal, _feasible(result), training
    )
    if outcome.status == "interrupted":  # after Ctrl-C there are two seconds to write
        write_summary(out / "summary.json", outcome.summary(["summary.json"]))
    charts = [*loop_charts, *plan_charts(result)]
    with named(None):
        run = shown_motion(result)
    return write_all(out, outcome, run, charts, robot)


def _searched(
    scenario: Scenario,
    search: CollocationSearch,
    file: SearchFile,
    terminal: Terminal,
    started: float,
    budget: float,
) -> Result:
    """Runs the search and examines its result. Until then each point that it writes has a summary, whose certificate is
    not met."""
    out = file.path.parent
    words = f"{scenario.name}: {_not_examined(out, budget)}"

    def write(arrays: Mapping[str, np.ndarray]) -> None:
        file.write(arrays)
        stands = unexamined(scenario, search, ENDED, started)
        write_summary(out / "summary.json", stands.summary(["summary.json"]))

    so_far = SoFar(write, words)

    def shown(state: Any) -> None:
        so_far.reached(search.to_arrays())
        terminal.update(progress(state))

    ending = search.run(shown)
    file.write(search.to_arrays())
    stands = unexamined(scenario, search, ending.status, started)
    write_summary(out / "summary.json", stands.summary(["summary.json"]))
    guard.kept(words)
    return search.result(ending)


def _examined_at_first(scenario: Scenario, search: CollocationSearch, seed: int) -> None:
    """Compiles the programs that will examine the result and simulate its closed loop, by running them on the guess.

    The programs of the closed loop depend on the times of the plan. They are compiled only if its end time is fixed.
    """
    search.look_at_start()
    result = search.result(Verdict(False, "not begun"))
    is_closed = scenario["feedback"] is not None and scenario["policy"] is None
    if is_closed and not has_free_end_time(search.problem):
        close_at_first(scenario, result.problem, plan_of(result), seed)


def _not_examined(out: Path, budget: float) -> str:
    """The message if the time limit ends the command before the result is examined."""
    return (
        f"the {budget:g} s were over before the result was examined; the search is in {out / SEARCH}: go on with --resume, "
        "or give it more time, --max-seconds."
    )


def _not_closed(out: Path, budget: float) -> str:
    """The message if the time limit ends the command before the loop is closed."""
    return (
        f"the {budget:g} s were over before the loop was closed; the control is in {out / FILES[0]}. Give it more time, "
        "--max-seconds."
    )


def _feasible(result: Result) -> bool:
    """Whether the plan satisfies its constraints within `FEASIBLE`; it can then be followed, even if it is not optimal."""
    assert result.certificate is not None  # every result of collocation has a certificate
    return result.certificate.violation <= FEASIBLE


def unexamined(
    scenario: Scenario, search: CollocationSearch, status: str, started: float
) -> Outcome:
    """The outcome of a search before its result is examined; it is the final one if the time limit ends the examination."""
    row = search.rows[-1]
    certificate = _not_met(status, row["gradient_norm"], row["violation"])
    return Outcome(
        "control",
        scenario,
        "failed",
        f"no optimum was proved: {status}; the result has not been examined. {ADVICE}",
        started,
        time.monotonic() - started,
        reached={"cost": row["cost"], "iterations": len(search.rows), "converged": False},
        files=(SEARCH,),
        top={"certificate": certificate._asdict()},
    )


def _not_met(status: str, stationarity: float, violation: float) -> Certificate:
    """The certificate of a point that has not been examined; `status`: how the search ended."""
    words = f"certificate: does NOT hold; {status}; not examined"
    return Certificate(False, stationarity, violation, float("nan"), UNDECIDED, False, words)


def progress(state: Any) -> str:
    """The progress line of the search."""
    return (
        f"iteration {state.iteration:3d}  cost {state.cost:.6e}  violation {state.defect:.0e}  "
        f"{state.elapsed:.0f} s, at most {state.time_left:.0f} s left"
    )


def _write_tables(out: Path, result: Result) -> None:
    """Writes the control along the motion, and the costates at the times of the mesh."""
    ts = np.asarray(result.trajectory.ts)
    columns = dict(zip(control_names(result), controls_along(result, ts).T, strict=True))
    write_columns(out / FILES[0], {"t": ts, **columns})
    costates = np.asarray(result.costates)
    names = costate_names(costates.shape[1])
    write_columns(
        out / FILES[1], {"t": np.asarray(result.ts), **dict(zip(names, costates.T, strict=True))}
    )


def _outcome(scenario: Scenario, result: Result, started: float) -> Outcome:
    certificate = result.certificate
    assert certificate is not None  # every result of collocation has a certificate
    reached = {
        "cost": result.cost,
        **{name: value.tolist() for name, value in result.design.items()},
        "end_time": float(np.asarray(result.ts)[-1]),
        "iterations": len(result.history["cost"]),
        "converged": result.converged,
        "search_seconds": result.seconds,
        "time": float(result.trajectory.t_end),
    }
    status = _status(result, certificate)
    return Outcome(
        "control",
        scenario,
        *status,
        started,
        reached=reached,
        tiles=plan_tiles(result),
        lead=lead(result),
        files=(*FILES, *([] if status[0] == "success" else [SEARCH])),
        top={"certificate": certificate._asdict()},
        proof=proof(certificate),
    )


def _status(result: Result, certificate: Certificate) -> tuple[str, str]:
    """The status of the result (`success`, `interrupted` or `failed`), and a sentence with the reason."""
    if result.status.startswith("interrupted"):
        return "interrupted", result.status
    if certificate.holds:
        return "success", f"solved: {result.status}, J = {result.cost:.10g}; the certificate holds"
    reasons = "; ".join(line.strip().rstrip(".") for line in certificate.words.splitlines()[1:])
    return "failed", f"no optimum was proved: {result.status}; {reasons}. {ADVICE}"
