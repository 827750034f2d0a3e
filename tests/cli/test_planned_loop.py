"""Closed loops of tasks solved by collocation: robots with each kind of drive, and the figures of their motions."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import Kinematic, MovingParts, systems
from jaxhamel.cli._closed_loop._estimator import check_estimator, estimator_of
from jaxhamel.cli._closed_loop._loop import (
    check_loop_tables,
    controller_of,
    regulator_of,
    robots_of,
    weights_of,
)
from jaxhamel.cli._objects._plan import build_plan
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import (
    KalmanFilter,
    MotionPlan,
    MovingHorizonEstimator,
    StateSensors,
    regulate,
)
from jaxhamel.mechanics import Constant
from jaxhamel.mechanics._tangent import retract
from jaxhamel.viz import held_coordinates_figure, held_errors_figure, held_paths_figure
from jaxhamel.viz._motion._many_motions import traced, traced_point


@pytest.mark.parametrize(
    ("name", "wrapper", "key", "start"),
    [
        ("disk-to-point", MovingParts, "system.masses", (0.0, -0.5 * np.pi)),
        ("unicycle-sideways", Kinematic, "system.slope", (0.0,)),
    ],
)
def test_robots_of_every_drive(name, wrapper, key, start):
    """Spread parameters belong to the system inside the drive; moving parts begin where the plan begins."""
    spread = f'closed_loop.spread=[{{key="{key}",std=0.02}}, {{key="initial.q",std=0.1}}]'
    scenario = load(
        name, [spread, "closed_loop.trajectories=3", 'feedback.kind="tvlqr"', "feedback.period=0.1"]
    )
    problem = build_plan(PreparedRun.of(scenario))
    check_loop_tables(scenario, problem, 0)
    ts = jnp.linspace(0.0, 1.0, 3)
    q, u = jax.tree.map(lambda x: jnp.stack([x] * 3), (problem.q0, problem.u0))
    robots = robots_of(scenario, problem, MotionPlan(problem.system, ts, q, u, problem.curve), 0)
    assert isinstance(robots.system, wrapper)
    found = getattr(robots.system.system, key.removeprefix("system."))
    assert len(np.unique(np.asarray(found).reshape(3, -1), axis=0)) == 3
    assert {axis for axis in jax.tree.leaves(robots.axes[0]) if axis is not None} == {0}
    last = jax.tree.leaves(robots.q0)[-1]
    if wrapper is MovingParts:
        np.testing.assert_array_equal(last, np.full((3, 1), start[-1]))
    assert robots.u0.shape == (3, *problem.u0.shape)
    refused = [spread.replace("initial.q", "initial.w"), 'feedback.kind="tvlqr"']
    with pytest.raises(ScenarioError, match="which is no number of this scenario"):
        check_loop_tables(load(name, refused), problem, 0)


def test_weights_of_a_scenario():
    """Without weights those of `regulate`; a given one stays, and is that of the last deviation, too."""
    scenario = load("unicycle-sideways", ['feedback.kind="tvlqr"'])
    problem, ts = build_plan(PreparedRun.of(scenario)), jnp.linspace(0.0, 1.0, 9)
    q, u = jax.tree.map(lambda x: jnp.stack([x] * 9), (problem.q0, problem.u0))
    plan = MotionPlan(problem.system, ts, q, u, jnp.array([1.0, -0.5]))
    law, found = regulate(*plan), regulator_of(scenario, plan)
    jax.tree.map(np.testing.assert_array_equal, found.costs, law.costs)
    np.testing.assert_array_equal(weights_of(found)[0], np.diag(law.costs[0]))
    weights = ["feedback.state_weights=[4,2,1]", 'feedback.kind="tvlqr"']
    given = regulator_of(load("unicycle-sideways", weights), plan)
    np.testing.assert_array_equal(given.costs[0], np.diag([4.0, 2.0, 1.0]))
    np.testing.assert_array_equal(given.costs[1], law.costs[1])
    np.testing.assert_array_equal(given.costs[2], given.costs[0])


def test_estimators_of_a_scenario():
    """By default the estimator starts at the plan's start with the covariance of the sensors' noise, which must not be
    zero."""
    noise = [0.003, 0.005, 0.01, 0.02]
    sensors, pole = StateSensors(jnp.asarray(noise), 0.1), systems.CartPole(length=0.5)
    q, u = jnp.array([[0.0, 0.3], [1.0, 0.0]]), jnp.array([[0.1, 0.2], [0.0, 0.0]])
    law = SimpleNamespace(q=q, u=u, gains=jnp.zeros((2, 1, 4)))
    given = ["estimator.window=3", "estimator.drift=[0.1,0.2,0.3,0.4]"]
    scenario = load("cart-pole", ['estimator.kind="moving-horizon"', *given])
    found = estimator_of(scenario, sensors, law, pole)
    assert isinstance(found, MovingHorizonEstimator)
    assert (found.window, found.n_controls) == (3, 1)
    np.testing.assert_array_equal(found.filter.q, q[0])
    np.testing.assert_allclose(found.filter.covariance, np.square(noise))
    np.testing.assert_allclose(found.filter.process_noise, [0.01, 0.04, 0.09, 0.16])
    assert float(jnp.max(jnp.abs(found.filter.sensors.bias))) == 0.0
    kalman = load("cart-pole", ['estimator.kind="kalman"'])
    assert isinstance(estimator_of(kalman, sensors, law, pole), KalmanFilter)
    assert estimator_of(load("cart-pole", []), sensors, law, pole) is None
    with pytest.raises(ScenarioError, match=r"`\[estimator\]` needs `sensors.noise`"):
        check_estimator(load("cart-pole", ['estimator.kind="kalman"', "sensors.noise=[]"]), 4)


LIMITED = [
    'estimator.kind="moving-horizon"',
    "estimator.window=1",
    "estimator.start=[0.1,0.1,0.1,0.1]",
]


def test_limits_of_estimated_states():
    """Limits hold for coordinates from the identity: the pole's angle stays within them, and other entries are as
    without limits."""
    sensors, pole = StateSensors(jnp.full(4, 0.1)), systems.CartPole(length=0.5)
    q, u = jnp.array([[0.0, 0.3], [0.1, 0.2]]), jnp.zeros((2, 2))
    law = SimpleNamespace(q=q, u=u, ts=jnp.array([0.0, 1.0]), gains=jnp.zeros((2, 1, 4)))
    limits = ["estimator.lower=[-inf,0.19,-inf,-inf]", "estimator.upper=[inf,0.31,0.5,inf]"]
    observed = jnp.array([0.05, 0.5, 0.0, 0.0])
    found = {}
    for given in ([], limits):
        estimator = estimator_of(load("cart-pole", LIMITED + given), sensors, law, pole)
        assert isinstance(estimator, MovingHorizonEstimator)
        seen = retract(pole, (jnp.zeros(2), jnp.zeros(2)), observed)
        found[len(given)] = estimator.update(estimator.start(), jnp.array(0.0), seen)
    assert float(found[0].q[1]) > 0.35
    np.testing.assert_allclose(found[2].q, [found[0].q[0], 0.31], rtol=0, atol=1e-5)
    for refused, words in (
        ("estimator.upper=[inf,0.31]", "has 2 entries; it must have 4"),
        (
            "estimator.lower=[inf,0.4,-1,-1]",
            "lower` is inf and `estimator.upper` is inf in entry 0",
        ),
    ):
        with pytest.raises(ScenarioError, match=words):
            check_estimator(load("cart-pole", [*LIMITED, refused]), 4)
    tight = load("cart-pole", [*LIMITED, "estimator.lower=[-inf,0.25,-inf,-inf]"])
    with pytest.raises(ScenarioError, match=r"lower` is 0.25 in entry 1, and the plan has 0.2 "):
        estimator_of(tight, sensors, law, pole)


def test_the_tip_of_a_pole_is_traced_in_its_plane():
    """The tip is at (x + l sin θ, −l cos θ) in the plane of x and z. If the pole always hangs, its path is a line and
    is not traced."""
    pole = systems.CartPole(length=0.5)
    ts = jnp.linspace(0.0, 1.0, 7)
    q = jnp.stack([ts, jnp.sin(3.0 * ts)], axis=1)
    point = traced_point(pole, ts, q)
    assert point is not None
    assert point.labels == ("x", "z")
    wanted = np.stack([ts + 0.5 * np.sin(q[:, 1]), -0.5 * np.cos(q[:, 1])], axis=1)
    np.testing.assert_allclose(traced(point, pole, ts, q), wanted, atol=1e-15)
    assert traced_point(pole, ts, q.at[:, 1].set(0.0)) is None


def test_pictures_show_the_neighbourhood_of_the_plan():
    """Negative values are drawn; a diverging open loop does not change the scale; a tall path leaves room for labels."""
    ts = np.linspace(0.0, 1.0, 5)
    plan = np.stack([-ts, 2.0 * ts], axis=1)
    closed = np.stack([plan - 0.1, plan, plan + 0.1])
    figure = held_coordinates_figure(ts, closed, 1e6 * closed, plan, ["x", "y"])
    for axes, column in zip(figure.axes, plan.T, strict=True):
        _, held, wanted = axes.lines
        np.testing.assert_array_equal(held.get_xydata(), np.stack([ts, column], axis=1))
        np.testing.assert_array_equal(wanted.get_ydata(), column)
        assert np.ptp(axes.get_ylim()) == pytest.approx(1.7 * np.ptp(column))
    path = np.stack([np.zeros(5), ts], axis=1)
    tall = held_paths_figure(path[None], path[None], path, labels=("x", "z")).axes[0]
    assert np.ptp(tall.get_xlim()) == pytest.approx(1.4 * np.ptp(tall.get_ylim()))
    assert tall.get_ylabel() == "z / m"


def test_errors_of_two_laws():
    """The lines are the medians, each under the name of its law."""
    ts, errors = np.linspace(0.0, 1.0, 5), np.array([1.0, 2.0, 4.0])[:, None] * np.ones(5)
    axes = held_errors_figure(ts, errors, 3.0 * errors, names=("policy", "regulator")).axes[0]
    found = {line.get_label(): line.get_ydata()[0] for line in axes.lines}
    assert [x for name, x in found.items() if "policy" in name] == [2.0]
    assert [x for name, x in found.items() if "regulator" in name] == [6.0]


@pytest.mark.parametrize("predicts", ["false", "true"])
def test_the_planned_system_predicts_over_the_delay(predicts):
    """With `feedback.predict` the law is called with the time of its command, and reads the plan's control half a period
    ahead; without it, the delay and half a period."""
    given = ["feedback.delay=0.02", "feedback.period=0.01", f"feedback.predict={predicts}"]
    scenario = load("cart-pole", ['feedback.kind="tvlqr"', *given])
    pole, ts = systems.CartPole(length=0.5), jnp.linspace(0.0, 1.0, 11)
    plan = MotionPlan(pole, ts, jnp.zeros((11, 2)), jnp.zeros((11, 2)), Constant(jnp.zeros(1)))
    found = controller_of(scenario, regulator_of(scenario, plan), system=pole)
    assert found.model is (pole if predicts == "true" else None)
    np.testing.assert_allclose(found.law.lead, 0.005 if predicts == "true" else 0.025)
