"""The command `identify`: estimates parameters and their uncertainty from measured runs."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxhamel import identify
from jaxhamel._files import made, write_text, written
from jaxhamel._words import counted, slug
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._objects._build import build_control
from jaxhamel.cli._objects._identification import (
    build_identified_system,
    build_measurements,
    build_problem,
    make_runs,
    read_run,
    runs_in,
    with_fitted,
)
from jaxhamel.cli._objects._prepared import run_of
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import asked_in_tables, flattened, write_figures, write_summary
from jaxhamel.cli._results._solution import write_tables
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._sizes import check_fit_step
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.simulate import Trajectory
from jaxhamel.viz import Chart, Report, correlation_figure, fit_figure, residuals_figure
from jaxhamel.viz._charts import distinct
from jaxhamel.viz._motion._scene_of import scene_of

ADVICE = "Start nearer with --set system.…, give more runs, freeze or add a prior to what is not determined."


def run_identify(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    data: Path | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
) -> Outcome:
    """Fits the scenario's parameters to the runs in `data`, or to synthetic runs, and writes the files of the command.

    **Raises:** `ScenarioError`; before it, only synthetic data can have been written.
    """
    budget = scenario["fit"]["max_seconds"] if max_seconds is None else max_seconds
    guard.limit(budget - (time.monotonic() - started), _too_late(scenario, budget))
    system = build_identified_system(scenario)
    control, measurements = build_control(scenario, system), build_measurements(scenario)
    if data is None:
        data, paths = _made_up(scenario, out, measurements, control, seed)
    else:
        paths = runs_in(scenario, data)
    runs = [read_run(scenario, path, measurements, control) for path in paths]
    check_fit_step(scenario["fit"]["dt"], sum(_length(run) for run in runs), budget)
    problem = build_problem(scenario, system, measurements, runs)
    folder(out)
    count = problem.model.coordinates().shape[0]
    told = f"{counted(len(runs), 'run')} from {data}"
    terminal.say(f"{scenario.name}: {count} coordinates, {told}; compiling …")
    with terminal.updating():
        estimate = _fit(scenario, problem, terminal, seed, budget - (time.monotonic() - started))
    ended = status(estimate, stopped=max_seconds is not None)
    outcome = Outcome("identify", scenario, *ended, started, reached=estimate.to_dict())
    outcome = write_identification(out, outcome, estimate)
    terminal.say(str(estimate))
    return outcome


def _length(run: Any) -> float:
    return float(run.ts[-1] - run.ts[0])


def _made_up(scenario, out, measurements, control, seed) -> tuple[Path, list[Path]]:
    """Writes the synthetic runs; returns their folder and only their files, since other files may be in it."""
    if not any(value is not None for value in scenario["truth"].values()):
        raise ScenarioError(
            "--data is missing; give the folder with the measured runs, CSV files as [data] of the scenario "
            "says. (Data are made up only for a scenario with [truth].)"
        )
    folder_of_runs = made(folder(out) / "data")
    return folder_of_runs, make_runs(scenario, folder_of_runs, measurements, control, seed)


def _fit(scenario, problem, terminal, seed, seconds) -> Any:
    table = scenario["fit"]

    def shown(state: Any) -> None:
        guard.keep()
        terminal.update(str(state))

    options = {
        "max_iterations": table["max_iterations"],
        "max_seconds": max(seconds, 1.0),
        "progress": shown,
    }
    if table["starts"] == 1:
        return identify.fit(problem, **options)
    key = jax.random.key(seed)
    starts = identify.perturbed_starts(problem, key, table["starts"], table["spread"])
    return identify.fit_many(problem, starts, **options)


def _too_late(scenario: Scenario, seconds: float) -> str:
    return (
        f"{scenario.name}: the {seconds:g} s were over before the first iteration; nothing was found. Give it more, "
        "--max-seconds or fit.max_seconds, or fit fewer values."
    )


def status(estimate: Any, stopped: bool) -> tuple[str, str]:
    """The status (`success`, `stopped` early on request, `interrupted` or `failed`), and a sentence with the reason."""
    if estimate.converged:
        return "success", f"fitted: {estimate.status}"
    if estimate.status.startswith("interrupted"):
        return "interrupted", estimate.status
    if stopped and np.isfinite(estimate.cost):
        return "stopped", f"not converged: {estimate.status}"
    return "failed", f"the fit failed: {estimate.status}. {ADVICE}"


def write_identification(out: Path, outcome: Outcome, estimate: Any) -> Outcome:
    """Writes every file of the command, the summary last."""
    scenario = outcome.scenario
    with written(out / "parameters.csv") as file:
        estimate.to_csv(file)
    write_tables(out / "fitted.toml", with_fitted(scenario, estimate).tables)
    guard.kept()
    charts, scene = [], None
    for index in range(len(estimate.problem.runs)):
        motion, shown, errors = identify.compared(estimate, index)
        charts += run_charts(estimate, index, shown, errors)
        scene = scene or _scene(estimate, index, motion)
    free = [not f and np.isfinite(e) for f, e in zip(estimate.frozen, estimate.errors, strict=True)]
    if sum(free) > 1:
        names = [name for name, f in zip(estimate.names, free, strict=True) if f]
        matrix = estimate.correlation[np.ix_(free, free)]
        figure = correlation_figure(matrix, names, title="Correlation of the estimates")
        charts.append(Chart("correlation", figure, "Correlation of each pair of estimates"))
    charts = distinct(charts)
    figures = write_figures(out, charts)
    files = ["summary.json", "parameters.csv", "fitted.toml", *figures, "report.html"]
    outcome = replace(outcome, seconds=time.monotonic() - outcome.started)
    summary = outcome.summary(files)
    write_text(out / "report.html", _report(outcome, estimate, charts, scene, summary))
    write_summary(out / "summary.json", summary)
    return outcome


def run_charts(
    estimate: Any, index: int, shown: dict[str, Any], errors: dict[str, Any]
) -> list[Chart]:
    """Charts of the measured and fitted values of each quantity in one run, and of the residuals."""
    run, charts = estimate.problem.runs[index], []
    for m in estimate.problem.measurements:
        if m.name in run.values:
            charts.append(measured_chart(run, m, shown[m.name], f"{slug(m.name)}-{index + 1}"))
    noise = dict(zip(errors, estimate.noise, strict=True))
    known = {name: error for name, error in errors.items() if np.isfinite(error).any()}
    title = f"{run.name}: errors in units of their noise"
    figure = residuals_figure(run.ts, known, noise, title=title)
    return [
        *charts,
        Chart(f"residuals-{index + 1}", figure, f"Residuals of each signal of {run.name}"),
    ]


def measured_chart(
    run: Any, m: Any, shown: np.ndarray, name: str, start: float | None = None
) -> Chart:
    """A chart of one measurement: measured values as dots, the model as lines."""
    unit = f" / ({m.unit})" if "/" in m.unit else f" / {m.unit}" if m.unit else ""
    quantity = m.name.replace("_", " ").replace("-", " ")
    figure = fit_figure(
        run.ts,
        run.values[m.name],
        shown,
        m.columns,
        title=f"{run.name}: {quantity}, measured (dots) and model",
        ylabel=f"{quantity}{unit if m.size == m.error_size else ''}",
        start=start,
    )
    return Chart(name, figure, f"Measured and modelled {quantity} of {run.name} over time")


def _scene(estimate: Any, index: int, motion: Trajectory) -> Any:
    """The 3-D scene with the moving bodies."""
    run = estimate.problem.runs[index]
    return scene_of(run_of(motion, estimate.system, run.control))


def _report(
    outcome: Outcome, estimate: Any, charts: list[Any], scene: Any, summary: dict[str, Any]
) -> str:
    rows = {
        f"{row['parameter']}{' / ' + row['unit'] if row['unit'] else ''}": _in_words(row)
        for row in estimate.rows()
    }
    left = {f"{k} ({estimate.counts[k]} values)": v for k, v in estimate.rms.items()}
    remarks = {f"{i + 1}": text for i, text in enumerate(estimate.remarks)}
    warning = (
        "" if outcome.status == "success" else outcome.message[:1].upper() + outcome.message[1:]
    )
    return Report(
        title=outcome.scenario.title,
        lead=_lead(estimate),
        scene=scene,
        charts=charts,
        tiles=_tiles(outcome, estimate),
        tables={
            "Estimates with standard errors": rows,
            **({"What the data do not determine": remarks} if remarks else {}),
            "RMS residuals": left,
            "Asked": dict(flattened(asked_in_tables(summary["asked"]))),
            "Made with": summary["versions"],
        },
        warning=warning,
        colophon=f"Made by jaxhamel {summary['versions']['jaxhamel']}.",
    ).html()


def _tiles(outcome: Outcome, estimate: Any) -> list[tuple[str, str]]:
    return [
        (str(sum(not f for f in estimate.frozen)), "quantities sought"),
        (str(sum(estimate.counts.values())), "measured values"),
        (str(len(estimate.flat)), "directions not determined"),
        (f"{outcome.seconds:.3g} s", "computed in"),
    ]


def _in_words(row: dict[str, Any]) -> str:
    value = f"{row['estimate']:.6g}"
    if row["frozen"]:
        return f"{value} (frozen)"
    error = row["standard_error"]
    return (
        f"{value} ± {error:.2g}" if np.isfinite(error) else f"{value}, not determined by the data"
    )


def _lead(estimate: Any) -> str:
    runs, values = len(estimate.problem.runs), sum(estimate.counts.values())
    head = f"Fitted to {counted(values, 'measured value')} of {counted(runs, 'run')}."
    return " ".join([head, *estimate.remarks[:2]])
