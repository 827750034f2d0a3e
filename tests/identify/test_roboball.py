"""RoboBall: its files, the prediction of a made-up run, and, where the data are, what the fit reaches."""

import os
import signal
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import identify, simulate
from jaxhamel.identify._correlation import correlation_time
from jaxhamel.identify._roboball import _roboball
from jaxhamel.systems import PendulumInStand, SoftRollingPendulum

ROOT = Path(__file__).parents[2]
PLACES = (
    os.environ.get("ROBOBALL_DATA"),
    ROOT / "shared/data/roboball",
    ROOT.parent / "shared/data/roboball",
)
DATA = next((Path(p) for p in PLACES if p and Path(p).is_dir()), None)
HEADER = "timestamp,ball_roll.position,roll_joint.position\n"


def test_files_are_read_in_si(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(HEADER + "5000000000,-0.3,0.4\n5020000000,-0.29,0.39\n5045000000,,0.38\n")
    run = identify.read_roboball(path)
    np.testing.assert_allclose(run.ts, [0.0, 0.02, 0.045], atol=1e-15)
    np.testing.assert_array_equal(run.values["shell"][:, 0], [-0.3, -0.29, np.nan])
    np.testing.assert_array_equal(run.values["joint"][:, 0], [0.4, 0.39, 0.38])


def test_messages_about_files_and_runs(tmp_path):
    path = tmp_path / "run.csv"
    path.write_text(HEADER + "5,0.1,0.2\n5,0.1,0.2\n")
    with pytest.raises(identify.DataError, match=r"line 3, column `timestamp`.*repeated"):
        identify.read_roboball(path)
    path.write_text(HEADER + "1000000000,0.1,\n1020000000,0.1,0.2\n")
    with pytest.raises(identify.DataError, match=r"line 2, column `roll_joint.position`"):
        identify.read_roboball(path)
    held = identify.Run([0.0, 0.1, 0.2], {"joint": [0.1, 0.1, 0.1]})
    with pytest.raises(ValueError, match=r"no run has the angle of the shell.*timestamp"):
        identify.fit_roboball([held])
    rolling = identify.Run([0.0, 0.1, 0.2], {"joint": [0.1] * 3, "shell": [0.1] * 3})
    with pytest.raises(ValueError, match=r"`seconds` is 0.1: 2 of the 3 times"):
        identify.predict_roboball(SoftRollingPendulum.roboball(), rolling, 0.1)


def made_up(system, q0, columns):
    """Half a second of its motion."""
    ts = jnp.linspace(0.0, 0.5, 26)
    u0 = jnp.array([0.2, -0.1])[: system.n_independent]
    motion = simulate(system, jnp.array(q0), u0, ts, dt=0.02)
    return identify.Run(ts, {name: np.asarray(motion.q[:, i]) for name, i in columns.items()})


def interrupting(stage, iteration):
    """Ctrl-C, as the system sends it, in an iteration of the first or second stage."""
    seen = []

    def progress(state):
        seen.append(state.iteration)
        if seen.count(1) == stage and state.iteration == iteration:
            signal.raise_signal(signal.SIGINT)

    return progress


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_what_was_found(monkeypatch):
    """In either stage, and between them: the joint's friction is kept."""
    system = SoftRollingPendulum.roboball(
        contact_stiffness=20.0, rest_angle=0.06, rolling_coulomb=0.45, joint_viscous=0.3
    )
    held = made_up(PendulumInStand.of(system), [0.0, 0.37, 0.0], {"joint": 1})
    rolling = made_up(system, [-0.36, 0.37, 0.1], {"shell": 0, "joint": 1})

    def found(progress=None):
        return identify.fit_roboball([held, rolling], dt=0.02, progress=progress)

    begun = "rolling: interrupted before its first iteration"
    cut, late = found(interrupting(1, 6)), found(interrupting(2, 5))
    monkeypatch.setattr(_roboball, "fit", interrupted_second(_roboball.fit))
    between = found()
    assert cut.status == f"stand: interrupted after 6 iterations: best so far; {begun}"
    assert late.status.endswith("rolling: interrupted after 5 iterations: best so far")
    assert between.status == f"stand: {late.stand.status}; {begun}"
    for result in (cut, late, between):
        assert not result.converged
        assert result.system.joint_viscous == result.stand.system.joint_viscous
        assert {row["runs"] for row in result.rows()} == {"stand", "rolling"}
        assert np.isfinite(result.total)
    for result in (late, between):
        assert result.stand.converged
        np.testing.assert_allclose(result.system.joint_viscous, 0.3, rtol=0.05)
    assert late.total < between.total


def interrupted_second(fit):
    """The second of several fits is interrupted before it has done anything."""
    calls = []

    def one(*given, **options):
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return fit(*given, **options)

    return one


def test_prediction_of_a_run_with_another_stiffness():
    """A run made up with a contact a fifth stiffer than the nominal one: found in half a second, and met to the end."""
    system = SoftRollingPendulum.roboball(
        contact_stiffness=20.0, rest_angle=0.06, rolling_coulomb=0.45, rolling_viscous=2.7
    )
    ts = jnp.linspace(0.0, 2.0, 101)
    kappa = np.log(1.2)
    motion = simulate(system, jnp.array([-0.36, 0.37, kappa]), jnp.array([0.2, -0.1]), ts, dt=0.01)
    angles = {"shell": np.asarray(motion.q[:, 0]), "joint": np.asarray(motion.q[:, 1])}
    found = identify.predict_roboball(system, identify.Run(ts, angles, name="made up"), spread=30.0)
    np.testing.assert_allclose(found.initial.x.q[0], [-0.36, 0.37, kappa], atol=5e-3)
    assert max(found.rms.values()) < 2e-3
    assert set(found.rms) == {"ball_roll.position", "roll_joint.position"}


@pytest.mark.skipif(DATA is None, reason="the measured runs are not here")
def test_measured_runs():
    """RMS over both training runs and both angles at most 0.024 rad; each value within a factor 2 of drawing or report."""
    runs = [identify.read_roboball(path) for path in sorted(DATA.glob("*.csv"))]
    found = identify.fit_roboball(runs)
    assert found.total <= 0.024
    drawn = SoftRollingPendulum.roboball()
    for name in ("pendulum_inertia", "joint_coulomb", "joint_viscous"):
        assert 0.5 < getattr(found.system, name) / getattr(drawn, name) < 2.0, name
    assert 0.5 < found.system.pendulum_com[0] / drawn.pendulum_com[0] < 2.0
    for name in ("radius", "shell_mass", "shell_inertia", "centre_com", "pendulum_mass"):
        np.testing.assert_array_equal(getattr(found.system, name), getattr(drawn, name))
    run = next(run for run in runs if "shell" in run.values)
    told = identify.predict_roboball(found.system, run, spread=found.spread).rms
    assert told["ball_roll.position"] < 0.033
    assert told["roll_joint.position"] < 0.044


def test_correlated_errors_widen_the_standard_errors():
    """AR(1) noise with coefficient a: τ = (1 + a) / (1 − a); white noise: 1."""
    rng = np.random.default_rng(0)
    white = rng.normal(size=6_000)
    red = np.zeros_like(white)
    for i in range(1, len(red)):
        red[i] = 0.8 * red[i - 1] + white[i]
    np.testing.assert_allclose(correlation_time([white]), 1.0, atol=0.06)
    np.testing.assert_allclose(np.sqrt(correlation_time([red])), 3.0, rtol=0.12)
