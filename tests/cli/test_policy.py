"""`[policy]` of `jaxhamel control`: a network that corrects the regulator, trained, interrupted and continued."""

import json
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.cli._closed_loop._loop import regulator_of
from jaxhamel.cli._commands import _plan
from jaxhamel.cli._commands._closed_loop_report import curve_of, interrupted
from jaxhamel.cli._commands._early import check_of_control
from jaxhamel.cli._commands._training import PLAN, TrainingFolder, trained_policy
from jaxhamel.cli._objects._plan import build_plan
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._results._folder import TRAINING
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._search_file import _scenario_text
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import MotionPlan

GIVEN = (
    'feedback.kind="tvlqr"',
    "feedback.period=0.25",
    "policy.layers=1",
    "policy.units=2",
    "policy.robots=3",
    "policy.updates=3",
    'closed_loop.spread=[{key="initial.q",std=0.1}]',
)


class Terminal:
    """Records its lines, and raises KeyboardInterrupt at the update `stop`."""

    def __init__(self, stop: int = 0):
        self.lines, self.stop, self.updating = [], stop, nullcontext

    def say(self, line):
        self.lines.append(line)

    def update(self, line):
        self.lines.append(line)
        if line.startswith(f"update    {self.stop} "):
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def problem():
    return build_plan(PreparedRun.of(load("unicycle-sideways", GIVEN)))


def training(problem, out, *changes, resume=False, stop=0, seconds=None):
    """Trains a policy about a unicycle that drives straight ahead; returns the result and the lines shown."""
    scenario, terminal = load("unicycle-sideways", [*GIVEN, *changes]), Terminal(stop)
    folder = TrainingFolder(out, terminal, resume, time.monotonic(), seconds)  # pyright: ignore
    folder.begin()
    ts = jnp.linspace(0.0, 1.0, 5)
    q = jnp.stack([0 * ts, ts, 0 * ts], axis=1)
    plan = folder.plan(MotionPlan(problem.system, ts, q, jnp.zeros((5, 0)), problem.curve))
    law = regulator_of(scenario, plan)
    return trained_policy(scenario, problem, plan, law, 4, 0, folder), terminal.lines


def test_a_training_that_goes_on_ends_with_the_same_numbers(problem, tmp_path):
    """Training interrupted by Ctrl-C and by the time limit, then resumed, ends with the numbers of an uninterrupted
    one. The plan is that of the first run."""
    whole, lines = training(problem, tmp_path)
    assert whole.summary["outcome"] == "finished"
    assert lines[-2].startswith("update    3 of 3  cost ")
    assert lines[-1] == "unicycle-sideways: the training has ended, after 3 updates."
    np.testing.assert_allclose(whole.costs[0], 1.0, rtol=1e-12)  # the regulator's cost
    assert whole.costs[2] < whole.costs[1] < whole.costs[0]
    first, _ = training(problem, tmp_path, stop=1)
    assert first.interrupted
    assert first.costs.shape == (1,)
    late, _ = training(problem, tmp_path, resume=True, seconds=0.0)
    assert (late.summary["outcome"], late.summary["updates"]) == ("stopped", 2)
    moved = SimpleNamespace(system=problem.system, q0=problem.q0, u0=problem.u0, ts=problem.ts)
    moved.curve = jax.tree.map(lambda x: 1.1 * x, problem.curve)
    again, _ = training(moved, tmp_path, resume=True)
    np.testing.assert_array_equal(again.costs, whole.costs)
    for one, other in zip(*map(jax.tree.leaves, (whole.network, again.network)), strict=True):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(ScenarioError, match=r"--resume: .*of another policy.*without --resume"):
        training(problem, tmp_path, "policy.units=3", resume=True)
    (tmp_path / PLAN).write_text("nothing")
    with pytest.raises(ScenarioError, match=r"--resume: .*plan.npz cannot be read"):
        training(problem, tmp_path, resume=True)


def test_an_interrupted_training_is_in_the_summary(problem, tmp_path):
    policy, _ = training(problem, tmp_path, stop=1)
    scenario = load("unicycle-sideways", GIVEN)
    found = interrupted(Outcome("control", scenario, "success", "solved", 0.0), policy)
    said = found.summary([])
    assert said["status"] == "interrupted"
    assert said["policy"]["updates"] == 1
    assert {TRAINING, PLAN} <= set(said["files"])
    assert "after 1 update of the policy; go on with --resume" in said["message"]
    assert curve_of(policy).figure.axes[0].get_xlabel() == "update"


@pytest.mark.parametrize(("found", "left"), [("success", "interrupted"), ("failed", "failed")])
def test_a_signal_before_the_first_update_leaves_no_success(found, left, tmp_path, monkeypatch):
    """The summary of the plan, which is on disk while the training compiles, is not that of a successful command."""

    class Signal(BaseException):
        pass

    def signalled(*_):
        raise Signal

    monkeypatch.setattr(_plan, "closed_about", signalled)
    monkeypatch.setattr(_plan, "_write_tables", lambda *_: None)
    monkeypatch.setattr(_plan, "_feasible", lambda _: True)
    scenario = load("unicycle-sideways", GIVEN)
    planned: Any = (
        Outcome("control", scenario, found, "solved", 0.0),
        None,
        tmp_path,
        Terminal(),
        0,
        9.0,
        None,
    )
    with pytest.raises(Signal):
        _plan._with_closed_loop(*planned)
    said = json.loads((tmp_path / "summary.json").read_text(encoding="utf-8"))
    assert said["status"] == left


def test_more_updates_are_no_other_search():
    """The number of updates and the time limits may change on resuming; the network may not."""
    one, more, other = (
        _scenario_text(load("unicycle-sideways", [*GIVEN, change]))
        for change in ("policy.updates=9", "policy.max_seconds=9", "policy.units=9")
    )
    assert one == more != other


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("unicycle-sideways", ["policy.units=2"], "`policy` needs [feedback]"),
        ("figure-eight", ["policy.units=2"], '`task.path` is "figure-eight", which is not solved by it'),
        ("unicycle-sideways", ["policy.layers=[2]"], "`policy.layers` is [2]; it must be a whole number"),
    ],
)  # fmt: skip
def test_bad_policy(tmp_path, name, changes, message):
    """A bad policy is refused before the search, in one line that names the key."""
    with pytest.raises(ScenarioError) as refused:
        load(name, changes, check=check_of_control(tmp_path / "out", None, resume=False))
    assert message in str(refused.value)
