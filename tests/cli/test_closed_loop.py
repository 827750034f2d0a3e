"""`[feedback]` of `jaxhamel control`: robots with other parameters than the plan's, with and without feedback; error
messages."""

import json

import numpy as np
import pytest

from jaxhamel.cli._closed_loop._loop import check_loop_tables
from jaxhamel.cli._closed_loop._loop_measured import (
    LoopMeasures,
    unit_of_commands,
    unit_of_distance,
)
from jaxhamel.cli._commands import _control, _simulate
from jaxhamel.cli._commands._closed_loop_report import _loop_numbers
from jaxhamel.cli._objects._task import build_problem
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control._figure_eight import figure_eight_curve
from jaxhamel.control._result import report
from jaxhamel.geometry import SO3, Euclidean, Product
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import OMEGA, ORIENTATION, Part, State
from tests.cli.test_control import changes, jaxhamel

BALL = (
    "time.end=1.2",
    "task.coefficients=9",
    "feedback.period=0.02",
    "feedback.delay=0.02",
    "sensors.noise=[1e-4,1e-4,1e-4, 1e-4,1e-4, 1e-4,1e-4,1e-4, 1e-3,1e-3,1e-3, 1e-3,1e-3,1e-3]",
    "sensors.bias=[0,0,0, 1e-4,1e-4, 0,0,0, 0,0,0, 0,0,0]",
    "closed_loop.trajectories=16",
    "closed_loop.tolerance=0.015",
    'closed_loop.spread=[{key="system.masses",std=0.02,relative=true},{key="initial.u",std=0.15}]',
)


