"""Writes solution.toml, the result of `control` as a scenario for `simulate`, and saves the latest point of a running
search, so that it is on disk if the time limit, Ctrl-C or a signal ends the command.
"""

import json
import math
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel._files import write_text
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.control import FourierSeries, Limited, Spline


def write_solution(path: Path, scenario: Scenario, control: Any) -> None:
    """Writes the scenario with the curve `control` as its control; floats have enough digits to be read back exactly."""
    tables = dict(scenario.tables)
    tables["control"] = _control(control)
    tables["solver"] = {**tables["solver"], "method": "dopri8", "dt": 0.0}
    # These are the tolerances with which the command itself simulates its result.
    tables["solver"] |= {"rtol": 1e-10, "atol": 1e-12}
    write_tables(path, tables)


def write_tables(path: Path, tables: Mapping[str, Any]) -> None:
    """Writes the tables of a scenario as TOML."""
    write_text(path, "\n".join(_lines(tables)) + "\n")


def _control(curve: Any) -> dict[str, Any]:
    bounds = {}
    if isinstance(curve, Limited):
        bounds = {"lower": _list(curve.lower), "upper": _list(curve.upper)}
        curve = curve.curve
    if isinstance(curve, FourierSeries):
        waves = {key: _list(getattr(curve, key)) for key in ("mean", "cosine", "sine")}
        return {"curve": "fourier", "period": float(curve.period), **waves, **bounds}
    assert isinstance(curve, Spline)  # the only other curve that `control` uses
    times = {"start": float(curve.t0), "end": float(curve.t1), "degree": curve.degree}
    return {"curve": "spline", "coefficients": _list(curve.coefficients), **times, **bounds}


def _list(array: Any) -> list[Any]:
    return np.asarray(array, dtype=float).tolist()


def _lines(table: Mapping[str, Any], path: str = ""):
    """A table as TOML: first its values, then its sub-tables, then its arrays of tables."""
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    arrays = {key: value for key, value in table.items() if _is_array_of_tables(value)}
    for key, value in table.items():
        if key not in tables and key not in arrays and value is not None:
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in tables.items():
        yield from ("", f"[{path}{_toml_key(key)}]")
        yield from _lines(value, f"{path}{_toml_key(key)}.")
    for key, entries in arrays.items():
        for entry in entries:
            yield from ("", f"[[{path}{_toml_key(key)}]]")
            yield from _lines(entry, f"{path}{_toml_key(key)}.")


def _toml_key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else _toml_value(key)


def _is_array_of_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _toml_value(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + "".join(f"  {_toml_value(row)},\n" for row in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # JSON and TOML write strings, numbers and lists alike
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


SECONDS_BETWEEN_WRITES = 2.0


class SoFar:
    """Writes the latest point of a search: at the first report, and then at most every `SECONDS_BETWEEN_WRITES` seconds.

    Once the first point is on disk, the command may be ended at any time, also while a program compiles.

    **Arguments:** `write`: the function that writes a point; `words`: the message if the time limit ends the command.
    """

    def __init__(self, write: Callable[[Any], None], words: str):
        self.write, self.words = write, words
        self.last = float("-inf")

    def reached(self, point: Any) -> None:
        """Takes the latest point of the search, and writes it if the last write was long enough ago."""
        guard.keep()
        if time.monotonic() - self.last >= SECONDS_BETWEEN_WRITES:
            self.write(point)
            self.last = time.monotonic()
            guard.on_disk(self.words)
