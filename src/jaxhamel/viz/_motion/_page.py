"""The presentation of a motion, and the page that `jaxhamel.report` writes of a trajectory."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._values import path_of
from jaxhamel._files import write_text
from jaxhamel._words import counted
from jaxhamel.mechanics import parameters_of
from jaxhamel.simulate import Trajectory
from jaxhamel.simulate._results import in_words
from jaxhamel.viz._charts import Chart, distinct
from jaxhamel.viz._motion._charts_of import charts_of
from jaxhamel.viz._motion._numbers import lead_of, numbers_of, tiles_of
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import scene_of
from jaxhamel.viz._report import Report
from jaxhamel.viz._scene import Scene


@dataclass(frozen=True, eq=False)
class View:
    """The presentation of a motion in files and on the page.

    - `columns`: the columns of trajectory.csv by name.
    - `scene`: the 3-D scene, or None; `charts`: the plots.
    - `reached`: the numbers for summary.json.
    - `tiles`: the most important numbers as pairs of texts (value, meaning).
    - `lead`: the sentence under the heading of the page.
    """

    columns: Mapping[str, np.ndarray]
    scene: Scene | None
    charts: list[Chart]
    reached: Mapping[str, Any]
    tiles: list[tuple[str, str]]
    lead: str


def view(run: ShownMotion) -> View:
    """The presentation of a motion, as the system's class describes it."""
    return View(
        run.columns, scene_of(run), charts_of(run), numbers_of(run), tiles_of(run), lead_of(run)
    )


def prepare(run: ShownMotion) -> None:
    """Computes the quantities along a motion, so that their programs are compiled for other motions with as many times."""
    _ = run.along, run.reference, run.rails


SHOWN_NUMBERS = 12  # the largest number of entries of a parameter that are shown


def write_page(page: Report, out: Path) -> Path:
    """Writes a page to the file `out` if this ends in .html, else to report.html in the folder `out`; returns its path."""
    path = out if out.suffix == ".html" else out / "report.html"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page.html())
    return path


def page_of_motion(trajectory: Trajectory, title: str) -> Report:
    """The content of the page of a result of `jaxhamel.simulate`."""
    check_trajectory(trajectory)
    run = ShownMotion.of(trajectory)
    return page_of(trajectory, view(run), title or type(run.system).__name__)


def page_of(trajectory: Trajectory, shown: View, title: str) -> Report:
    """The content of the page of a trajectory with the presentation `shown`."""
    ending = in_words(trajectory.result, trajectory.t_end)
    steps = int(trajectory.stats["num_accepted_steps"])
    tables = {"Reached": {k.replace("_", " "): v for k, v in shown.reached.items()}}
    return Report(
        title=title,
        lead=shown.lead,
        scene=shown.scene,
        charts=distinct(shown.charts),
        tiles=[*shown.tiles, (f"{steps}", "steps")],
        tables={**tables, "Parameters": parameters(trajectory.system)},
        warning="" if bool(trajectory.succeeded) else f"The simulation {ending}",
    )


def parameters(system: Any) -> dict[str, object]:
    """The values of a system's parameters by name, inside objects by path, and unit; in place of a long array stands its
    shape.
    """
    found: dict[str, object] = {}
    for p in parameters_of(type(system)):
        unit = f" / {p.notes.unit}" if p.notes.unit else ""
        for keys, value in tree_flatten_with_path(getattr(system, p.name, None))[0]:
            if eqx.is_array_like(value):
                name = ".".join(filter(None, (p.name, path_of(keys))))
                found[name.replace("_", " ") + unit] = _shown_value(np.asarray(value))
    return found


def _shown_value(value: np.ndarray) -> object:
    if value.size > SHOWN_NUMBERS:
        return f"{value.size} numbers, shape {value.shape}"
    return value.tolist()


def check_trajectory(trajectory: Any) -> None:
    """Checks that the argument is a single trajectory with concrete values."""
    if not isinstance(trajectory, Trajectory):
        raise TypeError(
            f"`trajectory` is of type {type(trajectory).__name__}; it must be a jaxhamel.Trajectory, the result of "
            "jaxhamel.simulate, or a jaxhamel.control.Result, the result of jaxhamel.control.solve."
        )
    batch = np.shape(trajectory.t_end)
    if batch:
        raise ValueError(
            f"`trajectory` is a batch of {counted(int(np.prod(batch)), 'trajectory')}, shape {batch}; a page shows one. "
            "Give one of them, for example jax.tree.map(lambda x: x[0], trajectory)."
        )
