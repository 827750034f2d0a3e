"""`[feedback]` with gains or a law of the user's file, for `simulate`, `montecarlo`, `identify` and `predict`."""

import html
import json

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel.cli._commands._early import check_of_control
from jaxhamel.cli._commands._simulate import run_simulate, simulated
from jaxhamel.cli._objects._build import build_control
from jaxhamel.cli._objects._ensemble_model import EnsembleModel
from jaxhamel.cli._objects._identification import (
    build_identified_system,
    build_measurements,
    make_runs,
)
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._spread import nominal_of
from jaxhamel.cli._objects._state_feedback import StateFeedback, instability
from jaxhamel.cli._scenario._scenario import load, load_identification
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.mechanics import Constant
from tests.control.cart import DrivenCart


class Cart(DrivenCart):
    """The cart in the file of the laws, where `law` looks for them."""


class Spring(eqx.Module):
    stiffness: jax.Array
    place: jax.Array

    def __call__(self, t, q, u):
        return -self.stiffness * (q - self.place)


class OfPlace(Spring):
    def __call__(self, q):
        return -q


class Table(eqx.Module):
    stiffness: jax.Array


HELD = """
[system]
mass = 2.0

[initial]
q = [1.5]

[feedback]
{feedback}

[time]
end = 2.0
samples = 21

[montecarlo]
samples = 3

[[montecarlo.spread]]
key = "system.mass"
std = 0.1
"""
GAINS = 'kind = "gains"\ngains = [[8.0, 0.0]]\nq = [0.5]'
LAW = 'kind = "law"\nlaw = "Spring"\n[feedback.fields]\nstiffness = 8.0\nplace = [0.5]'


def scenario_of(folder, feedback, *changes):
    path = folder / "held.toml"
    path.write_text(HELD.format(feedback=feedback), encoding="utf-8")
    return load(str(path), changes, Cart)


def oscillation(ts, mass):
    """A mass on a spring of 8 N/m about 0.5 m, at rest at 1.5 m."""
    return 0.5 + np.cos(np.sqrt(8.0 / mass) * ts)


@pytest.mark.parametrize("feedback", [GAINS, LAW])
def test_a_cart_on_a_virtual_spring(feedback, tmp_path):
    """`simulate` and `montecarlo` move it as a spring of the stiffness K does."""
    run = PreparedRun.of(scenario_of(tmp_path, feedback, "solver.rtol=1e-10"))
    found = simulated(run)
    np.testing.assert_allclose(found.q[:, 0], oscillation(run.ts, 2.0), atol=1e-8)
    model = EnsembleModel(run.scenario, nominal_of(run))
    masses = np.array([1.0, 2.0, 3.0])
    many, _ = model({"system.mass": jnp.asarray(masses)})
    np.testing.assert_allclose(many["end_q_1"], oscillation(2.0, masses), atol=1e-7)


def test_a_curve_is_added_and_the_command_limited(tmp_path):
    """A constant force of 2 N shifts the equilibrium by 2/8 m; a limit of 3 N bounds the sum."""
    control = build_control(
        scenario_of(tmp_path, GAINS, "control.value=[2.0]"), Cart(jnp.array(2.0))
    )
    assert isinstance(control, jaxhamel.Feedback)
    assert control.function(0.0, jnp.array([0.75]), jnp.zeros(1))[0] == 0.0
    given = "control.value=[2.0]", "feedback.limit=3.0"
    control = build_control(scenario_of(tmp_path, GAINS, *given), Cart(jnp.array(2.0)))
    assert isinstance(control, jaxhamel.Feedback)
    assert control.function(0.0, jnp.array([9.0]), jnp.zeros(1))[0] == -3.0


@pytest.mark.parametrize(
    ("gain", "control", "doubles"),
    [(-8.0, None, np.log(2) / 2.0), (8.0, None, None), (-8.0, Constant(jnp.ones(1)), None)],
)
def test_gains_that_do_not_hold_their_state(gain, control, doubles):
    """With K < 0 deviations of a cart of 2 kg grow as exp(√(−K/m) t). A constant force leaves no equilibrium to hold."""
    cart, at = Cart(jnp.array(2.0)), (jnp.array([0.5]), jnp.zeros(1))
    law = StateFeedback(jnp.array([[gain, 0.0]]), *at, jnp.array(jnp.inf), control, cart.space)
    found = instability(cart, jaxhamel.Feedback(law), 0.0)
    if doubles is None:
        assert found == ""
    else:
        assert f"small deviations double in {doubles:.3g} s" in found


