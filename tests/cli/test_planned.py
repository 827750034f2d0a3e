"""`jaxhamel control` on tasks solved by collocation: built-in problems, a user's own system, and how they end.

The cost of the satellite is that of docs/optimal_control_problems.md. The cart's is 12 m² d²/T³ (Bryson and Ho 1975,
ch. 2), and the transfer needs at least the force 4 m d/T², half of the time in each direction.
"""

import csv
import json
import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

from jaxhamel.cli._app import app
from jaxhamel.cli._commands import _plan
from jaxhamel.cli._interrupt import Guard, guard
from jaxhamel.cli._objects._plan import PROBLEMS, build_plan
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._scenario._plan_schema import BUILT_IN
from jaxhamel.cli._scenario._scenario import built_in, load
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.ensemble import Distribution, Samples
from jaxhamel.viz._motion._plan_page import Interpolated
from tests.cli.test_control import Listening

OWN = """
import jax
import jax.numpy as jnp
import jaxhamel


class Cart(jaxhamel.System):
    mass: jax.Array = jaxhamel.parameter("of the cart", "kg", (), positive=True, example=2.0)
    space = jaxhamel.Euclidean(1)
    n_controls = 1

    def lagrangian(self, t, q, v):
        return 0.5 * self.mass * jnp.sum(v * v)

    def force(self, t, q, v, control):
        return jnp.zeros_like(v) if control is None else control
"""
TASK = """
[system]
mass = 2.0

[initial]
q = [1.0]

[task]
path = "to-point"
duration = 2.0
q = [4.0]
u = [0.0]

[method]
intervals = 2
degree = 3
"""
# 16 carts with random initial velocities
LOOP = """
[feedback]
kind = "tvlqr"
period = 0.02
delay = 0.04
state_weights = [100.0, 10.0]
control_weights = [1.0]

[closed_loop]
trajectories = 16

[[closed_loop.spread]]
key = "initial.u"
std = 0.1
"""