def found_at_once(problem, search, terminal, so_far):
    """Returns the stored solution instead of searching."""
    history = {"cost": np.ones(1), "defect": np.zeros(1)}
    return report(problem, figure_eight_curve(), 1.0, 0.0, history, 0.0, True, "stored")


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """Result of the command for the first 1.2 s of the figure-eight."""
    folder, own = tmp_path_factory.mktemp("closed"), _control.closed_about
    before = []

    def closed_about(*given):
        before.append(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
        return own(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_control, "closed_about", closed_about)
        patch.setattr(_simulate, "cores", lambda: 1)
        patch.setattr(_control, "_result_of_search", found_at_once)
        options = changes(*BALL)
        result = jaxhamel("control", "figure-eight", "--out", folder, "--seed", 3, *options)
    assert result.exit_code == 0, result.stderr
    said = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert said["status"] == "success"
    assert before[0]["status"] == "interrupted"  # what a signal in the closed loop would leave
    assert before[0]["message"] == f"{said['message']}; ended before all figures were written"
    return folder, said, result.stderr


def test_numbers_of_the_closed_loop(closed):
    """All robots follow with feedback, with smaller errors than without it; forces are near the weight of 24.5 N."""
    _, said, _ = closed
    numbers = said["closed_loop"]
    assert numbers["trajectories"] == 16
    assert numbers["failed"] == 0
    assert numbers["completed"] == 1.0
    share = numbers["failed_share"]
    assert share["low"] == 0.0
    np.testing.assert_allclose(
        share["high"], 1.96**2 / (16 + 1.96**2), rtol=1e-3
    )  # upper end of Wilson's interval
    assert numbers["tracking_rms"] <= numbers["tracking_rms_95"] <= numbers["tracking_rms_max"]
    assert numbers["tracking_rms_max"] < 0.015
    without = numbers["open_loop"]
    assert without["tracking_rms_95"] > 1.3 * numbers["tracking_rms_95"]
    assert 20 < numbers["min_normal_force"] < 24.6
    assert (
        numbers["min_normal_force_completed"] == numbers["min_normal_force"]
    )  # all robots completed the path
    assert 0 < numbers["max_friction"] < 0.3


def test_extremes_are_those_of_robots_that_did_not_break_down():
    error = np.array([[0.01, 0.03], [0.02, np.nan], [0.5, 0.5]])
    force = np.zeros((3, 2, 3)) + np.array([1.0, 0.0, 10.0])
    force[1, 1] = np.nan
    force[2, 1, 2] = 5.0
    found = _loop_numbers(
        LoopMeasures(np.arange(2.0), error, None, force, np.array([3.0, np.nan, 4.0])), 0.1
    )
    assert (found["failed"], found["broken_down"]) == (2, 1)
    assert found["tracking_rms_max"] == pytest.approx(0.5)
    assert (found["largest_command"], found["min_normal_force"]) == (4.0, 5.0)
    assert found["min_normal_force_completed"] == 10.0
    assert found["max_friction"] == pytest.approx(0.2)
    none = _loop_numbers(
        LoopMeasures(np.arange(2.0), error[1:2], None, force[1:2], np.array([np.nan])), 0.1
    )
    assert none["largest_command"] is none["min_normal_force"] is none["max_friction"] is None


class Body(System):
    """A body on SO(3) with a slide, whose class gives no units."""

    space = Product(SO3(), Euclidean(1))
    n_controls = 2


class Named(Body):
    state_names = State(
        (ORIENTATION, Part("slide", ("s",), "m")),
        (OMEGA, Part("speed", ("v",), "m/s")),
        (Part("torque", ("torque",), "N m"), Part("force", ("force",), "N")),
    )


class Turning(Body):
    space = SO3()


@pytest.mark.parametrize(
    ("cls", "distance", "commands"),
    [(Body, "", ""), (Named, "m, rad", "N, N m"), (Turning, "rad", "")],
)
def test_units_are_those_that_a_class_gives(cls, distance, commands):
    """Rotations are in rad; without a unit of any other coordinate, or of a control, there is none."""
    assert unit_of_distance(cls()) == distance
    assert unit_of_commands(cls(), 2) == commands
    assert unit_of_commands(cls(), 3) == ""  # another number of controls than the class names


def test_files_and_page_of_the_closed_loop(closed):
    folder, said, stderr = closed
    figures = {f"closed-loop-{name}.png" for name in ("paths", "errors", "ends", "robots")}
    assert figures <= {path.name for path in folder.iterdir()}
    assert figures <= set(said["files"])
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "a robot in closed loop" in page
    assert "With feedback 100 % of 16 robots follow it" in page
    assert "16 robots in closed loop" in stderr


@pytest.fixture(scope="module")
def problem():
    return build_problem(load("figure-eight"), 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("feedback.kind=pid", '`feedback.kind` is "pid"; it must be one of "gains", "law", "tvlqr": a controller'),
        ("feedback.gains=[1]", "`feedback.gains` is not a key of `feedback`"),
        ("feedback.period=0", "`feedback.period` is 0; it must be a number larger than 0 (s)"),
        ("feedback.period=60", "`feedback.period` is 60 s, longer than the plan, 20 s"),
        ("feedback.delay=0.015", "`feedback.delay` is 0.015 s, no multiple of `feedback.period`, 0.01 s"),
        ("feedback.state_weights=[1,2]", "`feedback.state_weights` has 2 entries; it must have 14"),
        ("feedback.control_weights=[1,1,0]", "`feedback.control_weights` has an entry of 0"),
        ("sensors.noise=[1]", "`sensors.noise` has 1 entry; it must have 14"),
        ("sensors.resolution=[" + "-1," * 13 + "1]", "`sensors.resolution` has a negative entry"),
        ("closed_loop.trajectories=0", "`closed_loop.trajectories` is 0"),
        ("closed_loop.spread.0.key=system.mas", "`closed_loop.spread.0.key` is \"system.mas\""),
        ("closed_loop.spread.0.key=control.offset", "which is no number of this scenario"),
        ("closed_loop.spread.0.std=3", "`system.masses`"),
    ],
)  # fmt: skip
def test_bad_loop(problem, change, message):
    """A bad table is refused before the search, in one line that names the key."""
    with pytest.raises(ScenarioError) as refused:
        check_loop_tables(load("figure-eight", [change]), problem, 0)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_bad_loop_ends_the_command_before_the_search(tmp_path):
    change = "feedback.delay=0.015"
    result = jaxhamel("control", "figure-eight", "--out", tmp_path / "out", "--set", change)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "no multiple of `feedback.period`" in result.stderr
    assert not (tmp_path / "out").exists()
