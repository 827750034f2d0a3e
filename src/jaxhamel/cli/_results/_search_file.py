"""The file search.npz with the latest point of a search of `control`, from which `--resume` continues."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel._files import written
from jaxhamel._saved_arrays import saved_arrays
from jaxhamel.cli._results._folder import SEARCH
from jaxhamel.cli._scenario._reading import is_file
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief

ASKED = "asked"  # the entry with the scenario, as JSON
_BUDGET = ("max_seconds", "max_iterations", "tolerance", "cost_tolerance", "goal", "updates")


class SearchFile:
    """The file search.npz in the folder `out`, for the search of a scenario."""

    def __init__(self, out: Path, scenario: Scenario):
        self.path, self.asked = out / SEARCH, _scenario_text(scenario)

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Writes the arrays of a point of the search, together with the scenario."""
        with written(self.path, binary=True) as file:
            np.savez(file, allow_pickle=False, **{ASKED: np.array(self.asked)}, **arrays)

    def read(self) -> dict[str, np.ndarray]:
        """The arrays of the point that an earlier search has written.

        **Raises:** `ScenarioError` if the file does not exist, cannot be read, or is of another scenario.
        """
        check_there(self.path)
        try:
            with saved_arrays(self.path) as file:
                difference = _difference(str(file.read(ASKED)), self.asked)
                names = [] if difference else [name for name in file.names if name != ASKED]
                found = {name: file.read(name) for name in names}
        except ValueError as error:
            raise ScenarioError(
                f"--resume: {self.path} cannot be read ({error}). Start without --resume."
            ) from None
        if difference:
            raise ScenarioError(f"--resume: {difference}")
        return found

    def remove(self) -> None:
        """Removes the file, once the search has succeeded."""
        self.path.unlink(missing_ok=True)


def check_there(path: Path) -> None:
    """Checks that the file of a stopped search exists. **Raises:** `ScenarioError`."""
    if not is_file(path):
        raise ScenarioError(
            f"--resume: {path} does not exist; only a search that was stopped leaves it. Start without --resume."
        )


def _scenario_text(scenario: Scenario) -> str:
    """The scenario as JSON, without the keys in `_BUDGET`, which a resumed search may change."""
    tables = dict(scenario.tables)
    limited = {
        name: _without_budget(tables[name])
        for name in ("task", "method", "policy")
        if tables.get(name)
    }
    return json.dumps(tables | limited, sort_keys=True, default=str)


def _without_budget(table: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in table.items() if k not in _BUDGET}


def _difference(before: str, now: str) -> str:
    """A sentence on the first key in which two scenarios differ, given as JSON; an empty text if they are equal."""
    tables = json.loads(before)
    if not isinstance(tables, Mapping):
        raise ValueError("it has no scenario")
    old, new = _dotted_entries(tables), _dotted_entries(json.loads(now))
    key = next((k for k in sorted({*old, *new}) if old.get(k) != new.get(k)), None)
    if key is None:
        return ""
    return (
        f"`{brief(key, quoted=False)}` is {brief(new.get(key))}, and was {brief(old.get(key))} in the stopped search; "
        "give it the same value, or start without --resume."
    )


def _dotted_entries(value: Any, path: str = "") -> dict[str, Any]:
    """The entries of nested tables by dotted keys."""
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, entry in value.items():
        found |= _dotted_entries(entry, f"{path}.{key}" if path else str(key))
    return found
