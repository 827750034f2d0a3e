"""The moving-horizon estimator: equal to Kalman's filter on a vector space for every window, consistent on SO(3), equal
to SciPy's least squares, and used in a closed loop."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import least_squares

import jaxhamel
from jaxhamel._lanes._xla_cpu._jit import QUICK
from jaxhamel.control import (
    KalmanFilter,
    MovingHorizonEstimator,
    PathLimit,
    Sampled,
    Sensors,
    StateSensors,
    closed_loop,
)
from jaxhamel.control._loop._estimators._model import misfit
from jaxhamel.control._loop._prediction import flow
from jaxhamel.mechanics._tangent import local, retract
from tests.control.test_closed_loop import Gains
from tests.control.test_kalman import (
    BAD,
    BODY,
    CART,
    SENSORS,
    WALK,
    T,
    body_filter,
    inside,
    normalised_errors,
    place,
    textbook,
)


@pytest.mark.parametrize(("window", "W"), [(1, 0.3), (4, 0.3), (4, 0.0)])
def test_double_integrator_is_the_textbooks_filter(window, W):
    """Estimates and covariances agree before and after the window is full, and without process noise."""
    rng = np.random.default_rng(0)
    seen, forces = rng.normal(size=(12, 1)), rng.normal(size=12)
    P, W = np.array([[0.5, 0.1], [0.1, 0.8]]), W * np.array([[0.1, 0.03], [0.03, 1.0]])
    first = jnp.array([0.1]), jnp.array([-0.2])
    filter = KalmanFilter(CART, Sensors((place,), 0.3), *first, jnp.asarray(P), jnp.asarray(W))
    estimator = MovingHorizonEstimator(filter, window, n_controls=1)

    def turn(kept, at):
        z, c = at
        best = estimator.update(kept, 0.0, z, c)
        return estimator.predict(best, 0.0, jnp.array(T), c), best.latest

    given = jnp.asarray(seen), jnp.asarray(forces)[:, None]
    _, found = jax.jit(lambda: jax.lax.scan(turn, estimator.start(), given))()
    x, covariance = textbook(seen, forces, 0.3, P, W)
    np.testing.assert_allclose(jnp.concatenate([found.q, found.u], 1), x, atol=1e-10)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-10)


def moving_body(P):
    return MovingHorizonEstimator(body_filter(P), 3, iterations=3)


def test_consistent_on_a_group():
    """With an initial error of 90°, the mean over 200 runs lies within its 95 % band at more than 80 % of the times."""
    P = jnp.diag(jnp.array([np.pi / 2] * 3 + [0.05] * 3) ** 2)
    found = normalised_errors(jax.random.key(2), P, jnp.array(np.pi / 2), moving_body, 30)
    assert inside(found[:, 10:]) > 0.8


def test_it_is_the_least_squares_that_it_says():
    """For two samples of a body that is 90° off, a nonlinear problem, the estimate is the optimum that SciPy finds from
    the same start."""
    P = np.array([np.pi / 2] * 3 + [0.05] * 3)
    estimator = MovingHorizonEstimator(body_filter(jnp.diag(jnp.asarray(P**2))), 2, 30)
    belief = estimator.filter.start()
    first, noise = (belief.q, belief.u), np.random.default_rng(3).normal(size=(2, 9))
    truth = retract(BODY, first, jnp.array([1.0, -0.9, 0.8, 0.1, 0.0, 0.1]))
    seen = [SENSORS(BODY, 0.0, *truth, None, jnp.asarray(x)) for x in noise]
    zero, period = jnp.array(0.0), jnp.array(T)
    jit = partial(jax.jit, compiler_options=QUICK)

    def turn(kept, z):
        best = estimator.update(kept, zero, z)
        return estimator.predict(best, zero, period), best

    windows = jit(lambda z: jax.lax.scan(turn, estimator.start(), z)[1])(jnp.stack(seen))
    window = jax.tree.map(lambda x: x[-1], windows)

    @jit
    def weighted(y):
        begun = retract(BODY, first, y[:6])
        end = flow(BODY, begun, zero, period, None, 1, None)
        states = begun, retract(BODY, end, y[6:])
        off = [misfit(BODY, SENSORS, x, zero, z, None) for x, z in zip(states, seen, strict=True)]
        rows = y[:6] / P, y[6:] / jnp.sqrt(WALK * T), *(x / SENSORS.noise for x in off)
        return jnp.concatenate(rows), states[1]

    found = least_squares(
        lambda y: weighted(y)[0], np.zeros(12), xtol=1e-14, ftol=1e-14, gtol=1e-12
    )
    best = weighted(found.x)[1]
    np.testing.assert_allclose(local(BODY, best, (window.q, window.u)), 0.0, atol=2e-6)


class Pendulum(jaxhamel.System):
    space = jaxhamel.SO2()

    def lagrangian(self, t, q, v):
        return 0.5 * v[0] ** 2 + 9.81 * jnp.cos(q[0])


PENDULUM = Pendulum()
SPREAD, DRIFT, SEEN = np.array([0.04, 0.3]), np.array([0.01, 0.5]), [0.6, 0.7, 0.45]


def sine(t, q, u, control):
    return jnp.sin(q)


def rate(t, q, u, control):
    return u


@partial(jax.jit, compiler_options=QUICK)
def window_of(angle, rates, spread, drift):
    """The window of a pendulum with limits on angle and rate, after three samples."""
    start, period = (jnp.array([0.4]), jnp.array([1.0])), jnp.array(T)
    filter = KalmanFilter(PENDULUM, Sensors((place,), 0.1), *start, spread, drift)
    limits = PathLimit(sine, upper=jnp.sin(angle)), PathLimit(rate, -rates, rates)
    estimator = MovingHorizonEstimator(filter, 3, iterations=6, limits=limits)

    def turn(window, z):
        best = estimator.update(window, 0.0, z)
        return estimator.predict(best, 0.0, period), best

    windows = jax.lax.scan(turn, estimator.start(), jnp.array(SEEN)[:, None])[1]
    return jax.tree.map(lambda x: x[-1], windows)


@pytest.mark.parametrize(("angle", "rates"), [(0.5, 0.8), (0.5, np.inf), (1.5, 9.0)])
def test_limits_are_bounded_least_squares(angle, rates):
    """The estimate agrees with SciPy's bounded least squares in the states, q ≤ angle (given as a limit of sin q) and
    |u| ≤ rates."""
    window = window_of(angle, rates, SPREAD, DRIFT)
    ahead = jax.jit(
        lambda x: jnp.concatenate(flow(PENDULUM, (x[:1], x[1:]), 0.0, T, None, 1, None)),
        compiler_options=QUICK,
    )

    def weighted(y):
        x = y.reshape(3, 2)
        moves = [(b - ahead(a)) / np.sqrt(T * DRIFT) for a, b in pairwise(x)]
        return np.concatenate(
            [(x[0] - [0.4, 1.0]) / np.sqrt(SPREAD), (SEEN - x[:, 0]) / 0.1, *moves]
        )

    bounds = np.tile([-np.inf, -rates], 3), np.tile([angle, rates], 3)
    given = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-13}
    found = least_squares(weighted, [0.4, 0.0] * 3, bounds=bounds, **given).x.reshape(3, 2)
    np.testing.assert_allclose(jnp.concatenate(window.states, 1), found, atol=1e-6)
    np.testing.assert_allclose(window.violation, 0.0, atol=1e-8)


def test_what_no_state_can_keep_is_counted():
    """The angle is known to be exactly 0.4 but limited to 0.3, so the violation is reported and the estimate stays
    finite."""
    window = window_of(0.3, 9.0, np.zeros(2), np.zeros(2))
    assert window.violation > 0.9 * (np.sin(0.4) - np.sin(0.3))
    assert jnp.all(jnp.isfinite(window.q))


def test_in_a_closed_loop():
    """The closed loop with this estimator moves as the one with Kalman's filter, from measured positions alone."""
    sensors, start = Sensors((place,), 0.02), jnp.linspace(-1.0, 1.0, 2)[:, None]
    filter = KalmanFilter(CART, sensors, jnp.zeros(1), jnp.zeros(1), jnp.ones(2), 1e-3)
    given = {"delay": 1, "sensors": sensors}
    given |= {"estimator": MovingHorizonEstimator(filter, 3, n_controls=1)}
    law = Sampled(Gains(jnp.array([4.0, 3.0])), T, **given)
    options = {"key": jax.random.key(0), "in_axes": (None, 0, None, None)}
    found = closed_loop(CART, start, jnp.zeros(1), law, 30, **options)
    given["estimator"] = filter
    law = Sampled(Gains(jnp.array([4.0, 3.0])), T, **given)
    wanted = closed_loop(CART, start, jnp.zeros(1), law, 30, **options)
    np.testing.assert_allclose(found.q, wanted.q, atol=1e-10)


