"""`jaxhamel montecarlo`: its files, resuming, what it refuses."""

import json

import pytest
from test_cli_simulate import jaxhamel

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


def test_statistics_are_those_of_the_exact_motion(done):
    """A homogeneous ball keeps ω: it ends at r ω t, its mean and deviation those of what was drawn."""
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
    assert names >= {"fan.png", "landing.png", "histograms.png", "report.html", "values.zarr"}
    assert set(summary(done)["files"]) <= names
    assert "moving ball is the nominal one" in (done / "report.html").read_text()


def test_resumed_run_has_the_same_statistics(scenario, done, tmp_path):
    """Half of it is taken away, as if it had been killed there."""
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
    ],
)
def test_folder_with_a_run_is_left_alone(scenario, done, arguments, message):
    before = {path: path.read_bytes() for path in done.glob("*.json")}
    found = jaxhamel("montecarlo", scenario, "-n", "300", "--out", done, *arguments)
    assert found.exit_code == 2
    assert message in found.stderr
    assert {path: path.read_bytes() for path in done.glob("*.json")} == before


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
    assert "draws parameters that cannot be: in trajectory" in found.stderr
    assert "`system.shell_mass`" in found.stderr
    assert not (tmp_path / "out").exists()
