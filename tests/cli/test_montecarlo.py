"""`jaxhamel montecarlo`: its files, resuming, and the input that it refuses."""

import json
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
import typer

from jaxhamel.cli._commands._montecarlo import _statistics
from jaxhamel.cli._commands._montecarlo_report import (
    _coordinate_charts,
    _labels_of_ends,
    _traced_charts,
)
from jaxhamel.cli._exit_status import finish
from jaxhamel.cli._objects import _ensemble_model
from jaxhamel.cli._objects._ensemble_model import Motions, _of_any
from jaxhamel.cli._objects._spread import Nominal
from jaxhamel.cli._terminal import Terminal
from jaxhamel.systems import CartPole, KnifeEdge
from jaxhamel.viz._motion._run import ShownMotion
from tests.cli.test_simulate import jaxhamel

SCENARIO = """
[system]
kind = "rolling-ball"
radius = 0.1
shell_mass = 1.0
shell_inertia = [0.0067, 0.0067, 0.0067]

[initial]
omega = [0.0, 1.0, 0.0]

[time]
end = 1.0
samples = 11

[montecarlo]
dt = 0.1
samples = 3

[[montecarlo.spread]]
key = "initial.u"
std = 0.2

[[montecarlo.spread]]
key = "system.shell_mass"
distribution = "lognormal"
sigma = 0.1
"""


@pytest.fixture(scope="module")
def scenario(tmp_path_factory):
    path = tmp_path_factory.mktemp("scenario") / "spread.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def done(scenario, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    found = jaxhamel("montecarlo", scenario, "--trajectories", 300, "--seed", 4, "--out", out)
    assert found.exit_code == 0, found.stderr
    return out


def summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def test_quantities_of_a_ball(monkeypatch):
    """For two balls at three times, extremes of the given forces (time, ball, axis) and distances from the path are
    those by hand."""
    force = np.array(
        [[[3, 0, 4], [0, 0, 9]], [[0, 1, 5], [6, 8, 2]], [[9, 9, -1], [0, 0, 7]]], float
    )
    monkeypatch.setattr(_ensemble_model, "_contact_forces", lambda ts, motions: jnp.asarray(force))
    place = jnp.asarray([[[0, 0], [1, 0], [1, 2]], [[0, 3], [1, 4], [1, 1]]]).astype(float)
    asked = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])
    found = _ensemble_model._of_ball(None, asked, SimpleNamespace(q=(None, place)))
    wanted = {
        "end_x": [1, 1],
        "end_y": [2, 1],
        "min_normal_force": [-1, 2],
        "max_friction": [0.75, 5],
        "tracking_rms": np.sqrt([1 / 3, 25 / 3]),
        "tracking_max": [1, 4],
    }
    assert found.keys() == wanted.keys()
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-12)


def test_statistics_are_those_of_the_exact_motion(done):
    """A homogeneous ball keeps ω and ends at r ω t, so mean and deviation of the end follow from those drawn."""
    said = summary(done)
    assert said["trajectories"] == 300
    assert said["failed"] == 0
    end = said["statistics"]["quantities"]["end_x"]
    assert abs(end["mean"] - 0.1) < 4 * end["mean_error"]
    assert abs(end["std"] - 0.02) < 4 * end["std_error"]
    force = said["statistics"]["quantities"]["min_normal_force"]
    median = force["quantiles"]["0.5"]
    assert abs(median["value"] - 9.81) < 4 * median["error"]  # g times the median of the mass


def test_files_are_there(done):
    names = {path.name for path in done.iterdir()}
    assert names >= {
        "fan.png",
        "growth.png",
        "landing.png",
        "histograms.png",
        "report.html",
        "values.zarr",
    }
    assert set(summary(done)["files"]) <= names
    assert (
        "the motion shown and its numbers are the nominal ones"
        in (done / "report.html").read_text()
    )


def test_resumed_run_has_the_same_statistics(scenario, done, tmp_path):
    """A block is removed, as if the run had been killed; resuming gives the same statistics."""
    before = json.dumps(summary(done)["statistics"])
    chunk = done / "values.zarr" / "c" / "1" / "0"
    assert chunk.is_file()
    chunk.unlink()
    again = jaxhamel(
        "montecarlo", scenario, "--trajectories", 300, "--seed", 4, "--out", done, "--resume"
    )
    assert again.exit_code == 0, again.stderr
    assert json.dumps(summary(done)["statistics"]) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seed", "5"], "holds a run already (300 trajectories, seed 4); nothing was changed"),
        (["--seed", "5", "--resume"], "holds another run: its `seed` is 4, asked for is 5"),
        (
            ["--seed", "4", "--resume", "--set", "time.end=2"],
            "holds another run: its `about.time.end` is 1.0, asked for is 2",
        ),
    ],
)
def test_folder_with_a_run_is_left_alone(scenario, done, arguments, message):
    before = {path: path.read_bytes() for path in done.glob("*.json")}
    found = jaxhamel("montecarlo", scenario, "-n", "300", "--out", done, *arguments)
    assert found.exit_code == 2
    assert message in found.stderr
    assert {path: path.read_bytes() for path in done.glob("*.json")} == before


