"""Writes the files of a command: summary.json, trajectory.csv, figures, report.html."""

import csv
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel._files import sync, write_text, written
from jaxhamel._words import cell
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._results._folder import SEARCH, over_at_first
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._search_file import SearchFile
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.viz import Chart, Report, save
from jaxhamel.viz._charts import distinct
from jaxhamel.viz._motion._page import View, view
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import Companion, with_companion

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
    "end_time": "s",
}
LOOP_DISTANCES = ("tracking_rms", "tracking_rms_95", "tracking_rms_max", "tolerance", "size")


def write_all(
    out: Path,
    outcome: Outcome,
    run: ShownMotion,
    charts: Sequence[Chart] = (),
    companion: Companion | None = None,
) -> Outcome:
    """Writes every file of a command and returns the completed outcome.

    `charts` are placed before those of the motion; `companion` is a second motion in the animation.

    The summary is written last: a folder with a summary.json has all other files, too.
    """
    # A motion that broke down has NaN and infinite values, which are written to the files.
    with np.errstate(all="ignore"):
        shown = view(run)
        if companion is not None and shown.scene is not None:
            things = with_companion(list(shown.scene.things), run, companion)
            shown = replace(shown, scene=replace(shown.scene, things=things))
    shown = replace(shown, charts=distinct([*charts, *shown.charts]))
    outcome = replace(outcome, reached={**shown.reached, **outcome.reached})
    write_trajectory(out / "trajectory.csv", run.ts, shown.columns)
    figures = write_figures(out, shown.charts)
    outcome = replace(outcome, seconds=time.monotonic() - outcome.started)
    summary = outcome.summary(["summary.json", "trajectory.csv", *figures, "report.html"])
    write_report(out / "report.html", shown, outcome, summary)
    write_summary(out / "summary.json", summary)
    return outcome


def write_trajectory(path: Path, ts: np.ndarray, columns: Mapping[str, np.ndarray]) -> None:
    """Writes one row for each time, with a header; numbers have 17 digits, so that they read back exactly."""
    write_columns(path, {"t": ts, **columns})


def write_columns(path: Path, columns: Mapping[str, np.ndarray]) -> None:
    """Writes a CSV file with a header and 17 digits."""
    with written(path) as file:
        csv.writer(file, lineterminator="\n").writerow(map(cell, columns))
        np.savetxt(file, np.column_stack(list(columns.values())), delimiter=",", fmt="%.17g")


def write_figures(out: Path, charts: Sequence[Chart]) -> list[str]:
    """Writes every chart as `KEY.png` and returns the file names."""
    names = [f"{chart.key}.png" for chart in charts]
    for chart, name in zip(charts, names, strict=True):
        with written(out / name, binary=True) as file:
            save(chart.figure, file)
    return names


def write_report(path: Path, shown: View, outcome: Outcome, summary: Mapping[str, Any]) -> None:
    """Writes the page report.html, with its tables made from the entries of the summary."""
    used = summary["versions"]
    report = Report(
        title=outcome.scenario.title,
        lead=outcome.lead or shown.lead,
        scene=shown.scene,
        charts=shown.charts,
        tiles=[*shown.tiles, *outcome.tiles, (f"{outcome.seconds:.3g} s", "computed in")],
        tables={
            **({"Certificate": outcome.proof} if outcome.proof else {}),
            "Reached": _readable(summary["reached"]),
            **_closed_loop(summary),
            "Asked": dict(flattened(asked_in_tables(summary["asked"]))),
            "Made with": used,
        },
        warning="" if outcome.status == "success" else _sentence(outcome.message),
        colophon=f"Made by jaxhamel {used['jaxhamel']}.",
    )
    write_text(path, report.html())


def _closed_loop(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The table of the report with the numbers of a closed loop, under its heading; empty without a closed loop."""
    if "closed_loop" not in summary:
        return {}
    numbers = {k: x for k, x in summary["closed_loop"].items() if not isinstance(x, Mapping)}
    unit, of_commands = numbers.pop("unit"), numbers.pop("unit_of_commands")
    units = {**UNITS, **dict.fromkeys(LOOP_DISTANCES, unit), "largest_command": of_commands}
    labelled = {key: units.get(key) for key in numbers}
    return {"In closed loop": _readable(numbers, labelled)}


def write_summary(path: Path, summary: Mapping[str, Any]) -> None:
    """Writes the summary as JSON; numbers that are not finite become null."""
    text = json.dumps(_plain(summary), indent=2, ensure_ascii=False, allow_nan=False)
    write_text(path, text + "\n")
    sync(path.parent)


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


def _readable(
    numbers: Mapping[str, Any], units: Mapping[str, str | None] = UNITS
) -> dict[str, Any]:
    """The numbers by readable keys: "tracking_rms" becomes "tracking rms / m"."""
    label = {key: f" / {unit}" if (unit := units.get(key)) else "" for key in numbers}
    return {key.replace("_", " ") + label[key]: value for key, value in numbers.items()}


def asked_in_tables(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of the scenario; its title and description are left out, since the page shows them at its top."""
    return {key: value for key, value in asked.items() if not isinstance(value, str)}


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:]


def flattened(tables: Mapping[str, Any], path: str = ""):
    """Pairs (dotted key, value) of nested tables; absent and empty values are left out."""
    for key, value in tables.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, Mapping):
            yield from flattened(value, here)
        elif isinstance(value, list) and value and isinstance(value[0], Mapping):
            for i, entry in enumerate(value):
                yield from flattened(entry, f"{here}.{i}")
        elif value not in (None, "", []):
            yield here, _without_long_lists(value)


def _without_long_lists(value: Any) -> Any:
    """A value as text; a long list is replaced by its length (summary.json has all of it)."""
    size = _count(value)
    return f"{size} numbers" if size > 12 else value


def _count(value: Any) -> int:
    """Number of entries in nested lists, which may have different lengths."""
    return sum(map(_count, value)) if isinstance(value, list) else 1


def point_stands(
    scenario: Scenario, file: SearchFile, budget: float, started: float, top: Mapping[str, Any]
) -> None:
    """Notes that the point of the search before is on disk, and writes a summary of a search without an iteration.

    **Arguments:** `budget`: the time limit of the command [s]; `top`: further entries of the summary.
    """
    guard.on_disk(f"{scenario.name}: {over_at_first(budget, file.path)}")
    words = (
        f"the command was ended before the first iteration of the resumed search; the point of the search before is still "
        f"in {file.path}: go on with --resume"
    )
    reached = {"iterations": 0, "converged": False}
    seconds = time.monotonic() - started
    outcome = Outcome(
        "control", scenario, "failed", words, started, seconds, reached, files=(SEARCH,), top=top
    )
    write_summary(file.path.parent / "summary.json", outcome.summary(["summary.json"]))
