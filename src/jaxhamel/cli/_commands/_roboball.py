"""The commands `identify roboball` and `predict` for RoboBall II.

Its two kinds of runs are fitted in two stages, see `identify.fit_roboball`.
"""

import csv
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel import identify
from jaxhamel._files import write_text, written
from jaxhamel._words import counted
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._objects._build import named
from jaxhamel.cli._objects._identification import files_in
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_figures, write_summary
from jaxhamel.cli._scenario._fitted import FITTED_ROBOT as FITTED
from jaxhamel.cli._scenario._fitted import ROBOBALL as NAME
from jaxhamel.cli._scenario._reading import check_data_file, file_text, parsed
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief
from jaxhamel.cli._terminal import Terminal
from jaxhamel.identify._roboball._roboball import FIRST_GUESS
from jaxhamel.identify._roboball._roboball_runs import JOINT, SHELL
from jaxhamel.systems import SoftRollingPendulum
from jaxhamel.viz import Chart, Report, fit_figure

COLUMNS = ["parameter", "estimate", "standard_error", "unit", "frozen", "remark", "runs"]


def run_identify_roboball(
    out: Path,
    terminal: Terminal,
    started: float,
    data: Path | None,
    max_seconds: float | None,
    changes: Iterable[str] = (),
) -> Outcome:
    """Fits the robot's parameters to the runs in `data` and writes the files of the command.

    **Raises:** `ScenarioError` before anything is written.
    """
    budget = 600.0 if max_seconds is None else max_seconds
    guard.limit(
        budget - (time.monotonic() - started),
        f"{NAME}: the {budget:g} s were over before the first iteration; nothing was found. Give it more, --max-seconds.",
    )
    runs, start = _runs_in(data), _start(changes)
    folder(out)
    terminal.say(
        f"{NAME}: {counted(len(runs), 'run')} from {data}; the joint first, then the contact"
    )

    def shown(state: Any) -> None:
        guard.keep()
        terminal.update(str(state))

    with terminal.updating():
        found = identify.fit_roboball(
            runs,
            start,
            max_seconds=max(budget - (time.monotonic() - started), 1.0),
            progress=shown,
        )
    scenario = Scenario(NAME, {"data": str(data), "runs": [run.name for run in runs]})
    ended = _ended(found, max_seconds is not None)
    outcome = Outcome("identify", scenario, *ended, started, reached=_reached(found))
    _write_fitted(out, found)
    guard.kept()
    charts = [_run_chart(found, index) for index in range(len(found.contacts))]
    tiles = [(f"{found.total:.4f}", "RMS in rad"), (str(len(runs)), "runs")]
    lead = "The joint from the runs in the stand; the contact from those of rolling; the rest as drawn."
    files = [FITTED, "parameters.csv"]
    tables = {"Estimates": _estimates(found), "RMS": found.rms}
    return _write(out, outcome, charts, files, tiles, lead, tables)


def run_predict_roboball(
    fitted: Path, path: Path, out: Path, terminal: Terminal, started: float, seconds: float
) -> Outcome:
    """Predicts the run in the file `path` from its first seconds and writes the files."""
    system, spread = _fitted(fitted)
    run = _read(path)
    terminal.say(f"{run.name}: the state at its start from the first {seconds:g} s")
    try:
        found = identify.predict_roboball(system, run, seconds, spread=spread)
    except ValueError as error:
        raise ScenarioError(f"{path}: {error}") from None
    folder(out)
    scenario = Scenario(NAME, {"fitted": str(fitted), "run": str(path), "seconds": seconds})
    reached = {"contact": float(found.initial.x.q[0, 2]), "time": float(found.trajectory.t_end)}
    told = ", ".join(f"{name} {value:.4g} rad" for name, value in found.rms.items())
    ended = ("success", f"RMS after the first {seconds:g} s: {told}")
    if not np.all(np.isfinite(list(found.rms.values()))):
        ended = ("failed", "the prediction broke down. Try other --seconds.")
    outcome = Outcome("predict", scenario, *ended, started, reached=reached, top={"rms": found.rms})
    chart = _chart("prediction", run, found.trajectory, f"{run.name} predicted", seconds)
    tiles = [(f"{value:.3g} rad", f"RMS of {name}") for name, value in found.rms.items()]
    lead = (
        f"The state at the start is from the first {seconds:g} s; the rest was only compared with."
    )
    table = {"RMS after the first seconds": found.rms}
    return _write(out, outcome, [chart], [], tiles, lead, table)


def _fitted(path: Path) -> tuple[SoftRollingPendulum, float]:
    """The robot and the standard deviations of its contact parameters, from the file that `identify` wrote.

    **Raises:** `ScenarioError` if the file has another format or its values are impossible for the robot.
    """
    content = parsed(json.loads, file_text(path), "JSON")
    if not isinstance(content, dict) or content.get("robot", NAME) != NAME:
        raise ScenarioError(f"it is not the {FITTED} that `jaxhamel identify {NAME}` wrote.")
    numbers, spread = content.get("system"), content.get("spread")
    if not isinstance(numbers, dict):
        raise ScenarioError("`system` is missing; it must have the parameters of the robot.")
    if not isinstance(spread, int | float) or isinstance(spread, bool) or not 0 <= spread < 1e300:
        raise ScenarioError(f"`spread` is {brief(spread)}; it must be a number of 0 or more.")
    return _robot(numbers), float(spread)


