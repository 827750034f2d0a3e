"""The command `predict`: predicts a run that was not used in the fit, from its first seconds."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel import identify
from jaxhamel._files import write_text
from jaxhamel._words import counted, slug
from jaxhamel.cli._commands._identify_report import in_unit, measured_chart
from jaxhamel.cli._commands._simulate import status
from jaxhamel.cli._objects._build import build_control
from jaxhamel.cli._objects._identification import (
    build_identified_system,
    build_measurements,
    read_run,
)
from jaxhamel.cli._objects._prepared import run_of
from jaxhamel.cli._objects._priors import own_quantities, prediction_priors
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_figures, write_summary
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._sizes import check_fit_step
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.identify._noise import error_units
from jaxhamel.viz import Chart, Report, Scene, residuals_figure
from jaxhamel.viz._charts import distinct
from jaxhamel.viz._motion._scene_of import scene_of


def run_predict(
    scenario: Scenario, run: Path, out: Path, terminal: Terminal, started: float, seconds: float
) -> Outcome:
    """Predicts a measured run from its first `seconds`, and writes the files of the command."""
    system = build_identified_system(scenario)
    control, measurements = build_control(scenario, system), _measurements(scenario, system)
    data = read_run(scenario, run, measurements, control)
    check_fit_step(scenario["fit"]["dt"], float(data.ts[-1] - data.ts[0]))
    folder(out)
    terminal.say(
        f"{run.name}: the state at its start from the first {seconds:g} s, then by simulation"
    )
    with named(None):
        found = identify.predict(
            system,
            measurements,
            data,
            seconds,
            dt=scenario["fit"]["dt"] or None,
            memory=scenario["prediction"]["memory"] or None,
            priors=prediction_priors(scenario),
            clock=scenario["data"]["clock"],
        )
    ended = _ended(found)
    reached = {"rms": found.rms, "seconds_used": seconds, "time": float(found.trajectory.t_end)}
    reached["own_quantities"] = own_quantities(scenario, found.initial)
    outcome = Outcome("predict", scenario, *ended, started, reached=reached)
    outcome = write_prediction(out, outcome, found, measurements)
    units = error_units(measurements)
    errors = ", ".join(f"{name} {x:.4g} {units[name]}".rstrip() for name, x in found.rms.items())
    terminal.say(f"RMS after the first {seconds:g} s: {errors}")
    return outcome


def _measurements(scenario: Scenario, system: Any) -> tuple[Any, ...]:
    """The measurements, with the noise of `prediction.noise` if it is given."""
    measurements, noise = build_measurements(scenario, system), scenario["prediction"]["noise"]
    if not noise:
        return measurements
    if len(noise) != len(measurements):
        raise ScenarioError(
            f"`prediction.noise` has {counted(len(noise), 'number')}; it must have one for each of the "
            f"{counted(len(measurements), 'measurement')}."
        )
    each = [np.full(m.error_size, std) for m, std in zip(measurements, noise, strict=True)]
    return identify.with_noise(measurements, np.concatenate(each))


def _ended(found: identify.Prediction) -> tuple[str, str]:
    """The status (`success` or `failed`), and a sentence with the reason.

    A prediction has failed if the initial state could not be estimated or the simulation broke down.
    """
    if found.initial.converged:
        return status(found.trajectory)
    return "failed", (
        f"the state at the start was not found: {found.initial.status}. "
        f"Give more than {found.seconds:g} s with --seconds."
    )


def write_prediction(out: Path, outcome: Outcome, found, measurements) -> Outcome:
    """Writes figures and report, then the summary, which has the key `rms` at its top level."""
    charts = distinct([*_measured_charts(found, measurements), _error_chart(found)])
    figures = write_figures(out, charts)
    outcome = replace(outcome, seconds=time.monotonic() - outcome.started)
    files = ["summary.json", *figures, "report.html"]
    summary, units = {"rms": found.rms, **outcome.summary(files)}, error_units(measurements)
    report = Report(
        title=f"{outcome.scenario.title}: {found.run.name} predicted",
        lead=f"The initial state was estimated from the first {found.seconds:g} s; the rest of the run was predicted.",
        scene=_scene(found),
        charts=charts,
        tiles=[
            (f"{x:.3g} {units[name]}".rstrip(), f"RMS of {name}") for name, x in found.rms.items()
        ],
        tables={
            "RMS after the first seconds": {
                in_unit(name, measurements): x for name, x in found.rms.items()
            },
            "Made with": summary["versions"],
        },
        warning="" if outcome.status == "success" else outcome.message,
        colophon=f"Made by jaxhamel {summary['versions']['jaxhamel']}.",
    )
    write_text(out / "report.html", report.html())
    write_summary(out / "summary.json", summary)
    return outcome


def _measured_charts(found, measurements) -> list[Chart]:
    """A chart of the measured and predicted values of each quantity; the fitted initial part is marked."""
    run, used = found.run, found.run.ts[0] + found.seconds
    there = [m for m in measurements if m.name in run.values]
    return [measured_chart(run, m, found.shown[m.name], slug(m.name), start=used) for m in there]


def _error_chart(found) -> Chart:
    errors = {name: e for name, e in found.errors.items() if np.isfinite(e).any()}
    scale = {name: max(found.rms[name], 1e-12) for name in errors}
    title = f"{found.run.name}: errors in units of their RMS"
    figure = residuals_figure(found.run.ts, errors, scale, title=title)
    return Chart("errors", figure, "Error of each predicted signal over time")


def _scene(found) -> Scene | None:
    """The 3-D scene with the moving bodies."""
    moving = run_of(found.trajectory, found.trajectory.system, found.run.control)
    return scene_of(moving)