def test_one_trajectory_again_alone(scenario, done, tmp_path):
    """One trajectory of the ensemble, run alone by its index, has the same parameters and the same end."""
    import zarr

    out = tmp_path / "one"
    arguments = ["-n", 300, "--seed", 4, "--index", 17]
    found = jaxhamel("montecarlo", scenario, *arguments, "--out", out)
    assert found.exit_code == 0, found.stderr
    said = summary(out)
    omega = said["sample"]["initial.u"]
    table = zarr.open_array(done / "values.zarr", mode="r")
    column = list(table.attrs["columns"]).index("end_x")
    np.testing.assert_allclose(table[17, column], 0.1 * (1 + omega[1]), rtol=1e-6)
    assert (said["index"], said["seed"]) == (17, 4)
    end = np.loadtxt(out / "trajectory.csv", delimiter=",", skiprows=1)[-1]
    assert np.isclose(end, 0.1 * (1 + omega[1]), atol=1e-6).any()
    before = (done / "summary.json").read_bytes()
    for command, more in (("montecarlo", arguments), ("simulate", [])):
        refused = jaxhamel(command, scenario, *more, "--out", done)
        assert refused.exit_code == 2
        assert "the folder has an ensemble (values.zarr); nothing was changed" in refused.stderr
    assert (done / "summary.json").read_bytes() == before
    refused = jaxhamel("montecarlo", scenario, "-n", 300, "--out", out)
    assert refused.exit_code == 2
    assert "the folder has another command's result; nothing was changed" in refused.stderr
    refused = jaxhamel("montecarlo", scenario, "-n", 10, "--index", 10, "--out", tmp_path / "no")
    assert refused.exit_code == 2
    assert "there is no trajectory 10; there are 10, counted from 0 to 9" in refused.stderr


def model_of(scenario, *changes):
    from jaxhamel.cli._objects._build import build_control, build_initial, build_system
    from jaxhamel.cli._objects._ensemble_model import EnsembleModel
    from jaxhamel.cli._objects._spread import Nominal
    from jaxhamel.cli._scenario._scenario import load

    told = load(str(scenario), list(changes))
    system = build_system(told)
    return EnsembleModel(told, Nominal(system, *build_initial(told), build_control(told, system)))


def test_steps_by_tolerance_end_where_equal_steps_do(scenario):
    """With adaptive steps, too, a homogeneous ball keeps ω and ends at r ω t."""
    model = model_of(scenario, "montecarlo.rtol=1e-8")
    assert model.steps == {"rtol": 1e-8, "atol": 1e-10}
    more = np.random.default_rng(0).normal(0.0, 0.2, (5, 3))
    found, path = model({"initial.u": more})
    np.testing.assert_allclose(found["end_x"], 0.1 * (1 + more[:, 1]), rtol=1e-6)
    np.testing.assert_array_equal(found["end_y"], path[:, -1, 1])


def test_balls_that_leave_the_ground_count_as_slipping_and_stay_in_the_statistics(scenario):
    """With a weight above the centre N = m (g − ρ ω²) at the start, negative beyond ω = 19.8 rad/s."""
    model = model_of(scenario, "system.shell_com=[0.0, 0.0, 0.025]", "montecarlo.dt=0.005")
    more = np.array([[0.0, 5.0, 0.0], [0.0, 20.0, 0.0], [0.0, 30.0, 0.0]])  # added to ω_y = 1
    found = {name: np.asarray(x) for name, x in model({"initial.u": more})[0].items()}
    leaves = found["min_normal_force"] <= 0
    np.testing.assert_array_equal(leaves, [False, True, True])
    assert all(np.all(np.isfinite(x)) for x in found.values())
    assert np.all(found["max_friction"] >= 0)
    statistics = _statistics(SimpleNamespace(values=found, statistics={}), 1e9)
    assert statistics["lift_off"]["probability"] == pytest.approx(2 / 3)
    assert statistics["slip"]["probability"] == pytest.approx(
        2 / 3
    )  # no friction coefficient is large enough


def test_stops_at_an_accuracy(scenario, tmp_path):
    """The end has the deviation 0.2 rad/s · 0.1 m · 1 s, so its mean has the error 0.02/√256 = 0.00125 after the first
    block."""
    arguments = ["-n", 600, "--accuracy", "end_x=0.0014", "--out", tmp_path]
    found = jaxhamel("montecarlo", scenario, *arguments)
    assert found.exit_code == 0, found.stderr
    assert summary(tmp_path)["trajectories"] == 256
    for said, message in {
        "end_x": "is not of the form QUANTITY=ERROR",
        "end=1": "`accuracy` names 'end', which `model` does not give",
    }.items():
        refused = jaxhamel("montecarlo", scenario, "--accuracy", said, "--out", tmp_path / "no")
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert not (tmp_path / "no").exists()


def test_no_trajectories_at_all(scenario, tmp_path):
    refused = jaxhamel("montecarlo", scenario, "-n", 0, "--out", tmp_path / "no")
    assert refused.exit_code == 2
    assert "`trajectories` is 0; it must be a whole number, at least 1" in refused.stderr
    assert not (tmp_path / "no").exists()


