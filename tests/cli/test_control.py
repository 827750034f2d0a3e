"""`jaxhamel control`: from a task to a solution that `simulate` replays, and how a search may end."""

import json
import logging
import re

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _control
from jaxhamel.cli._commands._control import progress
from jaxhamel.cli._interrupt import guard
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.control import figure_eight_ball

# Four short intervals of the arc are quick to solve.
SHORT = (
    "time.end=1.2",
    "task.coefficients=9",
    "task.ramp=1.0",
    "task.steps=4",
    "task.max_seconds=600",
    "task.goal=6e-3",
)


class Listening(logging.Handler):
    """Records the names of the programs that JAX compiles in this thread, while it logs them."""

    def __init__(self):
        super().__init__()
        self.names = set()

    def emit(self, record):
        self.names.update(re.findall(r"jit\(\w+\)", record.getMessage()))


def jaxhamel(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def changes(*pairs):
    return [part for pair in pairs for part in ("--set", pair)]


@pytest.fixture(scope="module")
def solved(tmp_path_factory):
    """A solved task. The programs for its result are compiled in another thread during the search, from the starting
    control."""
    folder = tmp_path_factory.mktemp("control")
    with pytest.MonkeyPatch.context() as patch, jax.log_compiles():  # logs only this thread
        patch.setattr("jaxhamel.cli._commands._simulate.cores", lambda: 2)
        listening = Listening()
        patch.setattr(logging.getLogger("jax"), "handlers", [listening])
        result = jaxhamel("control", "circle", "--out", folder, *changes(*SHORT))
    assert result.exit_code == 0, result.stderr
    assert "jit(after_steps)" in listening.names
    assert not listening.names & {"jit(_solve)", "jit(_measurements)", "jit(_mapped)"}
    return folder, result


def summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


def rows(folder):
    return np.loadtxt(folder / "trajectory.csv", delimiter=",", skiprows=1)


def test_solves_and_says_what_it_reached(solved):
    folder, result = solved
    said = summary(folder)
    assert said["status"] == "success"
    reached = said["reached"]
    assert reached["converged"] is True
    assert reached["tracking_rms"] < 6e-3  # the goal of the task
    assert reached["min_normal_force"] > 20
    assert 0 < reached["friction_needed"] < 0.2
    assert "tracking RMS" in result.stderr
    assert "iteration   1  cost" in result.stderr


def test_writes_every_file(solved):
    folder, _ = solved
    written = {path.name for path in folder.iterdir()}
    figures = {f"{name}.png" for name in ("path", "error", "angles", "forces", "cost")}
    assert written == figures | {"summary.json", "trajectory.csv", "report.html", "solution.toml"}
    assert set(summary(folder)["files"]) == written


def test_solution_is_a_scenario_that_simulate_replays(solved, tmp_path):
    """At the times of the solution, `simulate` gives the same rows."""
    folder, _ = solved
    first = rows(folder)
    many = changes(f"time.samples={len(first)}")
    replayed = jaxhamel("simulate", folder / "solution.toml", "--out", tmp_path, *many)
    assert replayed.exit_code == 0, replayed.stderr
    np.testing.assert_allclose(rows(tmp_path), first, atol=1e-6)


def before_page(monkeypatch, module, last):
    """Records the summary and the time limit's message just before the function `last` of a module is called."""
    seen, own = [], getattr(module, last)

    def called(out, *rest):
        seen.extend([summary(out), guard._stands, guard.keeps])
        return own(out, *rest)

    monkeypatch.setattr(module, last, called)
    return seen


def test_search_that_is_told_to_stop_is_no_failure(tmp_path, monkeypatch):
    """A search out of iterations has the status "stopped". Its control is on disk before the figures, which the time
    limit may end."""
    before = before_page(monkeypatch, _control, "write_all")
    few = changes(*SHORT, "task.max_iterations=2", "task.goal=0")
    result = jaxhamel("control", "circle", "--out", tmp_path, "--max-seconds", 500, "-q", *few)
    assert result.exit_code == 0, result.stderr
    assert result.output == ""
    said = summary(tmp_path)
    assert said["status"] == "stopped"
    assert "out of iterations (2)" in said["message"]
    assert said["message"][1:] in (tmp_path / "report.html").read_text(encoding="utf-8")
    drawn, words, keeps = before
    assert (drawn["status"], drawn["reached"]["cost"]) == ("stopped", said["reached"]["cost"])
    assert drawn["files"] == ["summary.json", "solution.toml", "search.npz"]
    assert "the 500 s were over before all figures were written; the control is in" in words
    assert not keeps  # Ctrl-C would now end the command at once
    few[-4:] = changes("task.max_iterations=4", "task.goal=1e-9")
    further = jaxhamel(
        "control", "circle", "--out", tmp_path, "--max-seconds", 500, "--resume", *few
    )
    assert further.stderr.rstrip().endswith("report.html; go on with --resume")
    assert summary(tmp_path)["reached"]["cost"] < said["reached"]["cost"]


def test_search_that_fails_exits_1_and_keeps_what_it_has(tmp_path):
    # A single step from a distant start cannot close the gaps between the intervals.
    few = changes(*SHORT, "task.max_iterations=1", "task.perturbation=2.0")
    result = jaxhamel("control", "circle", "--out", tmp_path, "--seed", 3, *few)
    assert result.exit_code == 1
    assert "the search failed:" in result.stderr
    assert "Go on with --resume and more time or iterations" in result.stderr
    assert summary(tmp_path)["status"] == "failed"
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    ("scenario", "change", "message"),
    [
        ("heavy-top", "time.end=1", "`task` is missing; control needs a table [task]"),
        ("circle", "time.start=1", "`time.start` is 1; a [task] starts at 0."),
        ("circle", "initial.position=[1,0]", "`initial.position` is [1.0, 0.0]; a path of [task]"),
        ("circle", "task.rest=[0,0]", "`task.rest` has 2 entries; it must have 3"),
        ("circle", "task.ramp=100", "`task.ramp`"),
        ("circle", "task.steps=3", "`task.steps`"),
        ("circle", "task.lower=[1,1,1]", "`task.upper` has 0 entries; it must have 3"),
        ("circle", "task.radius=0", "`task.radius` is 0; it must be a number larger than 0 (m)"),
        ("circle", "task.size=3", '`task.size` is not a key of `task` of a "circle"'),
        (
            "circle",
            "task.coefficients=8.5",
            "`task.coefficients` is 8.5; it must be a whole number",
        ),
    ],
)
def test_bad_task_exits_2_with_one_line(tmp_path, scenario, change, message):
    result = jaxhamel("control", scenario, "--out", tmp_path / "out", "--set", change)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_task_is_for_a_ball():
    from jaxhamel.cli._objects._task import build_problem
    from jaxhamel.cli._scenario._scenario import Scenario
    from jaxhamel.cli._scenario._validate import ScenarioError

    disk = load("disk")
    tables = {**disk.tables, "task": load("circle")["task"]}
    with pytest.raises(ScenarioError, match='"actuated-disk", which has no coordinates x and y'):
        build_problem(Scenario("disk", tables), 0)


