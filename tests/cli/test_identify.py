"""`jaxhamel identify` and `jaxhamel predict`: synthetic data, files, error messages."""

import csv
import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _identify, _identify_report
from jaxhamel.cli._commands._predict import _ended
from jaxhamel.cli._objects._identification import (
    build_identified_system,
    build_measurements,
    build_parameters,
    make_runs,
    units_of,
)
from jaxhamel.cli._objects._truth import with_truth
from jaxhamel.cli._scenario._scenario import Scenario, load, load_identification
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.identify import read_csv
from tests.cli.test_control import before_page

TOP = """
title = "A top"
[system]
kind = "heavy-top"
mass = 1.3
inertia = [0.02, 0.021, 0.004]
com = [0.0, 0.0, 0.1]
[[measurements]]
quantity = "orientation"
noise = 0.01
[[measurements]]
quantity = "angular-rate"
noise = [0.05, 0.05, 0.05]
[[parameters]]
kind = "positive"
path = "mass"
unit = "kg"
[[parameters]]
kind = "rotational-inertia"
path = "inertia"
frozen = true
[truth]
mass = 1.0
[synthetic]
seconds = 2.0
rate = 25.0
speed = 1.0
[fit]
segments = 2
"""


def jaxhamel(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def scenario(tmp_path):
    def write(content=TOP):
        path = tmp_path / "top.toml"
        path.write_text(content, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("identify")
    (folder / "top.toml").write_text(TOP, encoding="utf-8")
    result = jaxhamel("identify", folder / "top.toml", "--out", folder / "out", "--seed", 2)
    assert result.exit_code == 0, result.stderr
    return folder / "out", result


def test_finds_the_truth_of_made_up_data_and_says_so(fitted):
    folder, result = fitted
    with open(folder / "parameters.csv", newline="", encoding="utf-8") as file:
        mass, *others = csv.DictReader(file)
    assert mass["parameter"] == "mass"
    assert abs(float(mass["estimate"]) - 1.0) < 4 * float(mass["standard_error"])
    assert 0 < float(mass["standard_error"]) < 0.05
    assert [row["frozen"] for row in others] == ["true"] * 3
    assert [float(row["standard_error"]) for row in others] == [0.0] * 3
    said = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert said["status"] == "success"
    assert said["reached"]["parameters"]["mass"]["unit"] == "kg"
    assert said["reached"]["not_determined"] == []
    assert "converged" in result.stderr


def test_writes_every_file(fitted):
    folder, _ = fitted
    said = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    written = {path.name for path in folder.iterdir() if path.is_file()}
    assert set(said["files"]) == written
    assert {"parameters.csv", "fitted.toml", "report.html", "residuals-1.png"} <= written
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "Estimates with standard errors" in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_fit_out_of_iterations_is_no_success_and_keeps_what_it_has(fitted, tmp_path, monkeypatch):
    folder, _ = fitted
    before = before_page(monkeypatch, _identify_report, "write_figures")
    options = ("--data", folder / "data", "--set", "fit.max_iterations=2", "--out", tmp_path)
    result = jaxhamel("identify", folder.parent / "top.toml", *options)
    assert result.exit_code == 1
    assert "the fit failed: out of iterations (2)" in result.stderr
    said = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert said["status"] == "failed"
    assert not said["reached"]["converged"]
    assert said["reached"]["iterations"] == 2
    assert (tmp_path / "parameters.csv").exists()
    assert "The fit failed: out of iterations" in (tmp_path / "report.html").read_text("utf-8")
    drawn, words, keeps = before
    assert drawn["files"] == ["summary.json", "parameters.csv", "fitted.toml"]
    assert drawn["reached"]["iterations"] == 2
    assert "the time was over before all figures were written; the estimate is in" in words
    assert not keeps


def test_predicts_another_run_from_its_first_moments(fitted, tmp_path):
    folder, _ = fitted
    assert jaxhamel(
        "identify", folder.parent / "top.toml", "--out", tmp_path, "--max-seconds", 1, "-q"
    )
    run = tmp_path / "data" / "run1.csv"
    result = jaxhamel("predict", folder, run, "--out", tmp_path / "there", "--seconds", 0.6)
    assert result.exit_code == 0, result.stderr
    said = json.loads((tmp_path / "there" / "summary.json").read_text(encoding="utf-8"))
    assert set(said["rms"]) == {
        *(f"orientation.{axis}" for axis in "xyz"),
        *(f"Omega_{axis}" for axis in "xyz"),
    }
    table = np.loadtxt(run, delimiter=",", skiprows=1)
    spread = np.sqrt(np.mean(table[:, 5:] ** 2))
    assert all(0 < said["rms"][f"Omega_{axis}"] < 0.2 * spread for axis in "xyz")
    assert set(said["files"]) == {path.name for path in (tmp_path / "there").iterdir()}


def test_a_prediction_from_a_start_that_was_not_found_has_failed():
    start = SimpleNamespace(converged=False, status="out of iterations (100)")
    found: Any = SimpleNamespace(initial=start, seconds=0.5)
    how, message = _ended(found)
    assert how == "failed"
    assert "was not found: out of iterations (100). Give more than 0.5 s with --seconds." in message


def refused(source, *options):
    result = jaxhamel("identify", source, *options)
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    return result.stderr


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('path = "mass"', 'path = "mas"', "`parameters.mas` is no parameter of HeavyTop"),
        (
            'kind = "positive"',
            'kind = "negative"',
            '`parameters.0.kind` is "negative"; it must be one',
        ),
        ('quantity = "orientation"', 'quantity = "smell"', "it must be one of"),
        ("noise = 0.01", "nois = 0.01", "Did you mean `noise`?"),
        ("segments = 2", "segments = -2", "`fit.segments` is -2; it must be a whole number"),
        ("[truth]\nmass = 1.0", "", "--data is missing; give the folder"),
        ("seconds = 2.0", "seconds = 0", "`synthetic.seconds` is 0; it must be a number larger"),
    ],
)
def test_bad_scenarios_get_one_line(scenario, tmp_path, old, new, message):
    assert old in TOP
    assert message in refused(scenario(TOP.replace(old, new)), "--out", tmp_path / "out")


