"""The files of `identify`: estimates, figures of the fitted runs and of the correlations, the report with the 3-D scene."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel import identify
from jaxhamel._files import write_text, written
from jaxhamel._words import counted, slug
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._objects._identification import (
    with_fitted,
)
from jaxhamel.cli._objects._prepared import run_of
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import asked_in_tables, flattened, write_figures, write_summary
from jaxhamel.cli._results._solution import write_tables
from jaxhamel.identify._noise import error_units
from jaxhamel.simulate import Trajectory
from jaxhamel.viz import Chart, Report, correlation_figure, fit_figure, residuals_figure
from jaxhamel.viz._charts import distinct
from jaxhamel.viz._motion._charts_of import with_unit
from jaxhamel.viz._motion._scene_of import scene_of

ADVICE = (
    "Start closer to the solution with --set system.…, give more runs, or freeze the parameters that the data do not "
    "determine or give them a prior."
)


def fits_of(estimate: Any) -> list[Any]:
    """The estimates of all stages, as a list; for a fit without stages, a list with its only estimate."""
    staged = isinstance(estimate, identify.StagedEstimate)
    return list(estimate.estimates.values()) if staged else [estimate]


def status(estimate: Any, stopped: bool) -> tuple[str, str]:
    """The status (`success`, `stopped`, `interrupted` or `failed`), and a sentence with the reason.

    `stopped`: whether the user gave a time limit; a fit that has not converged is then `stopped`, not `failed`.
    """
    if estimate.converged:
        return "success", f"fitted: {estimate.status}"
    if "interrupted" in estimate.status:
        return "interrupted", estimate.status
    if stopped and all(np.isfinite(fit.cost) for fit in fits_of(estimate)):
        return "stopped", f"not converged: {estimate.status}"
    return "failed", f"the fit failed: {estimate.status}. {ADVICE}"


def write_identification(
    out: Path, outcome: Outcome, estimate: Any, measurements: tuple[Any, ...]
) -> Outcome:
    """Writes every file of the command, the summary last."""
    scenario, fits = outcome.scenario, fits_of(estimate)
    with written(out / "parameters.csv") as file:
        estimate.to_csv(file)
    fitted = with_fitted(scenario, estimate.system, measurements, fits)
    write_tables(out / "fitted.toml", fitted.tables)
    write_summary(
        out / "summary.json", outcome.summary(["summary.json", "parameters.csv", "fitted.toml"])
    )
    guard.kept(
        f"{scenario.name}: the time was over before all figures were written; the estimate is in {out / 'fitted.toml'} and "
        f"{out / 'parameters.csv'}. Give it more time, --max-seconds or fit.max_seconds."
    )
    charts, scene, rms = _runs_compared(fits)
    outcome = replace(outcome, reached={**outcome.reached, "rms_of_runs": rms})
    figures = write_figures(out, charts)
    files = ["summary.json", "parameters.csv", "fitted.toml", *figures, "report.html"]
    outcome = replace(outcome, seconds=time.monotonic() - outcome.started)
    summary = outcome.summary(files)
    write_text(out / "report.html", _report(outcome, estimate, charts, scene, summary))
    write_summary(out / "summary.json", summary)
    return outcome


def _runs_compared(fits: Any) -> tuple[list[Chart], Any, dict[str, dict[str, float]]]:
    """The charts of all runs of the fits, the first motion that can be drawn, and by run the RMS error of each column."""
    charts, scene, rms = [], None, {}
    for fit in reversed(fits):
        for index, run in enumerate(fit.problem.runs):
            motion, shown, errors = identify.compared(fit, index)
            charts += run_charts(fit, index, shown, errors)
            scene = scene or _scene(fit, index, motion)
            rms[run.name] = {
                name: float(np.sqrt(np.nanmean(error**2)))
                for name, error in errors.items()
                if np.isfinite(error).any()
            }
        charts += _correlation_charts(fit)
    return distinct(charts), scene, rms


def _correlation_charts(estimate: Any) -> list[Chart]:
    """The chart of the correlations, if at least two parameters have a standard error."""
    free = [not f and np.isfinite(e) for f, e in zip(estimate.frozen, estimate.errors, strict=True)]
    if sum(free) < 2:
        return []
    names = [name for name, f in zip(estimate.names, free, strict=True) if f]
    matrix = estimate.correlation[np.ix_(free, free)]
    figure = correlation_figure(matrix, names, title="Correlation of the estimates")
    return [Chart("correlation", figure, "Correlation of each pair of estimates")]


def run_charts(
    estimate: Any, index: int, shown: dict[str, Any], errors: dict[str, Any]
) -> list[Chart]:
    """Charts of one run: measured and fitted values of each quantity, and the residuals."""
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
    """A chart of one measurement in a run: measured values as dots, the values `shown` of the model as lines."""
    quantity = m.name.replace("_", " ").replace("-", " ")
    figure = fit_figure(
        run.ts,
        run.values[m.name],
        shown,
        m.columns,
        title=f"{run.name}: {quantity}, measured (dots) and model",
        ylabel=with_unit(quantity, m.unit if m.size == m.error_size else ""),
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
    left = {
        f"{in_unit(k, fit.problem.measurements)} ({fit.counts[k]} values{of})": v
        for fit, of in zip(fits_of(estimate), _stage_words(estimate), strict=True)
        for k, v in fit.rms.items()
    }
    remarks = {f"{i + 1}": text for i, text in enumerate(_remarks(estimate))}
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
            **({"Remarks": remarks} if remarks else {}),
            "RMS residuals": left,
            "Asked": dict(flattened(asked_in_tables(summary["asked"]))),
            "Made with": summary["versions"],
        },
        warning=warning,
        colophon=f"Made by jaxhamel {summary['versions']['jaxhamel']}.",
    ).html()


def in_unit(name: str, measurements: Any) -> str:
    """The name of an error with its unit, such as "heading / rad", for tables."""
    return with_unit(name, error_units(measurements)[name])


def _stage_words(estimate: Any) -> list[str]:
    """The name of each stage, to be appended to "12 values"; one empty text for a fit without stages."""
    staged = isinstance(estimate, identify.StagedEstimate)
    return [f", {name}" for name in estimate.estimates] if staged else [""]


def _remarks(estimate: Any) -> list[str]:
    return [text for fit in fits_of(estimate) for text in fit.remarks]


def _tiles(outcome: Outcome, estimate: Any) -> list[tuple[str, str]]:
    fits = fits_of(estimate)
    return [
        (str(sum(not f for fit in fits for f in fit.frozen)), "quantities sought"),
        (str(sum(sum(fit.counts.values()) for fit in fits)), "measured values"),
        (str(sum(len(fit.flat) for fit in fits)), "directions not determined"),
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
    fits = fits_of(estimate)
    runs = sum(len(fit.problem.runs) for fit in fits)
    values = sum(sum(fit.counts.values()) for fit in fits)
    head = f"Fitted to {counted(values, 'measured value')} of {counted(runs, 'run')}."
    return " ".join([head, *_remarks(estimate)[:2]])
