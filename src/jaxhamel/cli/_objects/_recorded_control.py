"""The control of `[control]` with `curve = "recorded"`: columns of a CSV file, or of the file of each run."""

from pathlib import Path
from typing import Any

from jaxhamel import identify
from jaxhamel._files import real
from jaxhamel._words import counted
from jaxhamel.cli._objects._system import named
from jaxhamel.cli._scenario._reading import check_data_file
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError, brief
from jaxhamel.identify._data._csv import read_inputs


def recorded_control(scenario: Scenario, n_controls: int | None) -> Any:
    """The record of the scenario's file or, for measured runs, the names of the columns in each run's file.

    **Raises:** `ScenarioError` that names the key.
    """
    table = scenario["control"]
    columns = table["columns"]
    if n_controls is not None and len(columns) != n_controls:
        raise ScenarioError(
            f"`control.columns` has {counted(len(columns), 'column')}; it must have {n_controls}, one for each control."
        )
    with named("control"):
        factor = table["factor"] or 1.0
        inputs = identify.ControlColumns(
            columns, table["between"], factor, table["delay"], table["knots"]
        )
    if "measurements" in scenario.tables:
        return _of_runs(scenario, inputs)
    path = _file_of(scenario)
    check_data_file(path)
    try:
        return read_inputs(path, inputs, table["time"], table["time_unit"])
    except identify.DataError as error:
        raise ScenarioError(str(error)) from None


def _of_runs(scenario: Scenario, inputs: identify.ControlColumns) -> identify.ControlColumns:
    if scenario["control"]["file"]:
        raise ScenarioError(
            "`control.file` is for `simulate` and `montecarlo`; this command reads the columns in the file of each run. "
            "Leave it out."
        )
    if scenario["control"]["between"] == "smooth" and scenario["data"]["clock"] == "steady":
        raise ScenarioError(
            '`data.clock` = "steady" moves the rows after `control.between` = "smooth" has made a curve of them. Take the '
            'stamps, or "linear".'
        )
    return inputs


def _file_of(scenario: Scenario) -> Path:
    """The path of `control.file`, which is in the scenario's folder or below."""
    name, folder = scenario["control"]["file"], scenario.folder
    if not name:
        raise ScenarioError(
            "`control.file` is missing; it must be a CSV file with the columns of `control.columns`, in the folder of the "
            "scenario."
        )
    folder = Path() if folder is None else folder
    path = folder / name
    if not real(path).is_relative_to(real(folder)):
        raise ScenarioError(
            f"`control.file` is {brief(name)}; it must be in the folder of the scenario or below. Copy the file there."
        )
    return path


def check_not_of_runs(control: Any) -> None:
    """Checks that a control is known without measured runs."""
    if isinstance(control, identify.ControlColumns):
        raise ScenarioError(
            '`control.curve` = "recorded" takes the control from the measured runs; give their folder by --data. Synthetic '
            "data need another curve."
        )
