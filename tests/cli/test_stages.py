"""`identify` with [[stages]], [[priors]] and a steady clock, and `predict` with weights by age: a pendulum in a stand
with known parameters."""

import csv
import json
import re
import tomllib

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel import simulate
from jaxhamel.cli._app import app
from jaxhamel.systems import PendulumInStand

SCENARIO = """
[system]
kind = "pendulum-in-stand"
radius = 0.3
shell_mass = 1.0
shell_inertia = 1.0
centre_mass = 0.0
centre_inertia = 0.0
centre_com = [0.0, 0.0]
pendulum_mass = 2.0
pendulum_inertia = 0.03
pendulum_com = [0.0, -0.3]
joint_viscous = 0.1
[data]
time_unit = "ms"
clock = "steady"
[[measurements]]
quantity = "coordinate"
index = 1
name = "joint"
columns = ["angle"]
noise = 0.001
[[parameters]]
kind = "positive"
path = "pendulum_inertia"
[[parameters]]
kind = "positive"
path = "joint_viscous"
[[priors]]
name = "tilt"
index = 0
std = 0.5
over_runs = true
[[stages]]
name = "light"
columns = ["angle"]
files = ["light*"]
parameters = ["joint_viscous"]
loss = "soft-l1"
[[stages]]
name = "none"
without = ["angle"]
parameters = ["joint_viscous"]
optional = true
[[stages]]
name = "all"
files = ["run*"]
system = "pendulum-in-stand"
parameters = ["pendulum_inertia", "joint_viscous"]
[fit]
segments = 1
dt = 0.04
correlated = true
[prediction]
memory = 0.2
noise = [0.002]
"""
TILTS = {"light": 0.0, "run1": 0.06, "run2": -0.02, "other": 0.03}
TRUTH = {"pendulum_inertia": 0.04, "joint_viscous": 0.15}


def command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Exact motions, each run with its own tilt; every seventh time stamp of run1 is 9 ms late."""
    folder = tmp_path_factory.mktemp("data")
    table = tomllib.loads(SCENARIO)["system"]
    fixed = {key: value for key, value in table.items() if key != "kind"}
    system = PendulumInStand(**(fixed | TRUTH))
    ts = np.arange(41) * 0.04
    for name, tilt in TILTS.items():
        q0 = jnp.array([tilt, 0.8, 0.0])
        motion = simulate(system, q0, jnp.array([0.3]), jnp.asarray(ts), rtol=1e-9, atol=1e-9)
        late = 9.0 * (np.arange(41) % 7 == 3) * (name == "run1")
        rows = np.column_stack([1e3 * ts + late, np.asarray(motion.q[:, 1])])
        np.savetxt(folder / f"{name}.csv", rows, "%.17g", ",", header="t,angle", comments="")
    (folder / "kept").mkdir()
    (folder / "other.csv").rename(folder / "kept" / "other.csv")
    (folder / "robot.toml").write_text(SCENARIO, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def fitted(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("fitted")
    code, text = command("identify", data / "robot.toml", "--data", data, "--out", out)
    assert code == 0, text
    return out, json.loads((out / "summary.json").read_text(encoding="utf-8"))


def test_stages_find_the_parameters_and_the_tilt_of_each_run(fitted):
    out, summary = fitted
    reached = summary["reached"]
    assert reached["fit"]["none"] is None
    assert set(reached["stages"]) == {"light", "all"}
    with open(out / "parameters.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["stage"], row["parameter"]) for row in rows] == [
        ("light", "joint_viscous"),
        ("all", "pendulum_inertia"),
        ("all", "joint_viscous"),
    ]
    for row in rows[1:]:
        value, error = float(row["estimate"]), float(row["standard_error"])
        assert abs(value - TRUTH[row["parameter"]]) < 0.2 * error
        assert error < 0.01 * value
    assert reached["stages"]["all"]["correlated"]
    assert reached["stages"]["all"]["correlation_time"] > 1
    own = reached["own_quantities"]["tilt"]
    assert own["runs"] == pytest.approx({run: TILTS[run] for run in ("run1", "run2")}, abs=1e-4)
    assert own["mean"] == pytest.approx(0.02, abs=1e-4)
    assert own["std"] == pytest.approx(0.08 / np.sqrt(2), abs=1e-4)
    assert max(reached["rms_of_runs"]["run1"].values()) < 1e-4
    files = {path.name for path in out.iterdir()}
    assert files == set(summary["files"])
    tables = tomllib.loads((out / "fitted.toml").read_text(encoding="utf-8"))
    assert {entry["path"] for entry in tables["fitted"]} == set(TRUTH)
    assert tables["priors"][0]["std"] == own["std"]


def test_predicts_another_run_with_its_own_tilt(fitted, data, tmp_path):
    out, _ = fitted
    run = data / "kept" / "other.csv"
    code, text = command("predict", out, run, "--out", tmp_path, "--seconds", 0.7)
    assert code == 0, text
    summary = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert set(summary["rms"]) == {"angle"}
    assert summary["rms"]["angle"] < 5e-4
    own = summary["reached"]["own_quantities"]["tilt"]["runs"]
    assert own == pytest.approx({"other": TILTS["other"]}, abs=1e-3)
    wrong = ("--set", "prediction.noise=[0.1, 0.1]")
    code, text = command("predict", out, run, "--out", tmp_path, *wrong)
    assert code == 2
    assert (
        "`prediction.noise` has 2 numbers; it must have one for each of the 1 measurement." in text
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("stages.2.name=light", "`stages` have the names light, none, light; each must be another"),
        (
            'stages.0.columns=["angel"]',
            "`stages.0.columns` has 'angel', which is no column.*`angle`",
        ),
        ('stages.0.parameters=["mass"]', "`stages.0.parameters` has 'mass', which is no path"),
        ('stages.2.parameters=["joint_viscous"]', "`pendulum_inertia`, which no stage estimates"),
        ("stages.2.system=pendulum", "`stages.2.system` is 'pendulum', which is no kind of system"),
        ("stages.2.system=heavy-top", "is 'heavy-top', which needs `mass`; PendulumInStand has no"),
        ('stages.2.files=["run1*"]', "run2.csv: the file belongs to no stage"),
        (
            "stages.1.optional=false",
            "stage 'none' has no run: none of its 3 CSV files belongs to it",
        ),
        ("fit.starts=3", "`fit.starts` is 3; with .* it must be 1"),
        ("data.clock=sun", '`data.clock` is "sun"; it must be .*stamps'),
        ("priors.0.std=0.0", "`priors.0.std` is 0"),
        ("priors.0.index=7", r"takes entries \(7,\) of 3"),
        ("prediction.memory=-1.0", "`prediction.memory` is -1"),
        ("priors.0.over=1", "`priors.0.over`"),
    ],
)
def test_messages(data, tmp_path, change, message):
    options = ("--data", data, "--set", change, "--set", "priors.0.over_runs=false")
    code, text = command("identify", data / "robot.toml", "--out", tmp_path / "out", *options)
    assert code == 2, text
    assert re.search(message, text), text
    assert not (tmp_path / "out").exists()
