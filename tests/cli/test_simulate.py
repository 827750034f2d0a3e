"""`jaxhamel simulate`: each built-in scenario from start to end, its files, its failures."""

import json

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel.cli._app import app
from jaxhamel.cli._scenario._scenario import built_in

# A short and coarse simulation by a solver that compiles quickly.
QUICK = ("time.samples=21", "solver.method=tsit5", "solver.dt=0", "solver.rtol=1e-8")
END = {"heavy-top": 0.05, "suslov": 5.0, "free-rigid-body": 3.0}
ELSEWHERE = {"reference-ball", "circle"}  # tested below and in test_control.py
FILES = {"summary.json", "trajectory.csv", "report.html"}
FIGURES = {
    "rolling-ball": {"path.png", "angles.png", "forces.png"},
    "actuated-disk": {"position.png", "angles.png", "forces.png"},
    "heavy-top": {"path.png", "omega.png", "invariants.png"},
    "suslov": {"omega.png", "invariants.png"},
    "free-rigid-body": {"omega.png", "invariants.png"},
}


def jaxhamel(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def changes(*pairs):
    return [part for pair in pairs for part in ("--set", pair)]


def table(folder):
    with open(folder / "trajectory.csv", encoding="utf-8") as file:
        names = file.readline().strip().split(",")
    rows = np.loadtxt(folder / "trajectory.csv", delimiter=",", skiprows=1)
    return dict(zip(names, rows.T, strict=True))


def summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


SIMULATED = {name for name, about in built_in().items() if "simulate" in about.commands}


@pytest.mark.parametrize("name", ["reference-ball", "suslov"])
def test_pictures_are_compiled_beside_the_simulation(name, tmp_path, monkeypatch, caplog):
    """Another thread compiles the figures' programs with a motionless body, so this thread, whose log is read, compiles
    none for them."""
    monkeypatch.setattr("jaxhamel.cli._commands._simulate.cores", lambda: 2)
    with jax.log_compiles():
        result = jaxhamel("simulate", name, "--out", tmp_path, *changes(*QUICK, "time.end=0.37"))
    assert result.exit_code == 0, result.stderr
    assert "jit(_solve)" in caplog.text
    assert "jit(_mapped)" not in caplog.text


@pytest.mark.parametrize("name", sorted(SIMULATED - ELSEWHERE))
def test_built_in_scenario_runs_and_writes_its_files(name, tmp_path):
    end = END.get(name, 1.0)
    result = jaxhamel("simulate", name, "--out", tmp_path, *changes(*QUICK, f"time.end={end}"))
    assert result.exit_code == 0, result.stderr
    said = summary(tmp_path)
    assert said["status"] == "success"
    assert said["asked"]["time"]["end"] == end
    assert said["reached"]["time"] == pytest.approx(end)
    assert said["seconds"] > 0
    assert {"jaxhamel", "jax", "python"} <= set(said["versions"])
    written = {path.name for path in tmp_path.iterdir()}
    assert FILES | FIGURES[said["asked"]["system"]["kind"]] <= written
    assert set(said["files"]) == written
    columns = table(tmp_path)
    np.testing.assert_allclose(columns["t"], np.linspace(0, end, 21), rtol=1e-15)
    assert all(np.isfinite(column).all() for column in columns.values())


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    # Fixed steps end at the times of the table, so nothing is interpolated.
    steps = ("time.samples=6", "solver.method=dopri8", "solver.dt=0.01")
    result = jaxhamel("simulate", "reference-ball", "--out", folder, *changes(*steps))
    assert result.exit_code == 0, result.stderr
    return folder


def test_table_holds_the_published_trajectory(reference):
    columns = table(reference)
    at = {name: column[5] for name, column in columns.items()}
    expected = {
        "t": 5.0,
        "qw": 0.8517548484693,
        "qx": -0.2456057602964,
        "qy": 0.3101555184691,
        "qz": 0.3435040654512,
        "x": 0.5155719853012,
        "y": 0.7135407689736,
        "Omega_x": 0.4400708004691,
        "Omega_y": -0.2121340134323,
        "Omega_z": 0.5068464739335,
        "force_x": -4.2973336464039,
        "force_y": -9.6256863486617,
        "force_z": 55.3167297059522,
    }
    for name, value in expected.items():
        assert at[name] == pytest.approx(value, abs=1e-9), name
    assert columns["force_z"][1] == pytest.approx(59.4017173439529, abs=1e-9)
    assert columns["theta_2"][0] == pytest.approx(0.3 * np.sin(0.5) - np.pi / 2, abs=1e-15)


def test_table_reloads_as_the_simulation_gave_it(reference):
    """The table has 17 digits: it gives exactly the numbers of a simulation by the library."""
    import diffrax
    import jax.numpy as jnp

    from jaxhamel.cli._objects._build import Sine
    from jaxhamel.simulate import simulate
    from jaxhamel.systems import CircularRails, RollingBall

    rails = CircularRails(
        jnp.full(2, 0.8),
        jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]),
        jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    )
    ball = RollingBall(
        1.0, 4.0, jnp.array([1.0, 1.1, 1.2]), jnp.array([0.0, 0.0, -0.05]), jnp.ones(2), rails, 9.81
    )
    swing = Sine(jnp.full(2, -np.pi / 2), jnp.full(2, 0.3), jnp.full(2, 2.0), jnp.array([0.0, 0.5]))
    start = (jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2))
    motion = simulate(
        ball, start, jnp.zeros(3), np.linspace(0, 5, 6), swing, dt=0.01, solver=diffrax.Dopri8()
    )
    columns = table(reference)
    np.testing.assert_array_equal(
        np.stack([columns[name] for name in ("Omega_x", "Omega_y", "Omega_z")], 1), motion.u
    )
    np.testing.assert_array_equal(columns["x"], motion.q[1][:, 0])


