"""The presentation of a motion of any system."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxhamel.viz._charts import Chart
from jaxhamel.viz._motion._charts_of import charts_of
from jaxhamel.viz._motion._numbers import lead_of, numbers_of, tiles_of
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import scene_of
from jaxhamel.viz._scene import Scene


@dataclass(frozen=True, eq=False)
class View:
    """The presentation of a run: `lead` is the sentence under the heading, `tiles` has the most important numbers."""

    columns: Mapping[str, np.ndarray]
    scene: Scene | None
    charts: list[Chart]
    reached: Mapping[str, Any]
    tiles: list[tuple[str, str]]
    lead: str


def view(run: ShownMotion) -> View:
    """The columns, scene, plots and numbers of a motion, from the description in the system's class."""
    return View(
        run.columns, scene_of(run), charts_of(run), numbers_of(run), tiles_of(run), lead_of(run)
    )


def prepare(run: ShownMotion) -> None:
    """Computes the view of a run with as many times, so that its programs are compiled already."""
    _ = run.along, run.asked, run.rails