FILTER = {"sensors": StateSensors(0.1), **BAD}


def limited(*limits):
    return MovingHorizonEstimator(KalmanFilter(CART, **FILTER), n_controls=1, limits=limits)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: MovingHorizonEstimator(place), TypeError, "`filter` is .*jaxhamel.control.KalmanFilter"),
        (lambda: MovingHorizonEstimator(KalmanFilter(CART, **FILTER), 0), ValueError, "`window` is 0"),
        (lambda: MovingHorizonEstimator(KalmanFilter(CART, **FILTER), iterations=0), ValueError, "`iterations` is 0"),
        (lambda: MovingHorizonEstimator(KalmanFilter(CART, **FILTER), n_controls=-1), ValueError, "`n_controls` is -1"),
        (lambda: limited(rate), TypeError, "`limits` has .*PathLimit"),
        (lambda: limited(PathLimit(rate, 1.0, 1.0)), ValueError, "`rate` are equal, 1.; limits must leave room"),
        (lambda: limited(PathLimit(rate, np.zeros(3))), ValueError, r"`lower` of `rate` has shape \(3,\); .* \(1,\)"),
        (lambda: limited(PathLimit(lambda t, q, u, c: c(t), -1, 1)), ValueError, "depends on neither q nor u"),
        (lambda: (x := MovingHorizonEstimator(KalmanFilter(CART, **FILTER))).predict(x.start(), 0.0, T, jnp.ones(1)),
         ValueError, r"The command has shape \(1,\), and the window .* keeps 0 entries. Give it `n_controls`"),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
