"""Finds the results of `identify` for `predict`, in a folder or as the file itself."""

from pathlib import Path

from jaxhamel.cli._scenario._reading import is_file
from jaxhamel.cli._scenario._validate import ScenarioError


def fitted_file(source: str) -> str:
    """The scenario with fitted values that `identify` wrote.

    **Raises:** `ScenarioError` if there is no such file.
    """
    for path in (Path(source) / "fitted.toml", Path(source)):
        if is_file(path):
            return str(path)
    raise ScenarioError(
        "there is no fitted.toml; give the folder that `jaxhamel identify` wrote to, or that file."
    )
