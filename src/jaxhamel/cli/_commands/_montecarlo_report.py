"""The report of `montecarlo`: headline numbers and charts."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from jaxhamel.cli._objects._ensemble_model import EnsembleModel
from jaxhamel.ensemble import Study
from jaxhamel.viz import Chart, fan_figure, growth_figure, histograms_figure, landing_figure
from jaxhamel.viz._motion._run import ShownMotion

SHOWN = 200  # number of trajectories drawn in the fan of paths

LABELS = {
    "end_x": "x at the end / m",
    "end_y": "y at the end / m",
    "min_normal_force": "smallest normal force / N",
    "max_friction": "friction coefficient needed in contact",
    "tracking_rms": "tracking error, RMS / m",
    "tracking_max": "tracking error, largest / m",
}


def tiles(statistics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The headline numbers of the report."""
    found = []
    if statistics.get("lift_off", {}).get("probability"):
        found.append(
            (f"{100 * statistics['lift_off']['probability']:.3g} %", "would leave the ground")
        )
    if "slip" in statistics:
        found.append((f"{100 * statistics['slip']['probability']:.3g} %", "would slip"))
    rms = statistics["quantities"].get("tracking_rms", {})
    if rms.get("n"):
        most = 1e3 * rms["quantiles"]["0.95"]["value"]
        found.append((f"{most:.3g} mm", "tracking error, 95 % below"))
    return found


def charts(study: Study, model: EnsembleModel, run: ShownMotion) -> list[Chart]:
    """Histograms of every quantity; for a ball also a fan of paths and ellipses around their end points."""
    finite = {name: x[np.isfinite(x)] for name, x in study.values.items()}
    shown = {LABELS.get(name, name): x for name, x in finite.items() if len(x)}
    found = []
    if "end_x" in finite and len(finite["end_x"]):
        ends = np.column_stack([finite["end_x"], finite["end_y"]])
        found += _ball_charts(study, model, run, ends)
    if shown:
        figure = histograms_figure(shown)
        found.append(Chart("histograms", figure, "Histogram of each quantity with its quantiles"))
    return found


def _ball_charts(
    study: Study, model: EnsembleModel, run: ShownMotion, ends: np.ndarray
) -> list[Chart]:
    paths = study.first[: min(SHOWN, study.trajectories)]
    nominal = np.asarray(run.q[1])
    fan = fan_figure(paths, nominal, title="Paths on the ground")
    landing = landing_figure(ends, nominal[-1])
    there = np.column_stack([np.interp(model.ts, run.ts, x) for x in nominal.T])
    growth = growth_figure(model.ts, np.linalg.norm(paths - there, axis=-1))
    return [
        Chart("fan", fan, "Paths of many trajectories and the nominal one"),
        Chart("growth", growth, "How far the trajectories are from the nominal one at each time"),
        Chart("landing", landing, "Where the trajectories end, with the ellipses of half and 95 %"),
    ]
