"""The path that a task asks a body to follow."""

from typing import Any

from jaxhamel.cli._objects._system import named
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.control import Circle, FigureEight, Line

PATHS = {
    "figure-eight": (FigureEight, ("width", "height")),
    "circle": (Circle, ("radius",)),
    "line": (Line, ("end",)),
}


def build_path(scenario: Scenario) -> Any:
    """The path of `[task]`, t -> `(2,)`; None without a task or for a task without a path."""
    task = scenario["task"]
    if task is None or task["path"] not in PATHS:
        return None
    make, sizes = PATHS[task["path"]]
    period = task["period"] or scenario["time"]["end"]
    with named("task"):
        return make(period=period, ramp=task["ramp"], **{key: task[key] for key in sizes})