def jaxhamel(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def changes(*pairs):
    return [part for pair in pairs for part in ("--set", pair)]


def summary(folder):
    return json.loads((folder / "summary.json").read_text(encoding="utf-8"))


@pytest.fixture
def cart(tmp_path):
    (tmp_path / "cart.py").write_text(OWN, encoding="utf-8")
    (tmp_path / "cart.toml").write_text(TASK, encoding="utf-8")
    return [tmp_path / "cart.toml", "--system", f"{tmp_path / 'cart.py'}:Cart"]


def test_satellite_turns_at_the_reference_cost(tmp_path):
    """From a cold start on a coarse mesh the cost is that of CasADi with IPOPT, J = 199.923721699."""
    changed = changes("method.intervals=8")
    result = jaxhamel("control", "satellite-turn", "--out", tmp_path, *changed)
    assert result.exit_code == 0, result.stderr
    said = summary(tmp_path)
    wanted = 199.923721699
    assert said["reached"]["cost"] == pytest.approx(wanted, rel=2e-9)
    assert said["reached"]["end_time"] == 10.0
    assert said["certificate"]["holds"] is True
    assert said["certificate"]["stationarity"] < 1e-8
    assert said["certificate"]["violation"] < 1e-7
    assert said["certificate"]["second_order"] in ("strict minimum", "minimum, not isolated")
    assert set(said["files"]) == {path.name for path in tmp_path.iterdir()}
    assert {"control.png", "costates.png", "control.csv", "costates.csv"} <= set(said["files"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "its certificate holds" in page
    assert "Costates" in page
    with open(tmp_path / "control.csv", encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["t", "wheel_rate_1", "wheel_rate_2"]
    t, *rates = np.array(rows, dtype=float).T
    assert np.trapezoid(sum(x**2 for x in rates), t) == pytest.approx(wanted, rel=1e-3)


@pytest.fixture
def before_examined(monkeypatch):
    """Records summary.json and the time limit's message while a result is being examined."""
    monkeypatch.setattr("jaxhamel.cli._commands._simulate.cores", lambda: 1)
    seen, own = [], _plan.CollocationSearch.result

    def result(search, ending):
        seen.append(guard._stands)
        return own(search, ending)

    monkeypatch.setattr(_plan.CollocationSearch, "result", result)
    write = _plan.write_summary
    monkeypatch.setattr(
        _plan, "write_summary", lambda path, found: seen.append(found) or write(path, found)
    )
    return seen


def test_own_system_is_taken_to_a_point_within_limits(tmp_path, cart, before_examined):
    """The optimum is F = 12 m d/T² (½ − t/T). With |F| ≤ 5 N, where 6 N are needed, no optimum is proved and the exit
    status is 1."""
    with open(cart[0], "a", encoding="utf-8") as file:
        file.write(LOOP)
    free = tmp_path / "free"
    result = jaxhamel("control", *cart, "--out", free, "--quiet", "--seed", 5)
    assert result.exit_code == 0, result.stderr
    reached = summary(free)["reached"]
    assert reached["cost"] == pytest.approx(12 * 2.0**2 * 3.0**2 / 2.0**3, rel=1e-10)
    check_that_carts_are_held(free)
    first, stands, words, proved = before_examined
    assert first["certificate"]["holds"] is False
    assert "the command was ended before the search had ended" in first["message"]
    assert (proved["status"], proved["files"][0]) == ("interrupted", "summary.json")
    assert proved["message"].endswith(
        "the certificate holds; ended before the closed loop was written"
    )
    assert (stands["status"], stands["files"]) == ("failed", ["summary.json", "search.npz"])
    assert stands["certificate"]["holds"] is False
    assert "converged after" in stands["certificate"]["words"]
    assert "go on with --resume" in words
    contradictory = changes("task.lower=[-5.0]", "task.upper=[5.0]")  # bang-bang control needs 6 N
    result = jaxhamel("control", *cart, "--out", tmp_path / "weak", *contradictory)
    assert result.exit_code == 1
    assert "no optimum was proved" in result.stderr
    said = summary(tmp_path / "weak")
    assert said["status"] == "failed"
    assert said["certificate"]["holds"] is False
    assert (tmp_path / "weak" / "report.html").exists()


def test_the_closed_loop_is_compiled_beside_the_search(tmp_path, cart, monkeypatch):
    """Another thread examines the guess and closes the loop about it, so that this thread compiles no program for that."""
    with open(cart[0], "a", encoding="utf-8") as file:
        file.write(LOOP)
    monkeypatch.setattr("jaxhamel.cli._commands._simulate.cores", lambda: 2)
    listening = Listening()
    monkeypatch.setattr(logging.getLogger("jax"), "handlers", [listening])
    with jax.log_compiles():
        result = jaxhamel("control", *cart, "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.stderr
    assert "jit(more_iterations)" in listening.names
    assert not listening.names & {"jit(_motion_of)", "jit(linearised)", "jit(_run_one_loop)"}


def check_that_carts_are_held(out):
    """In open loop a cart whose initial velocity is off by e drifts from its plan by e t."""
    numbers = summary(out)["closed_loop"]
    spread = {"initial.u": Distribution("normal", mean=np.zeros(1), std=np.full(1, 0.1))}
    off = np.abs(Samples(spread, 16, 5)[:]["initial.u"][:, 0])
    rms = np.sqrt(np.mean(np.linspace(0.0, 2.0, 101) ** 2)) * off
    without = numbers["open_loop"]
    np.testing.assert_allclose(without["tracking_rms_max"], rms.max(), atol=5e-4)
    np.testing.assert_allclose(without["tracking_rms"], np.median(rms), atol=5e-4)
    assert without["failed"] == np.count_nonzero(
        rms > 0.02 * 3.0
    )  # a robot fails beyond 2 % of the plan's 3 m
    assert numbers["size"] == pytest.approx(3.0, rel=1e-9)
    assert numbers["failed"] == 0
    assert numbers["tracking_rms_max"] < 0.3 * rms.max()
    assert numbers["growth"] < 1.0
    largest = numbers["largest_multiplier"]  # at the end K = Bᵀ S / R has no gain on the position
    assert largest == pytest.approx(1.0, abs=1e-9)
    names = {f"closed-loop-{name}.png" for name in ("coordinates", "errors", "robots")}
    assert names <= {path.name for path in out.iterdir()}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "With feedback 100 % of 16 robots follow it" in page
    assert "tracking rms / " not in page  # the class gives its coordinate no unit


def check_that_the_point_before_stays(out, cart, monkeypatch):
    """Ctrl-C and the time limit before the first iteration of a resumed search."""
    point, told = (out / "search.npz").read_bytes(), []

    def stopped(search, shown):
        guard._late("nothing was found")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Guard, "end", lambda self, *given: told.append(given))
        patch.setattr(_plan.CollocationSearch, "run", stopped)
        result = jaxhamel("control", *cart, "--out", out, "--resume")
    assert result.exit_code == 1
    assert f"The results so far are in {out}; go on with --resume" in result.stderr
    ((status, words),) = told
    assert status == 1
    assert f"the point of the search before is still in {out / 'search.npz'}" in words
    assert (out / "search.npz").read_bytes() == point
    assert summary(out)["certificate"]["holds"] is False


def test_a_stopped_search_goes_on(tmp_path, cart, monkeypatch):
    """A linear problem with quadratic cost is solved by the first step, so the resumed search only confirms it."""
    out, stopped = tmp_path / "out", changes("method.max_iterations=1")
    result = jaxhamel("control", *cart, "--out", out, *stopped)
    assert result.exit_code == 1
    assert "out of iterations (1): best so far" in result.stderr
    said = summary(out)
    assert said["certificate"]["holds"] is False
    assert "search.npz" in said["files"]
    assert set(said["files"]) == {path.name for path in out.iterdir()}
    result = jaxhamel("control", *cart, "--out", out, "--resume", *changes("task.q=[5.0]"))
    assert result.exit_code == 2
    assert "--resume: `task.q` is [5.0], and was [4.0] in the stopped search" in result.stderr
    check_that_the_point_before_stays(out, cart, monkeypatch)
    result = jaxhamel("control", *cart, "--out", out, "--resume")
    assert result.exit_code == 0, result.stderr
    said = summary(out)
    assert said["reached"]["iterations"] == 1
    assert said["reached"]["cost"] == pytest.approx(12 * 2.0**2 * 3.0**2 / 2.0**3, rel=1e-10)
    assert not (out / "search.npz").exists()
    result = jaxhamel("control", *cart, "--out", out, "--resume")
    assert result.exit_code == 2
    assert "search.npz does not exist; only a search that was stopped leaves it" in result.stderr


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("task.angel=1", "`task.angel` is not a key of `task` of a \"satellite-turn\" (it is 1). Did you mean `angle`?"),
        ("task.duration=0", "`task.duration` is 0; it must be a number larger than 0 (s): time of the whole motion."),
        ("system.wheel_inertia=-1", "`system.wheel_inertia` is -1; it must be a number larger than 0 (kg m²)"),
        ("time.samples=10", "`time` has no effect on this task: `task.duration` decides when it ends"),
        ("initial.q=[1,0,0,0]", '`initial` has no effect on the task "satellite-turn", which defines both ends.'),
        ("control.value=[1]", "`control` has no effect on this task: the task finds the control."),
        ("solver.dt=0.1", "`solver` has no effect on this task: the method is collocation"),
        ('feedback={kind="tvlqr",period=11}', "`feedback.period` is 11 s, longer than the plan, 10 s"),
        ("method.degree=11", "`method.degree` is 11; it must be a whole number of 1 or more, at most 9"),
        ("method.intervals=1000000000000", "`method.intervals` is 1e+12; that takes"),
    ],
)  # fmt: skip
def test_bad_task_is_one_line(tmp_path, change, message):
    out = tmp_path / "out"
    result = jaxhamel("control", "satellite-turn", "--out", out, "--set", change)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_a_problem_is_one_of_its_own_kind_of_system():
    tables = load("sleigh-park").tables
    disk = PreparedRun.of(load("disk-to-point"))
    wrong = disk.but(disk.system, disk.q0, disk.u0, None)
    object.__setattr__(wrong, "scenario", type(disk.scenario)("mine", {**tables}))
    with pytest.raises(ScenarioError, match=r'is a ActuatedDisk; the task "sleigh-park" is for a'):
        build_plan(wrong)


def test_method_of_collocation_is_refused_by_other_tasks():
    with pytest.raises(ScenarioError, match="`method` has no effect on this scenario"):
        load("circle", ["method.intervals=3"])


def test_every_built_in_problem_is_a_scenario_and_a_function():
    assert set(BUILT_IN) == set(PROBLEMS)
    assert set(BUILT_IN) <= set(built_in())
    assert all(built_in()[name].commands == ("control",) for name in BUILT_IN)


def test_parts_move_along_polynomials_of_degree_five():
    """The interpolation is exact for θ = t⁵ − 2 t³ + t with its first two derivatives."""
    ts = jnp.array([0.0, 0.3, 1.1])
    p = np.poly1d([1.0, 0.0, -2.0, 0.0, 1.0, 0.0])
    sampled = [jnp.asarray(d(np.asarray(ts)))[:, None] for d in (p, p.deriv(), p.deriv(2))]
    curve = Interpolated(ts, *sampled)
    for t in (0.0, 0.1, 0.3, 0.8, 1.1):
        np.testing.assert_allclose(curve(t), [p(t)], atol=1e-14)