def test_missing_folders_and_files_get_one_line(scenario, tmp_path):
    assert "there is no such folder" in refused(scenario(), "--data", tmp_path / "no")
    (tmp_path / "empty").mkdir()
    assert "it has no file like *.csv" in refused(scenario(), "--data", tmp_path / "empty")
    (tmp_path / "empty" / "a.csv").write_text("t,x\n0,1\n1,2\n")
    assert "there is no column `qw`; the file has t, x" in refused(
        scenario(), "--data", tmp_path / "empty"
    )
    result = jaxhamel("predict", tmp_path / "no", "run.csv")
    assert result.exit_code == 2
    assert "there is no fitted.toml" in result.stderr


def test_each_command_takes_its_own_scenarios(scenario):
    with pytest.raises(ScenarioError, match="belong to a scenario for `jaxhamel identify`"):
        load("ball-inertia")
    with pytest.raises(ScenarioError, match="it is a scenario for `jaxhamel simulate`"):
        load_identification("heavy-top")


def test_built_in_scenario_seeks_ten_inertial_parameters():
    (body,) = build_parameters(load_identification("ball-inertia"))
    assert (body.mass, body.com, body.path) == ("shell_mass", "shell_com", "shell_inertia")


def test_runs_of_an_earlier_command_are_no_data(scenario, tmp_path, monkeypatch):
    """Only the run that is synthesised now is read, although the folder holds two runs of an earlier command."""
    read = []
    monkeypatch.setattr(_identify, "build_problem", lambda *x: read.extend(x[-1]) or 1 / 0)
    (tmp_path / "out" / "data").mkdir(parents=True)
    for name in ("run1.csv", "run2.csv"):
        (tmp_path / "out" / "data" / name).write_text("of another truth", encoding="utf-8")
    found = jaxhamel("identify", scenario(), "--out", tmp_path / "out")
    assert "ZeroDivisionError" in found.stderr
    assert [run.name for run in read] == ["run1"]


