"""`jaxhamel identify roboball` and `predict` after it: error messages, a prediction with known parameters, measured
runs."""

import json
import os
import signal
import tomllib
from importlib.resources import files
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel import simulate
from jaxhamel.cli._app import app
from jaxhamel.cli._scenario._scenario import fitted_file
from jaxhamel.cli._terminal import Terminal
from jaxhamel.systems import SoftRollingPendulum

ROOT = Path(__file__).parents[2]
PLACES = (
    os.environ.get("ROBOBALL_DATA"),
    ROOT / "shared/data/roboball",
    ROOT.parent / "shared/data/roboball",
)
DATA = next((Path(p) for p in PLACES if p and Path(p).is_dir()), None)
HEADER = "timestamp,ball_roll.position,roll_joint.position\n"
SCENARIO = (files("jaxhamel.cli") / "scenarios" / "roboball.toml").read_text("utf-8")


def told(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


def write_run(path, system, q0, u0, seconds, steps, dt):
    """Writes a simulated run with time stamps in nanoseconds."""
    ts = jnp.linspace(0.0, seconds, steps)
    motion = simulate(system, jnp.array(q0), jnp.array(u0), ts, dt=dt)
    rows = np.column_stack([7e12 + 1e9 * np.asarray(ts), np.asarray(motion.q[:, :2])])
    np.savetxt(path, rows, "%.17g", ",", header=HEADER.strip(), comments="")


def test_it_is_listed_and_belongs_to_identify(tmp_path):
    assert "roboball" in told("scenarios")[1]
    code, text = told("simulate", "roboball", "--out", tmp_path)
    assert code == 2
    assert "roboball: `measurements` belong to a scenario for `jaxhamel identify`" in text


def test_it_starts_from_the_design():
    """The scenario's parameters, except those of the contact, are the class's values from the drawing."""
    given = {k: v for k, v in tomllib.loads(SCENARIO)["system"].items() if k != "kind"}
    guessed = {"contact_stiffness", "rest_angle", "rolling_coulomb", "rolling_viscous"}
    drawn = SoftRollingPendulum.roboball()
    for name in set(vars(drawn)) - guessed - {"slip_rate", "gravity"}:
        np.testing.assert_array_equal(getattr(drawn, name), given[name], name)


def test_messages(tmp_path):
    """Missing data, data of the stand only, broken files and unknown keys give one message and status 2."""
    out = ("--out", tmp_path / "out")
    code, text = told("identify", "roboball", *out)
    assert (code, "--data is missing" in text) == (2, True)
    (tmp_path / "stand.csv").write_text("timestamp,roll_joint.position\n0,0.1\n20000000,0.1\n")
    code, text = told("identify", "roboball", "--data", tmp_path, *out)
    assert (code, "none of its 1 CSV files has a column `ball_roll.position`" in text) == (2, True)
    (tmp_path / "run.csv").write_text(HEADER + "0,0.1,0.2\n20000000,0.1,x\n")
    code, text = told("identify", "roboball", "--data", tmp_path, *out)
    assert (code, "line 3, column `roll_joint.position`" in text) == (2, True)
    (tmp_path / "run.csv").write_text(HEADER + "0,0.1,\n20000000,0.1,0.2\n")
    code, text = told("identify", "roboball", "--data", tmp_path, *out)
    assert (code, "line 2, column `roll_joint.position`" in text) == (2, True)
    (tmp_path / "run.csv").write_text(HEADER + "0,0.1,0.2\n20000000,0.1,0.2\n")
    data = ("--data", tmp_path, "--set", "system.mass=3")
    code, text = told("identify", "roboball", *data, *out)
    assert (code, "`system.mass`" in text) == (2, True)
    assert not (tmp_path / "out").exists()


def test_prediction_of_a_run_with_another_stiffness(tmp_path):
    """A simulated run with a contact a fifth stiffer: its stiffness is found from the first half second, and the rest
    is predicted."""
    fitted = {"contact_stiffness": 20.0, "rest_angle": 0.06, "rolling_coulomb": 0.45}
    fitted |= {"rolling_viscous": 2.7}
    entries = "".join(f"[[fitted]]\npath = '{k}'\nvalue = {v}\n" for k, v in fitted.items())
    (tmp_path / "fitted.toml").write_text(f"{SCENARIO}\n{entries}", encoding="utf-8")
    system = SoftRollingPendulum.roboball(**fitted)
    kappa = np.log(1.2)
    write_run(tmp_path / "run.csv", system, [-0.36, 0.37, kappa], [0.2, -0.1], 2.0, 101, 0.01)
    out = tmp_path / "out"
    wide = ("--set", "priors.0.std=30.0")
    code, text = told("predict", tmp_path, tmp_path / "run.csv", "--out", out, *wide)
    assert code == 0, text
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary["rms"]) == {"ball_roll.position", "roll_joint.position"}
    assert max(summary["rms"].values()) < 2e-3
    assert summary["reached"]["own_quantities"]["contact"]["runs"]["run"] == pytest.approx(
        kappa, abs=5e-3
    )
    assert (out / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_writes_what_was_found(tmp_path, monkeypatch):
    """SIGINT comes during a progress report; the result so far is written in a form that `predict` reads."""
    system = SoftRollingPendulum.roboball(contact_stiffness=20.0, rolling_coulomb=0.45)
    write_run(tmp_path / "run.csv", system, [-0.36, 0.37, 0.0], [0.0, 0.0], 0.5, 26, 0.02)
    seen = []

    def interrupted(self, line):
        seen.append(line)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Terminal, "update", interrupted)
    out = tmp_path / "out"
    code, text = told("identify", "roboball", "--data", tmp_path, "--out", out)
    assert code == 1
    assert "roboball: rolling: interrupted after 3 iterations: best so far" in text
    assert f"The results so far are in {out}" in text
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["reached"]["fit"] == {
        "stand": None,
        "rolling": "interrupted after 3 iterations: best so far",
    }
    assert {path.name for path in out.iterdir()} >= {*summary["files"], "fitted.toml"}
    assert fitted_file(str(out)) == str(out / "fitted.toml")