def test_simulate_says_that_gains_do_not_hold(tmp_path, capsys):
    """The sentence is in summary.json and on the page."""
    scenario = scenario_of(tmp_path, GAINS, "feedback.gains=[[-8.0,0.0]]", "initial.q=[0.5]")
    run_simulate(scenario, tmp_path / "out", Terminal(quiet=True), 0.0)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert "small deviations double in 0.347 s" in summary["loop"]
    assert summary["loop"].replace("`", "") in html.unescape(
        (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    )


IDENTIFIED = """
[system]
mass = 2.0

[feedback]
kind = "gains"
gains = [[8.0, 0.0]]

[truth]
mass = 3.0

[synthetic]
seconds = 2.0
noise = 0.0

[[measurements]]
quantity = "coordinate"
index = 0
columns = ["x"]

[[parameters]]
kind = "positive"
path = "mass"
"""


def test_measured_runs_are_of_the_closed_loop(tmp_path):
    """Synthetic runs of `identify` begin at 0 with some velocity, and oscillate at √(K/m)."""
    path = tmp_path / "mass.toml"
    path.write_text(IDENTIFIED, encoding="utf-8")
    scenario = load_identification(str(path), (), Cart)
    control = build_control(scenario, build_identified_system(scenario))
    (file,) = make_runs(
        scenario,
        tmp_path,
        build_measurements(scenario, build_identified_system(scenario)),
        control,
        0,
    )
    t, x = np.loadtxt(file, delimiter=",", skiprows=1).T
    rate = np.sqrt(8.0 / 3.0)
    np.testing.assert_allclose(x, x[-1] / np.sin(rate * t[-1]) * np.sin(rate * t), atol=1e-6)


def test_runs_without_the_control_that_a_force_needs(tmp_path):
    """The message names the method of the user's class; it is no error of the package."""
    path = tmp_path / "mass.toml"
    path.write_text(
        IDENTIFIED.replace('[feedback]\nkind = "gains"\ngains = [[8.0, 0.0]]', ""), encoding="utf-8"
    )
    scenario = load_identification(str(path), (), Cart)
    system = build_identified_system(scenario)
    control, measurements = build_control(scenario, system), build_measurements(scenario, system)
    with pytest.raises(
        ScenarioError,
        match=r"`force.* is None, as Cart returns it.*A `control` that is not given is None",
    ):
        make_runs(scenario, tmp_path, measurements, control, 0)


@pytest.mark.parametrize(
    ("feedback", "changes", "words"),
    [
        (GAINS, ["feedback.gains=[[1.0]]"], r"`feedback.gains` has 1 row of 1 numbers; .* 1, one row .* 2 numbers"),
        (GAINS, ["feedback.q=[1,2]"], "`feedback.q` has 2 numbers; it must have 1"),
        (GAINS, ["sensors.noise=[1,1]"], '`sensors` has no effect with `feedback.kind` = "gains"'),
        (LAW, ["feedback.law=Sprung"], r"`feedback.law` is \"Sprung\"; .* no such class. Did you mean `Spring`"),
        (LAW, ["feedback.fields.length=1"], "`feedback.fields`: got an unexpected keyword argument 'length'. It needs"),
        (LAW, ["control.value=[1.0]"], "`control` has no effect with `feedback.kind` = \"law\""),
        (LAW.replace("Spring", "OfPlace"), [], "`feedback.law` is of type OfPlace that cannot be called with three arg"),
        (LAW.replace("Spring", "Table").split("place")[0], [], "Table cannot be called; it needs __call__"),
    ],
)  # fmt: skip
def test_messages(feedback, changes, words, tmp_path):
    with pytest.raises(ScenarioError, match=words):
        PreparedRun.of(scenario_of(tmp_path, feedback, *changes))


def test_a_law_needs_the_file_and_control_a_plan(tmp_path):
    given = 'feedback={kind="law",law="Hold"}'
    with pytest.raises(ScenarioError, match="give the file by --system"):
        PreparedRun.of(load("heavy-top", [given]))
    with pytest.raises(ScenarioError, match=r"`feedback.kind` is \"law\", for simulate.*\"tvlqr\""):
        load("cart-pole", [given], check=check_of_control(tmp_path / "out", None, resume=False))
    moved = 'feedback={kind="gains",gains=[[1]]}'
    with pytest.raises(ScenarioError, match="prescribes the motion of its parts"):
        PreparedRun.of(load("reference-ball", [moved]))
