"""Ensembles of a ball with many masses, whose steps run one stage at a time in several loops, against the same steps in
plain JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import ensemble
from jaxhamel._lanes._written_out import estimated_operations
from jaxhamel.control import FourierSeries
from jaxhamel.ensemble._equal_steps._step_forms import is_at_once
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate._solvers._runge_kutta import RK4
from jaxhamel.systems import CircularRails, RollingBall

RNG = np.random.default_rng(11)
B, MASSES, DT, STEPS = 18, 20, 0.02, 4
CASES = [(60, 1024, True), (100, 1024, False), (100, 128, True), (120, 128, False)]


def many_masses():
    """A ball with rails in random planes, and the motion of the masses along them."""
    normal, other = RNG.normal(size=(2, MASSES, 3))
    zero = np.cross(normal, other)
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
    rails = CircularRails(RNG.uniform(0.2, 0.8, MASSES), unit(normal), unit(zero))
    masses = RNG.uniform(0.1, 1.0, MASSES)
    ball = RollingBall(1.0, 4.0, [1.0, 1.1, 1.2], [0, 0, -0.05], masses, rails)
    mean, cosine, sine = RNG.normal(size=MASSES), *RNG.normal(size=(2, 2, MASSES))
    return ball, FourierSeries(mean=mean, cosine=0.3 * cosine, sine=0.3 * sine, period=2.0)


def runge_kutta(rate, unit, y):
    """State after STEPS steps of RK4 in plain JAX."""
    ahead = lambda y, k, h: jax.tree.map(lambda x, k: x + h * k, y, k)

    def step(n, y):
        t = n * DT
        a = rate(t, y)
        b = rate(t + DT / 2, ahead(y, a, DT / 2))
        c = rate(t + DT / 2, ahead(y, b, DT / 2))
        d = rate(t + DT, ahead(y, c, DT))
        slope = jax.tree.map(lambda a, b, c, d: (a + 2 * b + 2 * c + d) / 6, a, b, c, d)
        return unit(ahead(y, slope, DT))

    return jax.lax.fori_loop(0, STEPS, step, y)


def test_twenty_masses_move_as_in_plain_jax():
    ball, control = many_masses()
    q0 = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2))
    u0 = RNG.normal(size=(B, 3))
    ts, axes = [0.0, STEPS * DT], (None, None, 0, None)
    q, u = ensemble.rollout(ball, q0, u0, ts, control, dt=DT, in_axes=axes)

    @jax.jit
    def by_hand(u):
        rate = jax.jit(lambda t, y: VectorField()(t, y, (ball, control)))
        unit = lambda y: (ball.space.normalise(y[0]), y[1])
        return runge_kutta(rate, unit, (q0, u))

    for lane in (0, B - 1):
        (turned, place), rates = by_hand(jnp.asarray(u0[lane]))
        np.testing.assert_allclose(q[0][lane, -1], turned, atol=1e-12)
        np.testing.assert_allclose(q[1][lane, -1], place, atol=1e-12)
        np.testing.assert_allclose(u[lane, -1], rates, rtol=1e-11)


@pytest.mark.parametrize(("terms", "lanes", "at_once"), CASES)
def test_a_long_step_goes_a_stage_at_a_time(terms, lanes, at_once):
    """A step of more than three loops (many lanes) or four (few lanes) runs one stage at a time."""

    def rate(t, y, mine, shared):
        return (sum(jnp.sin(k * y[0]) for k in range(1, terms)),)

    motion = SteppedMotion(rate, lambda y, shared: y, (jnp.ones(lanes),), (), ())
    at = (jnp.zeros(()), motion.y, (), ())
    length = estimated_operations(rate, (False, True, True, False), *at)
    assert is_at_once(length, motion, RK4) is at_once