def _robot(numbers: Mapping[str, Any]) -> SoftRollingPendulum:
    with named("system"):
        return SoftRollingPendulum(**{name: _floats(name, x) for name, x in numbers.items()})


def _floats(name: str, value: Any) -> Array:
    try:
        found = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        found = np.array(np.nan)
    if isinstance(value, bool | str) or not np.all(np.isfinite(found)):
        raise ScenarioError(
            f"`system.{name}` is {brief(value)}; it must be a number, or a list of numbers."
        )
    return jnp.asarray(found)


def _runs_in(data: Path | None) -> list[Any]:
    """The runs in the folder; at least one of them must be a rolling run."""
    if data is None:
        raise ScenarioError("--data is missing; give the folder with the measured runs, CSV files.")
    runs = [_read(path) for path in files_in(data, ["*.csv"])]
    if not any("shell" in run.values for run in runs):
        raise ScenarioError(
            f"--data {data}: none of its {len(runs)} CSV files has a column `{SHELL}`; one is needed at least."
        )
    return runs


def _reached(found: Any) -> dict[str, Any]:
    return {
        "rms": found.rms,
        "rms_total": found.total,
        "spread": found.spread,
        "contacts": found.contacts,
        "parameters": {row["parameter"]: row for row in found.rows()},
        "fit": {"stand": found.stand and found.stand.status, "rolling": found.rolling.status},
    }


def _estimates(found: Any) -> dict[str, str]:
    """A description of the fitted parameters."""
    return {
        f"{row['parameter']} / {row['unit']}": f"{row['estimate']:.5g} ± {row['standard_error']:.2g} ({row['runs']})"
        for row in found.rows()
        if not row["frozen"]
    }


def _ended(found: Any, stopped: bool) -> tuple[str, str]:
    """The status (`success`, `stopped` early on request, `interrupted` or `failed`), and the accuracy as a sentence."""
    message = f"RMS {found.total:.4f} rad over all rolling runs and both angles"
    if found.converged and np.isfinite(found.total):
        return "success", message
    if not found.converged:
        message = f"not converged ({found.status}); {message}"
    if "interrupted" in found.status:
        return "interrupted", message
    return ("stopped" if stopped and np.isfinite(found.total) else "failed"), message


def _start(changes: Iterable[str]) -> SoftRollingPendulum:
    """The initial guess: the designed robot and an assumed contact, with changes `system.NAME=VALUE`."""
    start = SoftRollingPendulum.roboball(**FIRST_GUESS)
    values = {name: np.asarray(value).tolist() for name, value in vars(start).items()}
    for change in changes:
        key, _, text = change.partition("=")
        name = key.removeprefix("system.")
        if not key.startswith("system.") or name not in values:
            raise ScenarioError(
                f"`{brief(key, quoted=False)}` is no key of {NAME}; it takes "
                f"{', '.join(f'system.{n}' for n in values)}."
            )
        values[name] = parsed(json.loads, text, f"JSON after {key}=")
    return _robot(values)


def _read(path: Path) -> Any:
    check_data_file(path)
    try:
        return identify.read_roboball(path)
    except identify.DataError as error:
        raise ScenarioError(str(error)) from None


def _write_fitted(out: Path, found: Any) -> None:
    """Writes the parameters for `predict`, and the table of estimates."""
    system = {name: np.asarray(value).tolist() for name, value in vars(found.system).items()}
    write_summary(out / FITTED, {"robot": NAME, "system": system, "spread": found.spread})
    with written(out / "parameters.csv") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found.rows())


def _run_chart(found: Any, index: int) -> Chart:
    run = found.rolling.problem.runs[index]
    motion, _, _ = identify.compared(found.rolling, index)
    return _chart(f"run-{index + 1}", run, motion, f"{run.name} fitted")


def _chart(name: str, run: Any, motion: Any, title: str, start: float | None = None) -> Chart:
    """A chart of both angles at the measured times: measured values as dots, the model as lines."""
    measured = np.concatenate([run.values["shell"], run.values["joint"]], axis=1)
    figure = fit_figure(
        np.asarray(motion.ts),
        measured,
        np.asarray(motion.q)[:, :2],
        (SHELL, JOINT),
        title=title,
        ylabel="angle / rad",
        start=None if start is None else float(run.ts[0]) + start,
    )
    return Chart(name, figure, f"{title}: measured (dots) and model (lines) over time")


def _write(
    out: Path,
    outcome: Outcome,
    charts: list[Any],
    files: list[Any],
    tiles: list[Any],
    lead: str,
    tables: dict[str, Any],
) -> Outcome:
    """Writes figures and report, then the summary."""
    figures = write_figures(out, charts)
    outcome = replace(outcome, seconds=time.monotonic() - outcome.started)
    names = ["summary.json", *files, *figures, "report.html"]
    summary = outcome.summary(names)
    flat = {
        heading: {
            key: ", ".join(f"{v:.4g}" for v in value.values()) if isinstance(value, dict) else value
            for key, value in rows.items()
        }
        for heading, rows in tables.items()
    }
    report = Report(
        title=f"RoboBall II: {outcome.command}",
        lead=lead,
        charts=charts,
        tiles=tiles,
        tables={**flat, "Made with": summary["versions"]},
        warning="" if outcome.status == "success" else outcome.message,
        colophon=f"Made by jaxhamel {summary['versions']['jaxhamel']}.",
    )
    write_text(out / "report.html", report.html())
    write_summary(out / "summary.json", summary)
    return outcome
