"""A motion of any system made presentable."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxhamel.viz._charts import Chart
from jaxhamel.viz._motion._charts_of import charts_of
from jaxhamel.viz._motion._numbers import lead_of, numbers_of, tiles_of
from jaxhamel.viz._motion._run import Run
from jaxhamel.viz._motion._scene_of import scene_of
from jaxhamel.viz._scene import Scene


@dataclass(frozen=True, eq=False)
class View:
    """A run made presentable: `lead` is the sentence under the heading, `tiles` what matters."""

    columns: Mapping[str, np.ndarray]
    scene: Scene | None
    charts: list[Chart]
    reached: Mapping[str, Any]
    tiles: list[tuple[str, str]]
    lead: str


def view(run: Run) -> View:
    """The columns, scene, plots and numbers of a motion, from what the system's class says of itself."""
    return View(
        run.columns, scene_of(run), charts_of(run), numbers_of(run), tiles_of(run), lead_of(run)
    )


def prepare(run: Run) -> None:
    """Computes what the view of such a run does, of as many times; what is compiled for it is known from then on."""
    _ = run.along, run.asked, run.rails
