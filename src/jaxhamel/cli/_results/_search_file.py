"""search.npz: the point of a search by collocation, from which `--resume` goes on."""

import json
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel._files import written
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError

SEARCH = "search.npz"
EVERY = 2.0  # seconds between two writes
ASKED = "asked"
_BUDGET = ("max_seconds", "max_iterations", "tolerance")


class SearchFile:
    """The file of one search; it is written at most every `EVERY` seconds."""

    def __init__(self, out: Path, scenario: Scenario):
        self.path, self.asked = out / SEARCH, _asked(scenario)
        self.last = -np.inf

    def write(self, arrays: Mapping[str, np.ndarray], *, now: bool = False) -> None:
        """Writes the point, unless it was written a moment ago."""
        if not now and time.monotonic() - self.last < EVERY:
            return
        with written(self.path, binary=True) as file:
            np.savez(file, allow_pickle=False, **{ASKED: np.array(self.asked)}, **arrays)
        self.last = time.monotonic()

    def read(self) -> dict[str, np.ndarray]:
        """The point of an earlier search. **Raises:** `ScenarioError` if there is none, or one of another scenario."""
        if not self.path.is_file():
            raise ScenarioError(
                f"--resume: {self.path} does not exist; a search that was stopped leaves it. Start without --resume."
            )
        try:
            with np.load(self.path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            asked = str(arrays.pop(ASKED))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ScenarioError(
                f"--resume: {self.path} cannot be read ({error}). Start without --resume."
            ) from None
        if asked != self.asked:
            raise ScenarioError(f"--resume: {_difference(asked, self.asked)}")
        return arrays

    def remove(self) -> None:
        """Removes the file of a search that has ended well."""
        self.path.unlink(missing_ok=True)


def _asked(scenario: Scenario) -> str:
    """The scenario without the limits of the search, which may differ when it goes on."""
    tables = dict(scenario.tables)
    method = {k: v for k, v in tables.get("method", {}).items() if k not in _BUDGET}
    return json.dumps(tables | {"method": method}, sort_keys=True, default=str)


def _difference(before: str, now: str) -> str:
    """The first key that differs."""
    old, new = _flat(json.loads(before)), _flat(json.loads(now))
    key = next(k for k in sorted({*old, *new}) if old.get(k) != new.get(k))
    return (
        f"`{key}` is {new.get(key)!r}, and was {old.get(key)!r} in the search to go on with; give it the same value, or "
        "start without --resume."
    )


def _flat(value: Any, path: str = "") -> dict[str, Any]:
    """The entries of nested tables by dotted keys."""
    if not isinstance(value, Mapping):
        return {path: value}
    found: dict[str, Any] = {}
    for key, entry in value.items():
        found |= _flat(entry, f"{path}.{key}" if path else str(key))
    return found