def test_interrupted_run_says_how_to_go_on(tmp_path, capfd):
    """Ctrl-C ends with status 130 and one line about the files and --resume."""

    def job():
        (tmp_path / "values.zarr").mkdir()
        raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as found:
        finish("circle", Terminal(quiet=True), tmp_path, job, resumable="values.zarr")
    assert found.value.exit_code == 130
    said = capfd.readouterr().err
    assert (
        said
        == f"jaxhamel: circle: interrupted. The results so far are in {tmp_path}; go on with --resume.\n"
    )


def test_full_disk_is_one_line(scenario, tmp_path, monkeypatch):
    """A full disk ends with status 1 and one line that says how many trajectories are kept."""

    def full(self, rows, values):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("zarr.Array.__setitem__", full)
    found = jaxhamel("montecarlo", scenario, "-n", 300, "--out", tmp_path)
    assert found.exit_code == 1
    assert "No space left on device: " in found.stderr
    assert "the 0 trajectories written before are kept" in found.stderr
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("montecarlo.spread.0.key=system.shel_mass", "Did you mean `system.shell_mass`?"),
        ("montecarlo.spread.0.key=control.offset", "which is no number of this scenario"),
        (
            "montecarlo.spread.0.relative=true",
            "is relative, but an entry of the scenario's value is 0",
        ),
        ("montecarlo.dt=0", "`montecarlo.dt` is 0; it must be a number larger than 0"),
        ("montecarlo.spread=[]", "`montecarlo.spread` is missing"),
        ("montecarlo.sampler=lhs", '`montecarlo.sampler` is "lhs"; it must be one of "random"'),
    ],
)
def test_bad_scenarios_are_refused(scenario, tmp_path, change, message):
    found = jaxhamel("montecarlo", scenario, "--out", tmp_path / "out", "--set", change)
    assert found.exit_code == 2
    assert message in found.stderr
    assert not (tmp_path / "out").exists()


def test_parameters_that_cannot_be_are_named_with_their_trajectory(scenario, tmp_path):
    data = SCENARIO.replace('distribution = "lognormal"\nsigma = 0.1', "std = 0.6")
    assert data != SCENARIO
    path = tmp_path / "wide.toml"
    path.write_text(data)
    found = jaxhamel("montecarlo", path, "-n", "200", "--out", tmp_path / "out")
    assert found.exit_code == 2
    assert "draw parameters that are not valid: in trajectory" in found.stderr
    assert "`system.shell_mass`" in found.stderr
    assert not (tmp_path / "out").exists()


def test_ends_have_the_names_of_the_columns_and_their_units():
    """The last state of three carts with a pole, under the names of trajectory.csv."""
    states = np.arange(12.0).reshape(3, 2, 2)
    cart = CartPole()
    found = _of_any(Motions(cart, None, Nominal(None, None, None, None), states, -states))
    assert list(found) == ["end_x", "end_theta", "end_x_dot", "end_theta_dot"]
    np.testing.assert_array_equal(found["end_theta"], [3.0, 7.0, 11.0])
    np.testing.assert_array_equal(found["end_x_dot"], [-2.0, -6.0, -10.0])
    labels = _labels_of_ends(ShownMotion(cart, None, np.arange(2.0), states[0], states[0]))
    assert labels["end_theta_dot"] == "θ\u0307 at the end / (rad/s)"


def test_paths_and_coordinates_of_a_system_without_a_ball():
    """Displaced copies of a motion have displaced paths, also where the nominal path is a line; copies on this line have
    none. A coordinate of an unnamed pose has the unit of its group."""
    ts = np.linspace(0.0, 1.0, 5)
    nominal = np.column_stack([0.0 * ts, ts, 0.0 * ts])
    run = ShownMotion(KnifeEdge(1.0, 1.0, 0.0), None, ts, nominal, np.zeros((5, 2)))
    shifts = np.array([[0.0, 0.1, 0.0], [0.0, 0.0, 0.3], [0.0, -0.2, 0.1]])
    fan, growth, landing = _traced_charts(ts, nominal + shifts[:, None], run)
    drawn = fan.figure.axes[0].lines
    for line, shift in zip(drawn, shifts, strict=False):
        np.testing.assert_allclose(line.get_xydata(), nominal[:, 1:] + shift[1:], atol=1e-12)
    assert fan.figure.axes[0].get_ylabel() == "y / m"
    away = np.linalg.norm(shifts, axis=1)
    np.testing.assert_allclose(growth.figure.axes[0].lines[0].get_ydata(), np.median(away))
    assert landing.name == "landing"
    assert not _traced_charts(ts, nominal + shifts[:1, None], run)
    (chart,) = _coordinate_charts(ts, nominal + shifts[:, None], run)
    panels = chart.figure.axes
    assert [x.get_ylabel() for x in panels] == ["angle / rad", "x / m", "y / m"]
    np.testing.assert_allclose(panels[1].lines[0].get_ydata(), ts)
    assert panels[2].get_ylim()[1] > 0.2
