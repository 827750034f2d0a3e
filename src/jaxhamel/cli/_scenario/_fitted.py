"""FITTED: what `identify` left, as `predict` takes it, the folder or the file itself."""

from pathlib import Path

from jaxhamel.cli._scenario._reading import is_file
from jaxhamel.cli._scenario._validate import ScenarioError

ROBOBALL, FITTED_ROBOT = "roboball", "fitted.json"


def fitted_file(source: str) -> str:
    """The scenario that `identify` left.

    **Raises:** `ScenarioError` where there is none.
    """
    for path in (Path(source) / "fitted.toml", Path(source)):
        if is_file(path):
            return str(path)
    raise ScenarioError(
        "there is no fitted.toml; give the folder that `jaxhamel identify` wrote to, or that file."
    )


def fitted_roboball(source: str) -> Path | None:
    """The file of fitted values that `identify roboball` wrote, or None."""
    for path in (Path(source) / FITTED_ROBOT, Path(source)):
        if path.name == FITTED_ROBOT and is_file(path):
            return path
    return None
