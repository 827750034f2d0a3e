"""`jaxhamel bench`: its table, its JSON, and the measurements on small runs."""

import json
import sys

import pytest

from jaxhamel.cli._commands import _bench
from jaxhamel.cli._scenario._validate import ScenarioError
from tests.cli.test_simulate import jaxhamel


def two():
    yield _bench.Figure("seconds", "a run", 0.01234, "s")
    yield _bench.Figure("ratio", "one over the other", 2.0, "")


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(_bench, "MEASUREMENTS", {"two things": two})


def test_table_and_json(short):
    table = jaxhamel("bench")
    assert table.exit_code == 0, table.stderr
    assert "| a run | 0.0123 s |" in table.stdout
    assert "| cores |" in table.stdout
    assert "measuring two things …" in table.stderr
    lines = table.stdout.splitlines()
    assert all(line.count("|") == 3 for line in lines if line)
    found = json.loads(jaxhamel("bench", "--json", "--quiet").stdout)
    assert found["seconds"] == 0.01234
    assert "jax " in found["machine"]["versions"]


def test_measurements_measure(monkeypatch):
    """With eight lanes and few steps each figure exists and is positive, and the ratio is that of its figures."""
    monkeypatch.setattr(_bench, "BATCH", 8)
    monkeypatch.setattr(_bench, "STEPS", 10)
    monkeypatch.setattr(_bench, "REPEATS", 1)
    figures = [*_bench.right_hand_side(), *_bench.ensembles()]
    keys = {figure.key: figure.value for figure in figures}
    assert {"rhs_ratio", "steps_per_second_float64", "steps_per_second_float32"} <= set(keys)
    assert all(value > 0 for value in keys.values())
    assert keys["rhs_ratio"] == keys["rhs_autodiff"] / keys["rhs_closed_form"]


def test_jax_that_cannot_be_started_is_one_line(monkeypatch):
    def start():
        raise ScenarioError("JAX cannot be started: no.")

    monkeypatch.setattr("jaxhamel.cli._app.start_jax", start)
    found = jaxhamel("bench")
    assert (found.exit_code, found.stderr) == (2, "jaxhamel: bench: JAX cannot be started: no.\n")


def test_a_fresh_process_that_fails_is_one_line(monkeypatch):
    """A failing measurement process gives one line and no traceback; debugging settings are not passed on to it."""
    monkeypatch.setenv("JAX_DISABLE_JIT", "1")
    program = "import os; assert 'JAX_DISABLE_JIT' in os.environ, 'without them'"
    with pytest.raises(
        OSError, match=r"ended with status 1: .*AssertionError: without them"
    ) as caught:
        _bench._ends_well([sys.executable, "-c", program])
    assert "\n" not in str(caught.value)
    _bench._ends_well([sys.executable, "-c", "pass"])
