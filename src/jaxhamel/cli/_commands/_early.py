"""Checks of a command's options, and of the tables that do not depend on the system, before JAX is imported."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._results._folder import SEARCH, check_place, over_at_first
from jaxhamel.cli._scenario import _sizes
from jaxhamel.cli._scenario._ensemble_schema import STATE_FEEDBACK
from jaxhamel.cli._scenario._plan_schema import PLANS
from jaxhamel.cli._scenario._reading import check_data_file
from jaxhamel.cli._scenario._scenario import Check, Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief


def check_of_simulate(out: Path) -> Check:
    """The check of `simulate`: times and solver, the size of the run, and the output folder."""

    def check(tables: Mapping[str, Any]) -> None:
        _check_run(tables)
        _sizes.check_simulation_size(tables)
        check_place(out)

    return check


def check_of_control(out: Path, max_seconds: float | None, resume: bool) -> Check:
    """The check of `control`: the scenario has a task, and with `--resume` a stopped search is on disk."""

    def check(tables: Mapping[str, Any]) -> None:
        _check_task(tables)
        _check_run(tables)
        _check_feedback(tables)
        _check_policy(tables)
        if resume:
            from jaxhamel.cli._results._search_file import check_there  # imports NumPy

            check_there(out / SEARCH)
        _sizes.check_control_size(tables, max_seconds)
        check_place(out)

    return check


def check_of_montecarlo(out: Path, trajectories: int | None, index: int | None) -> Check:
    """The check of `montecarlo`: at least one parameter is spread, and `--index` is below the number of trajectories."""

    def check(tables: Mapping[str, Any]) -> None:
        table = tables["montecarlo"]
        if table is None or not table["spread"]:
            raise ScenarioError(
                "`montecarlo.spread` is missing; montecarlo needs at least one [[montecarlo.spread]]: a number that "
                "differs from trajectory to trajectory."
            )
        _check_run(tables)
        size = table["trajectories"] if trajectories is None else trajectories
        if index is not None and not 0 <= index < size:
            raise ScenarioError(
                f"--index: there is no trajectory {index}; there are {size}, counted from 0 to {size - 1}."
            )
        _sizes.check_montecarlo_size(tables, trajectories)
        check_place(out, of_ensemble=index is None)

    return check


def check_of_identify(out: Path, data: Path | None, max_seconds: float | None) -> Check:
    """The check of `identify`: measured data are given, or true values for synthetic data."""

    def check(tables: Mapping[str, Any]) -> None:
        if data is None and not tables.get("truth"):
            raise ScenarioError(
                "--data is missing; give the folder with the measured runs, CSV files in the form that [data] of the "
                "scenario states. (Only a scenario with [truth] makes synthetic data.)"
            )
        if data is not None and not os.path.isdir(data):
            raise ScenarioError(
                f"--data {data}: there is no such folder. Give one with the CSV files."
            )
        _sizes.check_identification_size(tables, data is None, max_seconds)
        check_place(out)

    return check


def check_of_predict(out: Path, run: Path) -> Check:
    """The check of `predict`: the scenario has fitted values, and the file of the run can be read."""

    def check(tables: Mapping[str, Any]) -> None:
        if not tables["fitted"]:
            raise ScenarioError(
                "`fitted` is missing; give the fitted.toml that `jaxhamel identify` wrote."
            )
        check_data_file(run)
        check_place(out)

    return check


def seconds_of(scenario: Scenario, max_seconds: float | None) -> float:
    """The time limit of a search [s]: `--max-seconds`, else `max_seconds` in the scenario's [task], [method] or [fit]."""
    if max_seconds is not None:
        return max_seconds
    task = scenario.tables.get("task")
    table = "fit" if task is None else "method" if task["path"] in PLANS else "task"
    return scenario[table]["max_seconds"]


def limit_search(
    name: str, seconds: float | None, started: float, resumed: Path | None = None
) -> None:
    """Lets the guard end the command a tenth after its time limit; nothing happens if `seconds` is None.

    `resumed`: the file of the point from which the search continues, if it does.
    """
    if seconds is None:
        return
    guard.limit(seconds, f"{name}: {over_at_first(seconds, resumed)}", started)


def accuracies(options: Sequence[str]) -> dict[str, float]:
    """Parses options `QUANTITY=ERROR` into a dictionary. **Raises:** `ScenarioError` for any other form."""
    found = {}
    for entry in options:
        name, equals, value = entry.partition("=")
        try:
            found[name.strip()] = float(value)
        except ValueError:
            equals = ""
        if not equals:
            raise ScenarioError(
                f"`--accuracy {entry}` is not of the form QUANTITY=ERROR, such as tracking_rms=1e-4."
            )
    return found


def _check_run(tables: Mapping[str, Any]) -> None:
    """Checks that `time.end` is after `time.start`, and that a solver without an error estimate has a step `dt`."""
    time, solver = tables["time"], tables["solver"]
    if not time["end"] > time["start"]:
        raise ScenarioError(
            f"`time.end` is {time['end']:g}; it must be larger than `time.start`, {time['start']:g}."
        )
    if not solver["dt"] > 0 and solver["method"] == "euler":
        raise ScenarioError(
            '`solver.method` "euler" has no error estimate; it needs a fixed step, `solver.dt`.'
        )


def _check_task(tables: Mapping[str, Any]) -> None:
    """Checks that the scenario has a task, and that its time starts at 0."""
    if tables["task"] is None:
        raise ScenarioError(
            "`task` is missing; control needs a table [task], which states the path to follow. "
            "Built-in scenarios with a task: see `jaxhamel scenarios`."
        )
    if tables["time"]["start"] != 0.0:
        raise ScenarioError(
            f"`time.start` is {tables['time']['start']:g}; a [task] starts at 0. Leave it out."
        )


def _check_feedback(tables: Mapping[str, Any]) -> None:
    """Checks that `[feedback]` is a regulator about the plan."""
    if tables["feedback"] is not None and tables["feedback"]["kind"] in STATE_FEEDBACK:
        raise ScenarioError(
            f"`feedback.kind` is {brief(tables['feedback']['kind'])}, for simulate, montecarlo, identify and predict; "
            'control holds its plan by kind = "tvlqr".'
        )


def _check_policy(tables: Mapping[str, Any]) -> None:
    """Checks that `[policy]` has a regulator to correct, and a task that collocation solves."""
    if tables["policy"] is None:
        return
    if tables["feedback"] is None:
        raise ScenarioError(
            "`policy` needs [feedback], the regulator that it corrects. Give it, or leave [policy] out."
        )
    if tables["task"]["path"] not in PLANS:
        raise ScenarioError(
            f"`policy` is trained about plans of collocation, and `task.path` is {brief(tables['task']['path'])}, which is "
            "not solved by it. Leave [policy] out, or use jaxhamel.control.train."
        )
