"""The Kalman filter on a group: equal to the textbook's on a vector space, consistent on SO(3) even from 90° off, and
used in a closed loop."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import chi2

from jaxhamel import VectorField
from jaxhamel._lanes._xla_cpu._jit import QUICK
from jaxhamel.control import (
    KalmanFilter,
    MovingHorizonEstimator,
    Sampled,
    Sensors,
    StateSensors,
    closed_loop,
)
from jaxhamel.geometry import quaternion_matrix
from jaxhamel.mechanics._tangent import local, retract
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped
from jaxhamel.systems import FreeRigidBody
from tests.control.cart import Cart
from tests.control.test_closed_loop import Gains

CART, T = Cart(jnp.array(1.0)), 0.05
BODY = FreeRigidBody([1.0, 1.3, 1.7])


def place(system, t, q, u, control):
    return q


def textbook(seen, forces, noise, P, W):
    """States and covariances of Kalman's filter for x' = x + v T + ½ c T², v' = v + c T, z = x + noise."""
    F, G, H = np.array([[1, T], [0, 1]]), np.array([0.5 * T**2, T]), np.array([[1.0, 0.0]])
    x, rows = np.array([0.1, -0.2]), []
    for z, c in zip(seen, forces, strict=True):
        K = P @ H.T / (H @ P @ H.T + noise**2)
        x, P = x + K @ (z - H @ x), (np.eye(2) - K @ H) @ P
        rows.append((x, P))
        x, P = F @ x + G * c, F @ P @ F.T + W * T
    return [np.stack(part) for part in zip(*rows, strict=True)]


def test_double_integrator_is_the_textbooks_filter():
    rng = np.random.default_rng(0)
    seen, forces = rng.normal(size=(60, 1)), rng.normal(size=60)
    P, W = np.array([[0.5, 0.1], [0.1, 0.8]]), np.array([[0.02, 0.01], [0.01, 0.3]])
    first = jnp.array([0.1]), jnp.array([-0.2])
    filter = KalmanFilter(CART, Sensors((place,), 0.3), *first, jnp.asarray(P), jnp.asarray(W))

    def turn(belief, at):
        z, c = at
        best = filter.update(belief, 0.0, z, c)
        return filter.predict(best, 0.0, jnp.array(T), c), best

    given = jnp.asarray(seen), jnp.asarray(forces)[:, None]
    _, found = jax.jit(lambda: jax.lax.scan(turn, filter.start(), given))()
    x, covariance = textbook(seen, forces, 0.3, P, W)
    np.testing.assert_allclose(jnp.concatenate([found.q, found.u], 1), x, atol=1e-10)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-10)


NORTH, DOWN = jnp.array([1.0, 0.0, 0.0]), jnp.array([0.0, 0.0, -1.0])


def compass(system, t, q, u, control):
    return quaternion_matrix(q).T @ NORTH


def plumb(system, t, q, u, control):
    return quaternion_matrix(q).T @ DOWN


def gyroscope(system, t, q, u, control):
    return u


NOISE = jnp.array([0.05] * 6 + [0.02] * 3)
SENSORS = Sensors((compass, plumb, gyroscope), NOISE)
WALK = jnp.array([1e-4] * 3 + [1e-2] * 3)  # covariance added per second
RUNS, SAMPLES = 200, 60


def body_filter(P):
    omega = jnp.array([0.3, -0.2, 0.9])
    return KalmanFilter(BODY, SENSORS, BODY.space.identity(), omega, P, WALK, iterations=3)


@partial(jax.jit, static_argnums=(3, 4), compiler_options=QUICK)
def normalised_errors(key, P, off, estimator=body_filter, samples=SAMPLES):
    """δ·P⁻¹δ/6 of each run after each update. The first error is P^½ ξ or, if `off` > 0, a rotation by `off` about a
    random axis."""
    filter = estimator(P)
    first = filter.start()

    def run(key):
        keys = jax.random.split(key, 4)
        axis = jax.random.normal(keys[0], (3,))
        wide = jnp.concatenate([off * axis / jnp.linalg.norm(axis), jnp.zeros(3)])
        random = jnp.sqrt(jnp.diagonal(P)) * jax.random.normal(keys[1], (6,))
        state = retract(BODY, (first.q, first.u), jnp.where(off > 0, wide, random))

        def turn(carry, at):
            state, belief = carry
            noise, walk = at
            best = filter.update(belief, 0.0, SENSORS(BODY, 0.0, *state, None, noise))
            error = local(BODY, (best.q, best.u), state)
            rate = lambda t, y: VectorField()(t, y, (BODY, None))
            later = looped(rate, RK4, 0.0, jnp.array(T), state)[0]
            state = retract(BODY, later, jnp.sqrt(WALK * T) * walk)
            value = error @ jnp.linalg.solve(best.covariance, error) / 6
            return (state, filter.predict(best, 0.0, jnp.array(T))), value

        noise = jax.random.normal(keys[2], (samples, 9)), jax.random.normal(keys[3], (samples, 6))
        return jax.lax.scan(turn, (state, first), noise)[1]

    return jax.vmap(run)(jax.random.split(key, RUNS))


