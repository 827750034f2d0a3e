"""Each named system on the command line, by the description in its class; no line of cli/ names a system."""

import csv
import json

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel.cli._app import app
from jaxhamel.cli._results._solution import write_tables
from jaxhamel.cli._scenario._system_description import as_written, named_systems
from jaxhamel.mechanics._description._fields import examples_of

SYSTEMS = named_systems()


def scenario(kind):
    """A scenario of 0.1 s with the examples of the system's parameters and its default start."""
    values = {name: as_written(value) for name, value in examples_of(SYSTEMS[kind]).items()}
    return {
        "system": {"kind": kind, **values},
        "time": {"end": 0.1, "samples": 6},
        "solver": {"method": "heun", "dt": 0.01},
    }


def written(path, tables):
    write_tables(path, tables)
    return str(path)


def jaxhamel(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_all_systems_are_there():
    assert {"rattleback", "whipple-bicycle", "rolling-ball", "satellite-mixed"} <= set(SYSTEMS)
    assert len(SYSTEMS) >= 25


@pytest.mark.parametrize("kind", SYSTEMS)
def test_simulation_from_the_examples(kind, tmp_path):
    out = tmp_path / "out"
    source = written(tmp_path / "mine.toml", scenario(kind))
    result = jaxhamel("simulate", source, "--out", out, "--quiet")
    assert result.exit_code == 0, result.stderr
    said = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    files = {path.name for path in out.iterdir()}
    assert {"summary.json", "trajectory.csv", "report.html"} <= files == set(said["files"])
    assert any(name.endswith(".png") for name in files)
    assert said["asked"]["system"]["kind"] == kind
    with open(out / "trajectory.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    table = np.array(rows, dtype=float)
    assert len(set(header)) == len(header) == table.shape[1]
    np.testing.assert_allclose(table[:, 0], np.linspace(0.0, 0.1, 6), rtol=1e-15)
    assert np.isfinite(table).all()
    assert '"things":' in (out / "report.html").read_text(
        encoding="utf-8"
    )  # the page draws something