def test_synthetic_data_are_in_the_units_that_their_columns_state(tmp_path):
    """Files in SI that are read in other units would make the fit wrong by the factor of the unit."""
    changes = ['measurements.1.unit="deg/s"', 'data.time_unit="ms"', 'data.time="clock"']
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    plain, other = (load_identification(str(tmp_path / "top.toml"), c) for c in ((), changes))
    measurements = build_measurements(plain, build_identified_system(plain))
    tables = []
    for scenario in (plain, other):
        (path,) = make_runs(scenario, tmp_path, measurements, None, 0)
        units, time = units_of(scenario, measurements), scenario["data"]["time"]
        tables.append(read_csv(path, measurements, time=time, units=units))
    np.testing.assert_allclose(tables[1].ts, tables[0].ts, rtol=1e-12)
    rates = [table.values["angular-rate"] for table in tables]
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-12)


def test_synthetic_noise_is_that_of_the_measurement_if_it_has_one(tmp_path):
    """Otherwise the standard errors of the fit, which are by the measurement's noise, would be wrong."""
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    noisy, exact = (
        load_identification(
            str(tmp_path / "top.toml"), (f"measurements.1.noise={x}", "synthetic.noise=0")
        )
        for x in (0.25, 0)
    )
    tables = []
    for scenario in (noisy, exact):
        measurements = build_measurements(scenario, build_identified_system(scenario))
        (path,) = make_runs(scenario, tmp_path, measurements, None, 0)
        tables.append(read_csv(path, measurements, units=units_of(scenario, measurements)).values)
    added = tables[0]["angular-rate"] - tables[1]["angular-rate"]
    np.testing.assert_allclose(np.std(added), 0.25, rtol=0.2)
    np.testing.assert_allclose(tables[0]["orientation"], tables[1]["orientation"], atol=1e-12)


def test_a_coordinate_has_the_name_of_its_column(tmp_path):
    table = '[[measurements]]\nquantity = "coordinate"\nindex = 0\n'
    text = TOP + table + 'columns = ["heading"]\n' + table
    (tmp_path / "top.toml").write_text(text, encoding="utf-8")
    scenario = load_identification(str(tmp_path / "top.toml"))
    found = build_measurements(scenario, build_identified_system(scenario))
    assert [(m.name, m.columns) for m in found[-2:]] == [
        ("heading", ("heading",)),
        ("coordinate-3", ("coordinate-3",)),
    ]


def test_a_unit_of_another_quantity_names_its_key(tmp_path):
    (tmp_path / "top.toml").write_text(TOP, encoding="utf-8")
    arguments = ("--set", "measurements.1.unit=deg", "--out", tmp_path / "o")
    result = jaxhamel("identify", tmp_path / "top.toml", *arguments)
    assert result.exit_code == 2
    assert "`measurements.1.unit`: the unit of `Omega_x` is given as 'deg'" in result.stderr
    assert not (tmp_path / "o").exists()


def test_true_values_inside_a_table_of_the_system_are_merged():
    """[truth] may have some of the keys of a nested table; the others are those of [system]."""
    tables = {
        "system": {"mass": 1.0, "springs": {"wall": 4.0, "damping": 0.1}},
        "truth": {"springs": {"wall": 5.0, "damping": None}},
    }
    found = with_truth(Scenario("s", tables))["system"]
    assert found == {"mass": 1.0, "springs": {"wall": 5.0, "damping": 0.1}}


def test_true_values_of_an_array_of_tables_are_merged_entry_by_entry():
    """Each [[truth.springs]] has the keys that differ from its [[system.springs]]; there are as many."""
    springs = [{"stiffness": 4.0, "rest": 0.1}, {"stiffness": 5.0, "rest": 0.2}]
    truth = [{}, {"rest": 0.3, "stiffness": None}]
    tables = {"system": {"springs": springs}, "truth": {"springs": truth}}
    found = with_truth(Scenario("s", tables))["system"]["springs"]
    assert found == [springs[0], {"stiffness": 5.0, "rest": 0.3}]
    with pytest.raises(ScenarioError, match=r"`truth.springs` has 1 table.* must have 2"):
        with_truth(Scenario("s", tables | {"truth": {"springs": truth[1:]}}))