def inside(values):
    """Fraction of the times at which the mean over the runs lies within its 95 % band of the χ² distribution."""
    low, high = np.asarray(chi2.ppf([0.025, 0.975], 6 * RUNS)) / (6 * RUNS)
    mean = np.asarray(values).mean(axis=0)
    return np.mean((mean > low) & (mean < high))


def test_consistent_on_a_group():
    P = jnp.diag(jnp.array([0.1] * 3 + [0.05] * 3) ** 2)
    assert inside(normalised_errors(jax.random.key(1), P, jnp.array(0.0))) > 0.8


def test_consistent_from_90_degrees_off():
    P = jnp.diag(jnp.array([np.pi / 2] * 3 + [0.05] * 3) ** 2)
    found = normalised_errors(jax.random.key(2), P, jnp.array(np.pi / 2))
    assert inside(found[:, 10:]) > 0.8


def logarithm(system, t, q, u, control):
    return jnp.concatenate([system.space.log(q), u])


def test_covariance_after_a_large_correction():
    """The covariance is expressed at the new estimate: J_r(δ) P J_r(δ)ᵀ with the right Jacobian J_r of SO(3)."""
    P = np.diag([0.5, 0.8, 0.3, 0.2, 0.4, 0.6])
    sensors = Sensors((logarithm,), jnp.sqrt(jnp.diagonal(jnp.asarray(P))))  # H = 1, K = ½
    first = BODY.space.identity(), jnp.zeros(3)
    filter = KalmanFilter(BODY, sensors, *first, jnp.asarray(P))
    delta = np.array([0.6, -0.9, 0.5])
    seen = jnp.concatenate([jnp.asarray(2 * delta), jnp.zeros(3)])
    found = jax.jit(lambda seen: filter.update(filter.start(), 0.0, seen))(seen)
    angle, (x, y, z) = np.linalg.norm(delta), delta
    hat = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    right = np.eye(3) - (1 - np.cos(angle)) / angle**2 * hat
    right += (angle - np.sin(angle)) / angle**3 * hat @ hat
    np.testing.assert_allclose(BODY.space.log(found.q), delta, atol=1e-12)
    np.testing.assert_allclose(
        found.covariance[:3, :3], right @ P[:3, :3] @ right.T / 2, atol=1e-12
    )
    np.testing.assert_allclose(found.covariance[3:, 3:], P[3:, 3:] / 2, atol=1e-12)


def test_in_a_closed_loop():
    """A filter that measures only positions gives the law a velocity that stabilises eight carts."""
    sensors = Sensors((place,), 0.02)
    filter = KalmanFilter(CART, sensors, jnp.zeros(1), jnp.zeros(1), jnp.ones(2), 1e-3)
    law = Sampled(Gains(jnp.array([4.0, 3.0])), T, delay=1, sensors=sensors, estimator=filter)
    start, key = jnp.linspace(-1.0, 1.0, 8)[:, None], jax.random.key(0)
    found = closed_loop(CART, start, jnp.zeros(1), law, 160, key=key, in_axes=(None, 0, None, None))
    assert float(jnp.abs(found.q[:, 100:]).max()) < 0.05
    assert float(jnp.abs(found.q[:, 0]).max()) == 1.0


