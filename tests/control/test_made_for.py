"""Laws and estimators made for another system: a reduced model against a filter in NumPy, and the messages where the states
do not fit."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import jaxhamel
from jaxhamel.control import (
    ControlEnergy,
    ControlProblem,
    KalmanFilter,
    MovingHorizonEstimator,
    RecedingHorizon,
    Running,
    Sampled,
    Sensors,
    StateSensors,
    closed_loop,
    loop_stability,
    regulate,
)
from jaxhamel.systems import FreeRigidBody, KnifeEdge
from tests.control.cart import Cart

PERIOD, NOISE = 0.05, 0.01
CART = Cart(jnp.array(1.5))


class Flexible(jaxhamel.System):
    """A cart of 1 kg, on which 0.5 kg hang by a spring; q = (place of the cart, that of the mass beside it)."""

    stiffness: jax.Array
    space = jaxhamel.Euclidean(2)
    n_controls = 1

    def lagrangian(self, t, q, v):
        kinetic = 0.5 * v[0] ** 2 + 0.25 * (v[0] + v[1]) ** 2
        return kinetic - 0.5 * self.stiffness * q[1] ** 2

    def force(self, t, q, v, control):
        return jnp.stack([control[0], -0.2 * v[1]])


def place(system, t, q, u, control):
    return q[:1]


def regulator(system=CART, size=1):
    ts, rows = jnp.linspace(0.0, 4.0, 41), jnp.zeros((41, size))
    costs = {"state_cost": jnp.ones(2 * size), "control_cost": jnp.ones(1)}
    return regulate(system, ts, rows, rows, jnp.zeros(1), **costs)


def kalman():
    start = {"q": jnp.zeros(1), "u": jnp.zeros(1), "covariance": jnp.array([0.1, 0.1])}
    return KalmanFilter(CART, Sensors((place,), noise=NOISE), **start, process_noise=0.01)


def by_numpy(law, samples):
    """The flexible cart by its matrix exponential, with the textbook's filter of a cart of 1.5 kg."""
    A, B = np.zeros((4, 4)), np.zeros((4, 1))
    M, K, C = np.array([[1.5, 0.5], [0.5, 0.5]]), np.diag([0.0, 30.0]), np.diag([0.0, 0.2])
    A[:2, 2:], A[2:, :2], A[2:, 2:] = np.eye(2), -np.linalg.solve(M, K), -np.linalg.solve(M, C)
    B[2:, 0] = np.linalg.solve(M, [1.0, 0.0])
    whole = scipy.linalg.expm(np.vstack([np.hstack([A, B]), np.zeros((1, 5))]) * PERIOD)
    E, F = whole[:4, :4], whole[:4, 4]
    Em, Fm = np.array([[1.0, PERIOD], [0.0, 1.0]]), np.array([0.5 * PERIOD**2, PERIOD]) / 1.5
    x, best, P, H = np.array([0.5, 0, 0, 0]), np.zeros(2), 0.1 * np.eye(2), np.array([[1.0, 0.0]])
    rows = [x]
    for k in range(samples):
        gain = P @ H.T / (H @ P @ H.T + NOISE**2)
        best, P = best + gain[:, 0] * (x[0] - best[0]), (np.eye(2) - gain @ H) @ P
        gains = np.asarray(law.plan(k * PERIOD)[2])
        c = -float(gains[0] @ best)
        x, best = E @ x + F * c, Em @ best + Fm * c
        P = Em @ P @ Em.T + 0.01 * PERIOD * np.eye(2)
        rows.append(x)
    return np.array(rows)


def test_an_estimator_with_a_reduced_model():
    """The law is given the estimate of the estimator's own model, whose state is shorter than the plant's."""
    plant, law = Flexible(jnp.array(30.0)), regulator()
    exact = Sensors((place,))
    start = jnp.array([0.5, 0.0]), jnp.zeros(2)
    controller = Sampled(law, PERIOD, sensors=exact, estimator=kalman())
    found = closed_loop(plant, *start, controller, 60, steps=8)
    got = np.concatenate([found.q, found.u], axis=1)
    np.testing.assert_allclose(got, by_numpy(law, 60), rtol=0, atol=1e-6)
    many = closed_loop(
        plant, jnp.tile(start[0], (3, 1)), start[1], controller, 60, steps=8, in_axes=(None, 0, None, None)
    )  # fmt: skip
    np.testing.assert_allclose(many.q, np.tile(found.q, (3, 1, 1)), rtol=0, atol=1e-12)


SYSTEMS = [Flexible(jnp.array(30.0)), FreeRigidBody([1.0, 2.0, 3.0]), KnifeEdge(1.0, 1.0, 0.0)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_law_of_another_system_is_named(system):
    """Every boundary names its own argument, rather than a method of a space inside the law."""
    q, u = system.space.identity(), jnp.zeros(system.n_independent)
    law = regulator()
    words = r"`law` is made for states \(q, u\) of the shapes \(\(1,\), \(1,\)\); those of "
    with pytest.raises(ValueError, match=words + type(system).__name__):
        closed_loop(system, q, u, Sampled(law, PERIOD), 3)
    with pytest.raises(ValueError, match=words):
        loop_stability(system, q, u, law)
    with pytest.raises(ValueError, match="`control`, a Feedback, is made for states"):
        jaxhamel.simulate(system, q, u, jnp.linspace(0.0, 1.0, 3), jaxhamel.Feedback(law))


def test_other_parts_of_a_controller_are_named():
    plant, start = Flexible(jnp.array(30.0)), (jnp.zeros(2), jnp.zeros(2))
    key, sensors = jax.random.key(0), StateSensors(noise=0.1)
    goal = Running(lambda t, q, u, control: q), ControlEnergy(1.0)
    problem = ControlProblem(
        CART, jnp.zeros(1), jnp.zeros(1), jnp.linspace(0, 1, 2), lambda t: jnp.zeros(1), goal
    )
    horizon = RecedingHorizon(problem, PERIOD, intervals=4, degree=1)
    with pytest.raises(ValueError, match="`law` is made for states"):
        closed_loop(plant, *start, Sampled(horizon, PERIOD), 3)
    law = regulator(plant, 2)
    for estimator in (kalman(), MovingHorizonEstimator(kalman(), window=2)):
        seen = Sampled(law, PERIOD, sensors=Sensors((place,), noise=0.1), estimator=estimator)
        with pytest.raises(ValueError, match=r"`law` is made for .*; those of Cart have"):
            closed_loop(plant, *start, seen, 3, key=key)
        seen = Sampled(law, PERIOD, sensors=sensors, estimator=estimator)
        with pytest.raises(ValueError, match=r"`estimator` is made for .*; those of Flexible have"):
            closed_loop(plant, *start, seen, 3, key=key)
    with pytest.raises(ValueError, match=r"`model` is made for .*; those of Flexible have"):
        closed_loop(plant, *start, Sampled(law, PERIOD, delay=1, model=CART), 3)