def test_figure_eight_scenario_is_the_ball_of_the_stored_solution():
    import equinox as eqx

    from jaxhamel.cli._objects._build import build_system

    assert eqx.tree_equal(build_system(load("figure-eight")), figure_eight_ball(), rtol=1e-15)


def test_seed_changes_the_start_only_where_asked():
    from jaxhamel.cli._objects._task import build_problem

    still = load("circle", SHORT)
    moved = load("circle", (*SHORT, "task.perturbation=0.1"))
    coefficients = [
        np.asarray(build_problem(scenario, seed).curve.coefficients)
        for scenario, seed in ((still, 0), (still, 1), (moved, 0), (moved, 0), (moved, 1))
    ]
    np.testing.assert_array_equal(coefficients[0], coefficients[1])
    np.testing.assert_array_equal(coefficients[2], coefficients[3])
    assert np.abs(coefficients[2] - coefficients[4]).max() > 0.01
    assert 0.05 < np.std(coefficients[2] - coefficients[0]) < 0.2


def test_progress_line_says_cost_error_and_time():
    from jaxhamel.control import Progress

    line = progress(Progress(12, 0.034, 0.00072, 1e-7, 1.0, True, 31.4, 58.6))
    assert line == (
        "iteration  12  cost 3.400e-02  tracking 0.72 mm  31 s, at most 59 s left  gap 1e-07"
    )
    assert line.index("gap") < 80  # the time left is visible in a narrow terminal