@pytest.mark.skipif(DATA is None, reason="the measured runs are not here")
def test_measured_runs(tmp_path):
    """The RMS over both training runs and both angles is at most 0.024 rad, and each value is within a factor of 2 of
    drawing or report."""
    code, text = told("identify", "roboball", "--data", DATA, "--out", tmp_path / "fit")
    assert code == 0, text
    reached = json.loads((tmp_path / "fit" / "summary.json").read_text())["reached"]
    rolling = reached["stages"]["rolling"]
    count = np.array(list(rolling["measurements"].values()))
    rms = np.array(list(rolling["rms"].values()))
    assert np.sqrt(np.sum(count * rms**2) / np.sum(count)) <= 0.024
    drawn = SoftRollingPendulum.roboball()
    tables = tomllib.loads((tmp_path / "fit" / "fitted.toml").read_text("utf-8"))
    found = {entry["path"]: entry["value"] for entry in tables["fitted"]}
    for name in ("pendulum_inertia", "joint_coulomb", "joint_viscous"):
        assert 0.5 < found.pop(name) / getattr(drawn, name) < 2.0, name
    lateral, vertical = found.pop("pendulum_com")
    assert 0.5 < lateral / drawn.pendulum_com[0] < 2.0
    assert vertical == drawn.pendulum_com[1]
    assert set(found) == {"rolling_coulomb", "rest_angle"}
    run = next(path for path in sorted(DATA.glob("trimmed*.csv")))
    code, text = told("predict", tmp_path / "fit", run, "--out", tmp_path / "there")
    assert code == 0, text
    rms = json.loads((tmp_path / "there" / "summary.json").read_text())["rms"]
    assert rms["ball_roll.position"] < 0.033
    assert rms["roll_joint.position"] < 0.044
