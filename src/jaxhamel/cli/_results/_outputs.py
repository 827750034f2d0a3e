"""The files a command leaves in its folder: summary.json, trajectory.csv, figures, report.html."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel.cli._results._motion import Run
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._views import View, view
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.viz import Chart, Report, save

UNITS = {
    "distance": "m",
    "displacement": "m",
    "tracking_rms": "m",
    "tracking_max": "m",
    "path_size": "m",
    "path_length": "m",
    "min_normal_force": "N",
    "final_omega": "rad/s",
    "time": "s",
    "search_seconds": "s",
}


def write_all(out: Path, outcome: Outcome, run: Run, charts: Sequence[Chart] = ()) -> Outcome:
    """Every file of a command; the outcome with all that was reached. `charts` come before those of the motion.

    The summary is written last: a folder with a summary.json has all the others.
    """
    shown = view(outcome.scenario.kind, run)
    shown = replace(shown, charts=[*charts, *shown.charts])
    outcome = replace(outcome, reached={**shown.reached, **outcome.reached})
    write_trajectory(out / "trajectory.csv", run.ts, shown.columns)
    figures = write_figures(out, shown)
    outcome = replace(outcome, seconds=time.monotonic() - outcome.started)
    summary = outcome.summary(["summary.json", "trajectory.csv", *figures, "report.html"])
    write_report(out / "report.html", shown, outcome, summary)
    write_summary(out / "summary.json", summary)
    return outcome


def folder(out: Path, *, of_ensemble: bool = False) -> Path:
    """The folder to write to, made when absent. Files of other names in it are left alone.

    **Raises:** `ScenarioError` where it cannot be, or where the files would take the place of an ensemble's, which took
    longer than they; an ensemble's take no others' place.
    """
    ensemble, result = (out / "values.zarr").exists(), (out / "summary.json").exists()
    if (result and not ensemble) if of_ensemble else ensemble:
        there = "another command's result" if of_ensemble else "an ensemble (values.zarr)"
        raise ScenarioError(
            f"--out {out}: the folder holds {there}; nothing was changed. Give another one."
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError(
            f"--out {out}: the folder cannot be made ({error.strerror}). Give another one."
        ) from None
    return out


def write_trajectory(path: Path, ts: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """One row for each time, a header, and 17 digits: reading it gives the same numbers back."""
    table = np.column_stack([ts, *columns.values()])
    header = ",".join(["t", *columns])
    np.savetxt(path, table, delimiter=",", header=header, comments="", fmt="%.17g")


def write_figures(out: Path, view: View) -> list[str]:
    """Every chart as `NAME.png`; the names written."""
    for chart in view.charts:
        save(chart.figure, out / f"{chart.name}.png")
    return [f"{chart.name}.png" for chart in view.charts]


def write_report(path: Path, shown: View, outcome: Outcome, summary: Mapping[str, Any]) -> None:
    """The page, with the summary as its tables."""
    used = summary["versions"]
    report = Report(
        title=outcome.scenario.title,
        lead=outcome.lead or shown.lead,
        scene=shown.scene,
        charts=shown.charts,
        tiles=[*shown.tiles, *outcome.tiles, (f"{outcome.seconds:.3g} s", "computed in")],
        tables={
            "Reached": _readable(summary["reached"]),
            "Asked": dict(_flat(_asked_in_tables(summary["asked"]))),
            "Made with": used,
        },
        warning="" if outcome.status == "success" else _sentence(outcome.message),
        colophon=f"Made by jaxhamel {used['jaxhamel']}.",
    )
    path.write_text(report.html(), encoding="utf-8")


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """The summary as JSON; numbers that are not finite become null."""
    text = json.dumps(_plain(summary), indent=2, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value


def _readable(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """With words and units as keys."""
    units = {key: f" / {UNITS[key]}" if key in UNITS else "" for key in numbers}
    return {key.replace("_", " ") + units[key]: value for key, value in numbers.items()}


def _asked_in_tables(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Without title and description, which the page shows at its head."""
    return {key: value for key, value in asked.items() if not isinstance(value, str)}


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:]


def _flat(tables: Mapping[str, Any], path: str = ""):
    """Nested tables as dotted keys; what is absent or empty is left out."""
    for key, value in tables.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from _flat(value, here)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for i, entry in enumerate(value):
                yield from _flat(entry, f"{here}.{i}")
        elif value not in (None, "", []):
            yield here, _brief(value)


def _brief(value: Any) -> Any:
    """Long lists are in summary.json; the page shows how long they are."""
    size = np.size(value) if isinstance(value, list) else 1
    return f"{size} numbers" if size > 12 else value