@pytest.mark.parametrize("lanes", [False, True])
def test_error_of_the_estimate_in_a_closed_loop(lanes):
    """`stats` has e·P⁻¹ e / 2 after each sample, with e and P of the textbook's filter. The sensor is biased."""
    P, W, shift = np.array([[0.5, 0.1], [0.1, 0.8]]), np.diag([0.02, 0.3]), 0.1
    model = jnp.array([0.1]), jnp.array([-0.2]), jnp.asarray(P), jnp.asarray(W)
    filter = KalmanFilter(CART, Sensors((place,), 0.3), *model)
    sensors = Sensors((place,), bias=shift)
    law = Sampled(Gains(jnp.array([4.0, 3.0])), T, delay=1, sensors=sensors, estimator=filter)
    start = jnp.array([[0.4], [-0.7]]) if lanes else jnp.array([0.4])
    axes = (None, 0, None, None) if lanes else None
    found = closed_loop(CART, start, jnp.zeros(1), law, 60, key=jax.random.key(0), in_axes=axes)
    errors = found.stats["estimation_error"]
    commands = found.given()[1].commands
    for q, u, c, error in zip(
        *(np.reshape(x, (-1, *x.shape[-2:])) for x in (found.q, found.u, commands)),
        np.reshape(errors, (-1, 60)),
        strict=True,
    ):
        x, covariance = textbook(q[:-1] + shift, c[:, 0], 0.3, P, W)
        e = np.concatenate([q, u], 1)[:-1] - x
        wanted = np.einsum("ki,kij,kj->k", e, np.linalg.inv(covariance), e) / 2
        np.testing.assert_allclose(error, wanted, atol=1e-10)


BAD = {"q": jnp.zeros(1), "u": jnp.zeros(1), "covariance": jnp.ones(2)}

NO_FORCE = jnp.zeros(1)
PLACED = KalmanFilter(CART, Sensors((place,), 0.1), **BAD)
ALL_SEEN = KalmanFilter(CART, StateSensors(0.1), **BAD)


def of_other_sensors(sensors):
    """A closed loop whose filter models another measurement than its sensors give."""
    filter = KalmanFilter(CART, Sensors((place,), 0.1), **BAD)
    law = Sampled(Gains(jnp.ones(2)), T, sensors=sensors, estimator=filter)
    return closed_loop(CART, jnp.zeros(1), jnp.zeros(1), law, 9, key=jax.random.key(0))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: KalmanFilter(CART, Sensors((place,)), **BAD), ValueError, "`sensors` have the noise 0.*must be positive"),
        (lambda: KalmanFilter(CART, place, **BAD), TypeError, "`sensors` is .*jaxhamel.control.Sensors"),
        (lambda: KalmanFilter(CART, StateSensors(0.1), **{**BAD, "covariance": jnp.ones(3)}), ValueError,
         r"`covariance` has shape \(3,\); it must be \(2,\)"),
        (lambda: KalmanFilter(CART, StateSensors(0.1), **{**BAD, "covariance": jnp.array([1.0, -1.0])}), ValueError,
         "`covariance` has the eigenvalue -1"),
        (lambda: KalmanFilter(CART, StateSensors(0.1), **BAD, process_noise=-1.0), ValueError, "`process_noise` is -1"),
        (lambda: KalmanFilter(CART, StateSensors(0.1), **BAD, iterations=0), ValueError, "`iterations` is 0"),
        (lambda: Sampled(Gains(jnp.ones(2)), T, estimator=KalmanFilter(CART, StateSensors(0.1), **BAD)), ValueError,
         "`estimator` is given without `sensors`"),
        (lambda: of_other_sensors(Sensors((place, place), 0.1)), ValueError,
         "`sensors` give 2 numbers, and those of the `estimator` 1 numbers; both must be of one form"),
        (lambda: of_other_sensors(StateSensors(0.1)), ValueError, "`sensors` give states of 2 numbers, and"),
        (lambda: PLACED.update(PLACED.start(), 0.0, jnp.zeros(2), NO_FORCE), ValueError,
         r"The observation has shape \(2,\); .* give \(1,\)"),
        (lambda: ALL_SEEN.update(ALL_SEEN.start(), 0.0, jnp.zeros(2), NO_FORCE), ValueError, r"the pair \(q, u\)"),
        (lambda: ALL_SEEN.update(ALL_SEEN.start(), 0.0, (NO_FORCE, jnp.zeros(2)), NO_FORCE), ValueError,
         r"The observation has the shapes \(\(1,\), \(2,\)\)"),
        (lambda: PLACED.predict((NO_FORCE, NO_FORCE), 0.0, T, NO_FORCE), TypeError, "`belief` is of type tuple"),
        (lambda: PLACED.predict(PLACED.start(), 0.0, -T, NO_FORCE), ValueError, "`period` is -.*must be positive"),
        (lambda: PLACED.predict(PLACED.start(), 0.0, T, jnp.zeros(3)), ValueError, r"`force.* has shape \(3,\)"),
        (lambda: MovingHorizonEstimator(PLACED, 3).update(PLACED.start(), 0.0, NO_FORCE), TypeError,
         "`window` is of type Belief"),
        (lambda: Sampled(Gains(jnp.ones(2)), T, sensors=StateSensors(0.1), estimator=place), TypeError,
         "`estimator` is .*KalmanFilter"),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