def test_summary_says_what_the_contact_needs(reference):
    reached, columns = summary(reference)["reached"], table(reference)
    normal = columns["force_z"]
    ratio = np.hypot(columns["force_x"], columns["force_y"]) / normal
    assert reached["min_normal_force"] == pytest.approx(normal.min(), rel=1e-12)
    assert reached["friction_needed"] == pytest.approx(ratio.max(), rel=1e-12)


@pytest.mark.parametrize("steps", [1, 30])
def test_simulation_that_breaks_down_exits_1_and_keeps_what_it_has(tmp_path, steps):
    few = changes(*QUICK, f"solver.max_steps={steps}", "time.end=20")
    result = jaxhamel("simulate", "suslov", "--out", tmp_path, *few)
    assert result.exit_code == 1
    assert "the simulation stopped at t = " in result.stderr
    assert "Raise `max_steps`" in result.stderr
    said = summary(tmp_path)
    assert said["status"] == "failed"
    assert 0 < said["reached"]["time"] < 20
    assert table(tmp_path)["t"][-1] == pytest.approx(said["reached"]["time"])
    assert said["message"][1:] in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_quiet_says_nothing_and_other_files_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "summary.json").write_text("old", encoding="utf-8")
    end = changes(*QUICK, "time.end=0.02")
    result = jaxhamel("simulate", "suslov", "--out", tmp_path, "--quiet", *end)
    assert result.exit_code == 0
    assert result.output == ""
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"
    assert summary(tmp_path)["status"] == "success"


@pytest.mark.parametrize(
    ("scenario", "change", "message"),
    [
        ("reference-ball", "system.masses=[1]", "`system.rails` has 2 entries but `system.masses`"),
        ("reference-ball", "system.masses=[1,-1]", "`system.masses`"),
        (
            "reference-ball",
            "system.rails.0.normal=[0,-2,0]",
            "`system.rails.normal` has vectors of",
        ),
        (
            "reference-ball",
            "system.shell_inertia=[1,1,3]",
            "`system.shell_inertia` has the principal",
        ),
        ("reference-ball", "control.mean=[0]", "`control.mean` has 1 entries; it must have 2"),
        ("heavy-top", "system.inertia=[1,1,3]", "no rigid body has one larger"),
        ("heavy-top", "time.end=0", "`time.end` is 0; it must be larger than `time.start`, 0."),
        ("heavy-top", "initial.orientation=[1,1,0,0]", "`initial.orientation` has norm 1.41421356"),
        ("heavy-top", "control.value=[1]", "`control` moves masses, but the system has none."),
        ("disk", "solver.method=euler", '`solver.method` "euler" has no error estimate'),
        ("suslov", "system.xi=[0,0,0]", "`system.xi`"),
        ("heavy-top", "system.mas=3", "`system.mas` is not a key of `system`"),
    ],
)
def test_bad_scenario_exits_2_with_one_line_and_writes_nothing(tmp_path, scenario, change, message):
    out = tmp_path / "out"
    result = jaxhamel("simulate", scenario, "--out", out, "--set", change)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_out_that_is_a_file_exits_2(tmp_path):
    path = tmp_path / "taken"
    path.write_text("", encoding="utf-8")
    result = jaxhamel("simulate", "suslov", "--out", path)
    assert result.exit_code == 2
    assert f"--out {path}: the folder cannot be made" in result.stderr.replace("\n", " ")
