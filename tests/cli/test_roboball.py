"""`jaxhamel identify roboball` and `jaxhamel predict` after it: listed, messages, and a prediction with known parameters."""

import json
import signal
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel import simulate
from jaxhamel.cli._app import app
from jaxhamel.cli._commands._roboball import _ended
from jaxhamel.cli._scenario._fitted import fitted_roboball
from jaxhamel.cli._terminal import Terminal
from jaxhamel.systems import SoftRollingPendulum

HEADER = "timestamp,ball_roll.position,roll_joint.position\n"


def told(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, " ".join(result.output.split())


def test_it_is_listed_and_belongs_to_identify(tmp_path):
    assert "roboball" in told("scenarios")[1]
    code, text = told("simulate", "roboball", "--out", tmp_path)
    assert code == 2
    assert "roboball: it is for `jaxhamel identify`" in text


def test_messages(tmp_path):
    """Without data, with data of the stand alone, with a broken file, with a key that is not there: one line, status 2."""
    out = ("--out", tmp_path / "out")
    code, text = told("identify", "roboball", *out)
    assert (code, "--data is missing" in text) == (2, True)
    (tmp_path / "stand.csv").write_text("timestamp,roll_joint.position\n0,0.1\n20000000,0.1\n")
    code, text = told("identify", "roboball", "--data", tmp_path, *out)
    assert (code, "none of its 1 CSV files has a column `ball_roll.position`" in text) == (2, True)
    (tmp_path / "run.csv").write_text(HEADER + "0,0.1,0.2\n20000000,0.1,x\n")
    code, text = told("identify", "roboball", "--data", tmp_path, *out)
    assert (code, "line 3, column `roll_joint.position`" in text) == (2, True)
    (tmp_path / "run.csv").write_text(HEADER + "0,0.1,0.2\n20000000,0.1,0.2\n")
    data = ("--data", tmp_path, "--set", "system.mass=3")
    code, text = told("identify", "roboball", *data, *out)
    assert (code, "`system.mass` is no key of roboball" in text) == (2, True)
    assert not (tmp_path / "out").exists()


def test_prediction_from_the_files(tmp_path):
    """A run made up with the parameters in FITTED: `rms` has one small number for each measured column."""
    system = SoftRollingPendulum.roboball(
        contact_stiffness=20.0, rest_angle=0.06, rolling_coulomb=0.45, rolling_viscous=2.7
    )
    values = {name: np.asarray(value).tolist() for name, value in vars(system).items()}
    (tmp_path / "fitted.json").write_text(json.dumps({"system": values, "spread": 0.3}))
    ts = jnp.linspace(0.0, 1.5, 76)
    motion = simulate(system, jnp.array([-0.36, 0.37, 0.0]), jnp.array([0.2, -0.1]), ts, dt=0.01)
    rows = np.column_stack([7e12 + 1e9 * np.asarray(ts), np.asarray(motion.q[:, :2])])
    np.savetxt(tmp_path / "run.csv", rows, "%.17g", ",", header=HEADER.strip(), comments="")
    out = tmp_path / "out"
    asked = ("predict", tmp_path, tmp_path / "run.csv", "--out", out)
    code, text = told(*asked, "--set", "system.radius=1")
    assert (code, "--set: there is nothing to set" in text) == (2, True)
    code, text = told(*asked)
    assert code == 0, text
    rms = json.loads((out / "summary.json").read_text())["rms"]
    assert set(rms) == {"ball_roll.position", "roll_joint.position"}
    assert max(rms.values()) < 2e-3
    assert (out / "report.html").stat().st_size > 10_000


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_writes_what_was_found(tmp_path, monkeypatch):
    """The signal comes while an iteration is told; `predict` takes what is written."""
    system = SoftRollingPendulum.roboball(contact_stiffness=20.0, rolling_coulomb=0.45)
    ts = jnp.linspace(0.0, 0.5, 26)
    motion = simulate(system, jnp.array([-0.36, 0.37, 0.0]), jnp.zeros(2), ts, dt=0.02)
    rows = np.column_stack([1e9 * np.asarray(ts), np.asarray(motion.q[:, :2])])
    np.savetxt(tmp_path / "run.csv", rows, "%.17g", ",", header=HEADER.strip(), comments="")
    seen = []

    def interrupted(self, line):
        seen.append(line)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Terminal, "update", interrupted)
    out = tmp_path / "out"
    code, text = told("identify", "roboball", "--data", tmp_path, "--out", out)
    assert code == 130
    said = "roboball: not converged (rolling: interrupted after 3 iterations: best so far); RMS 0."
    assert said in text
    assert f"What was reached is in {out}" in text
    summary = json.loads((out / "summary.json").read_text())
    assert summary["status"] == "interrupted"
    assert summary["reached"]["fit"] == {
        "stand": None,
        "rolling": "interrupted after 3 iterations: best so far",
    }
    assert {path.name for path in out.iterdir()} >= {*summary["files"], "fitted.json"}
    assert fitted_roboball(str(out)) == out / "fitted.json"


def test_a_fit_that_did_not_converge_says_so():
    """Exit status 1 (`failed`), but for one that was asked to stop early; the figure is told all the same."""

    def ended(converged, stopped, total=0.0156):
        found = SimpleNamespace(converged=converged, total=total, status="rolling: 60 iterations")
        return _ended(found, stopped)

    assert ended(True, False) == (
        "success",
        "RMS 0.0156 rad over all rolling runs and both angles",
    )
    status, message = ended(False, False)
    assert status == "failed"
    assert message.startswith("not converged (rolling: 60 iterations); RMS 0.0156 rad")
    assert ended(False, True)[0] == "stopped"
    assert ended(False, True, np.nan)[0] == ended(True, True, np.nan)[0] == "failed"
