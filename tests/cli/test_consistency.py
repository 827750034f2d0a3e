"""Whether an estimator in closed loop is consistent: the band of the mean errors, and what the command line says of it."""

import re
from types import SimpleNamespace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

import jaxhamel
from jaxhamel.cli._closed_loop._consistency import consistency_of
from jaxhamel.cli._closed_loop._loop import controller_of, motions_of, regulator_of, robots_of
from jaxhamel.cli._scenario._scenario import load
from jaxhamel.control import MotionPlan
from jaxhamel.control._loop._estimators._kalman import Belief
from jaxhamel.control._loop._periods._period import normalised_error, with_errors
from jaxhamel.mechanics import Constant
from jaxhamel.mechanics._tangent import retract
from jaxhamel.systems import CartPole, CircularRails, RollingBall

ROBOTS = 200
# The pole is held upright by a controller that sees an estimate; all robots are alike but for their first states.
SCENARIO = (
    "feedback.period=0.02",
    'closed_loop.spread=[{key="initial.q",std=0.005},{key="initial.u",std=0.05}]',
    'estimator.kind="kalman"',
    "estimator.start=[0.005,0.005,0.05,0.05]",
    "estimator.drift=[1e-6,1e-6,1e-6,1e-6]",
    f"closed_loop.trajectories={ROBOTS}",
)


@pytest.fixture(scope="module")
def loops():
    """A function of the factors of the sensors' noise and of the filter's, which gives the consistency of the estimator."""
    scenario = load("cart-pole", ["feedback.delay=0.02", *SCENARIO])
    pole, ts = CartPole(), jnp.linspace(0.0, 1.0, 11)
    rest = jnp.broadcast_to(jnp.array([0.0, jnp.pi]), (11, 2))
    plan = MotionPlan(pole, ts, rest, jnp.zeros((11, 2)), Constant(jnp.zeros(1)))
    problem = SimpleNamespace(system=pole, q0=rest[0], u0=jnp.zeros(2), ts=ts)
    law, robots = regulator_of(scenario, plan), robots_of(scenario, problem, plan, 5)
    controller = controller_of(scenario, law, system=pole)

    def run(noise=1.0, believed=1.0):
        parts = lambda c: (c.sensors.noise, c.estimator.sensors.noise)
        changed = tuple(f * x for f, x in zip((noise, believed), parts(controller), strict=True))
        return consistency_of(
            motions_of(scenario, robots, eqx.tree_at(parts, controller, changed), 50, 5), 4
        )

    return run


def test_consistent_in_closed_loop(loops):
    """With the right noise the mean error is within the band of χ², as at nearly all samples; the words say so."""
    found = loops()
    limits = chi2.ppf([0.025, 0.975], 4 * ROBOTS) / (4 * ROBOTS)
    np.testing.assert_allclose(found.band, limits, rtol=1e-12)
    assert found.mean.shape == found.ts.shape == (50,)
    assert found.consistent
    assert found.numbers["inside"] > 0.8
    assert found.numbers["robots"] == ROBOTS
    assert (
        f"consistent: the mean of its normalised squared error is {found.average:.3g}"
        in found.words
    )


@pytest.mark.parametrize(
    ("factors", "words"),
    [
        ((1.2, 1.0), "above the band .*raise `estimator.drift`"),
        ((1.0, 1.2), "below the band .*Lower"),
    ],
)
def test_not_consistent_with_another_noise(loops, factors, words):
    """With noise a fifth larger than the filter believes, or smaller, it is not, and the words say what to change."""
    found = loops(*factors)
    assert not found.consistent
    assert re.search(words, found.words)


def test_moving_parts_have_no_error():
    """Positions and rates of masses follow their commands, so that only the other numbers count, with their own
    covariance."""
    rails = CircularRails(radius=[0.07], normal=[[0, -1, 0]], zero=[[1, 0, 0]])
    driven = jaxhamel.MovingParts(RollingBall(0.1, 1.0, [6e-3] * 3, [0, 0, 0], [0.5], rails))
    kept = [0, 1, 2, 3, 4, 6, 7, 8]
    np.testing.assert_array_equal(with_errors(driven), kept)
    rng = np.random.default_rng(2)
    root, delta = rng.normal(size=(10, 10)), jnp.asarray(rng.normal(size=10))
    q, u = driven.state(
        (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2)), jnp.zeros(3), jnp.zeros(1), jnp.zeros(1)
    )
    belief = Belief(q, u, jnp.asarray(root @ root.T))
    found = normalised_error(driven, belief, retract(driven, (q, u), delta))
    e, P = delta[np.array(kept)], (root @ root.T)[np.ix_(kept, kept)]
    np.testing.assert_allclose(found, e @ np.linalg.solve(P, e) / 8, rtol=1e-9)


def test_robots_that_break_down_do_not_count():
    """The mean is that of the other robots; without an estimator there is none."""
    errors = np.array([[1.0, 3.0], [np.nan, np.nan], [3.0, 5.0]])
    u = np.zeros((3, 3, 1))
    u[1, 2] = np.nan
    found = consistency_of(
        SimpleNamespace(stats={"estimation_error": errors}, u=u, ts=np.zeros((3, 3))), 2
    )
    assert (found.average, found.robots) == (3.0, 2)
    np.testing.assert_array_equal(found.mean, [2.0, 4.0])
    assert consistency_of(SimpleNamespace(stats={}), 2) is None


def test_a_singular_covariance_is_named():
    errors = SimpleNamespace(
        stats={"estimation_error": np.array([[np.inf]])}, u=np.zeros((1, 2, 1)), ts=np.zeros((1, 2))
    )
    found = consistency_of(errors, 2)
    assert not found.consistent
    assert "a covariance is singular" in found.words
    assert found.numbers["mean_normalised_error"] is None
