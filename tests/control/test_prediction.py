"""A model that predicts the state over the delay: against recursions in NumPy, the loop without delay, and its messages."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxhamel
from jaxhamel.control import (
    KalmanFilter,
    Sampled,
    Sensors,
    closed_loop,
    loop_multipliers,
    loop_stability,
)
from tests.control.cart import Cart

CART = Cart(jnp.array(1.0))
PERIOD = 0.05


class Oscillators(jaxhamel.System):
    """Masses of 1 kg with a matrix of springs, q̈ = −K q + G c; K may have negative eigenvalues."""

    springs: jax.Array
    inputs: jax.Array
    space = jaxhamel.Euclidean(2)
    n_controls = 1

    def lagrangian(self, t, q, v):
        return 0.5 * v @ v - 0.5 * q @ self.springs @ q

    def force(self, t, q, v, control):
        return self.inputs * control[0]


class Pendulum(jaxhamel.System):
    """An inverted pendulum of 10 cm, upright at 0, which falls with e^(9.9 t)."""

    gravity: jax.Array
    space = jaxhamel.SO2()
    n_controls = 1

    def lagrangian(self, t, q, v):
        return 0.005 * v[0] ** 2 - 0.1 * self.gravity * jnp.cos(q[0])

    def force(self, t, q, v, control):
        return control


class Free(jaxhamel.System):
    """A mass of 1 kg that any number of forces act on."""

    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * v @ v

    def force(self, t, q, v, control):
        return jnp.sum(control)[None]


class Gains(eqx.Module):
    gains: jax.Array

    def __call__(self, t, q, u):
        return -(self.gains @ jnp.concatenate([q, u]))[None]


class Delayed(eqx.Module):
    """A law that takes a delay into account itself, as `RecedingHorizon` does."""

    delay: int = eqx.field(static=True)

    def __call__(self, t, q, u):
        return -q


class Time(eqx.Module):
    """A law that commands the time with which it is called; `at` makes it a table over time."""

    def __call__(self, t, q, u):
        return jnp.asarray(t)[None]


class TableOfTime(Time):
    def at(self, t):
        return AtTime(t)


class AtTime(eqx.Module):
    time: jax.Array

    def __call__(self, t, q, u):
        return self.time[None]


def angle(system, t, q, u, control):
    return q


numbers = st.floats(-9.0, 9.0)


@settings(max_examples=8, deadline=None)
@given(st.lists(numbers, min_size=7, max_size=7), st.sampled_from([1, 2]))
def test_multipliers_are_those_without_the_delay(values, delay):
    """With an exact model the delay adds multipliers of 0 alone. Those of random oscillators are compared with E − F K of
    the exact flow by SciPy, whatever the signs of springs and gains."""
    a, b, c, *gains = values
    springs, inputs = np.array([[a, b], [b, c]]), np.array([1.0, 0.5])
    system = Oscillators(jnp.asarray(springs), jnp.asarray(inputs))
    law = Sampled(Gains(jnp.asarray(gains)), PERIOD, delay=delay, model=system)
    found = loop_multipliers(system, jnp.zeros(2), jnp.zeros(2), law, steps=4)
    whole = np.zeros((5, 5))
    whole[:2, 2:4], whole[2:4, :2], whole[2:4, 4] = np.eye(2), -springs, inputs
    E, F = np.split(scipy.linalg.expm(whole * PERIOD)[:4], [4], axis=1)
    wanted = np.linalg.eigvals(E - F @ np.asarray(gains)[None])
    characteristic = np.poly(np.append(wanted, np.zeros(delay)))
    np.testing.assert_allclose(np.poly(np.asarray(found)), characteristic, rtol=0, atol=1e-6)


def predicted_recursion(gains, delay, limit, rate, samples):
    """The cart by its exact flow: each command is that of the state that the waiting commands lead to."""
    E, F = np.array([[1.0, PERIOD], [0.0, 1.0]]), np.array([0.5 * PERIOD**2, PERIOD])
    x, last, commands, rows = np.array([0.8, 0.3]), 0.0, [0.0] * delay, []
    for k in range(samples):
        ahead = x
        for c in commands[k:]:
            ahead = E @ ahead + F * c
        wanted = np.clip(-gains @ ahead, -limit, limit)
        last = last + np.clip(wanted - last, -rate * PERIOD, rate * PERIOD)
        commands.append(last)
        x = E @ x + F * commands[k]
        rows.append(x)
    return np.array(rows)


def test_the_prediction_uses_limited_commands():
    """Three carts in lanes, and one alone, move as by a recursion in NumPy, with saturation and a limited rate."""
    gains = np.array([[4.0, 2.0], [9.0, 1.0], [1.0, 3.0]])

    def controller(gains):
        law = Gains(jnp.asarray(gains))
        return Sampled(law, PERIOD, delay=3, lower=-1.5, upper=1.5, rate=9.0, model=CART)

    start, axes = (jnp.array([0.8]), jnp.array([0.3])), (None, None, None, 0)
    found = closed_loop(CART, *start, jax.vmap(controller)(gains), 40, in_axes=axes)
    wanted = [predicted_recursion(x, 3, 1.5, 9.0, 40) for x in gains]
    got = np.concatenate([found.q, found.u], axis=2)[:, 1:]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-12)
    one = closed_loop(CART, *start, controller(gains[1]), 40)
    np.testing.assert_allclose(one.q[:, 0], found.q[1, :, 0], rtol=0, atol=1e-13)

    def loss(gains):
        found = closed_loop(CART, *start, jax.vmap(controller)(gains), 40, in_axes=axes)
        return jnp.sum(found.q**2)

    gradient = jax.grad(loss)(jnp.asarray(gains))
    for i, j in ((0, 0), (1, 1)):
        step = 1e-6 * np.eye(3)[i][:, None] * np.eye(2)[j]
        rows = [
            predicted_recursion(x, 3, 1.5, 9.0, 40)
            for x in (gains[i] + step[i], gains[i] - step[i])
        ]
        slope = (np.sum(rows[0][:, 0] ** 2) - np.sum(rows[1][:, 0] ** 2)) / 2e-6
        np.testing.assert_allclose(gradient[i, j], slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("law", [Time(), TableOfTime()])
@pytest.mark.parametrize("axes", [None, (0, None, None, None)])
def test_the_law_is_called_with_the_time_of_its_command(law, axes):
    system = CART if axes is None else jax.vmap(Cart)(jnp.ones(3))
    controller = Sampled(law, PERIOD, delay=2, start=-1.0, model=CART)
    found = closed_loop(system, jnp.zeros(1), jnp.zeros(1), controller, 6, t0=1.0, in_axes=axes)
    commands = found.given()[1].commands
    wanted = [-1.0, -1.0, *(1.0 + PERIOD * np.arange(2, 6))]
    np.testing.assert_allclose(commands.reshape(-1, 6), np.tile(wanted, (commands.size // 6, 1)))


def test_a_filter_and_a_delay_that_gains_do_not_bear():
    """Gains that hold the pendulum without delay lose it with 40 ms; with the filter's model over the delay they hold it, to
    within the noise, and `loop_stability` names this way out."""
    pendulum = Pendulum(jnp.array(9.81))
    law, rest = Gains(jnp.array([8.0, 0.4])), (jnp.zeros(1), jnp.zeros(1))
    sensors = Sensors((angle,), noise=0.002)
    start = {"q": rest[0], "u": rest[1], "covariance": jnp.array([1e-3, 1e-2])}
    estimator = KalmanFilter(
        pendulum, sensors, **start, process_noise=jnp.array([0.0, 0.1]), steps=2
    )
    given = {"sensors": sensors, "estimator": estimator}
    late = Sampled(law, 0.01, delay=4)
    assert loop_stability(pendulum, *rest, Sampled(law, 0.01)).stable
    words = str(loop_stability(pendulum, *rest, late))
    assert "Shorten the delay, make the gains smaller, or give a `model` that predicts" in words
    assert loop_stability(pendulum, *rest, Sampled(law, 0.01, delay=4, model=pendulum)).stable
    sizes = []
    for model in (None, pendulum):
        controller = Sampled(law, 0.01, delay=4, model=model, **given)
        key = jax.random.key(3)
        found = closed_loop(pendulum, jnp.array([0.05]), rest[1], controller, 300, key=key)
        sizes.append(float(jnp.max(jnp.abs(found.q[100:]))))
    assert sizes[0] > 1.0
    assert sizes[1] < 0.02


def test_messages():
    rest = jnp.zeros(1), jnp.zeros(1)
    law = Gains(jnp.array([4.0, 2.0]))
    with pytest.raises(TypeError, match=r"`model` is of type int; it must be a jaxhamel.System"):
        Sampled(law, PERIOD, model=3)
    sensors = Sensors((angle,))
    with pytest.raises(ValueError, match=r"`model` predicts the state .* Give an `estimator`"):
        Sampled(lambda t, y: -y, PERIOD, sensors=sensors, model=CART)
    other = Oscillators(jnp.eye(2), jnp.ones(2))
    with pytest.raises(ValueError, match="`model` is made for states"):
        closed_loop(CART, *rest, Sampled(law, PERIOD, delay=1, model=other), 3)
    with pytest.raises(
        ValueError, match=r"the Delayed predicts the state over its delay by itself"
    ):
        Sampled(Delayed(0), PERIOD, model=CART)
    free = Sampled(lambda t, q, u: jnp.zeros(2), PERIOD, model=Pendulum(jnp.array(9.81)))
    with pytest.raises(ValueError, match=r"`model` takes 1 controls, and a command has 2"):
        closed_loop(Free(), *rest, free, 3)
