"""Sensors of the whole state: errors in exponential coordinates, resolution, use in a loop; plans from results; error
messages."""

from types import SimpleNamespace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import simulate
from jaxhamel.control import Sampled, StateSensors, closed_loop, plan_of
from jaxhamel.systems import FreeRigidBody
from tests.control.cart import Cart
from tests.control.test_closed_loop import PERIOD, Gains
from tests.systems.ball import two_mass_ball

BODY = FreeRigidBody([1.0, 1.1, 1.3])
Q, U = jax.jit(BODY.space.exp)(jnp.array([0.3, -1.2, 0.8])), jnp.array([0.2, 0.5, -0.4])
CART = Cart(jnp.array(1.0))


def test_error_in_exponential_coordinates():
    """log(q⁻¹ q̃) = bias + noise ξ on SO(3), and likewise for u."""
    noise, bias = jnp.array([0.1, 0.2, 0.3, 1.0, 2.0, 3.0]), jnp.arange(6.0) / 10
    xi = jnp.array([0.5, -1.0, 0.7, 0.1, 0.2, -0.3])
    q, u = StateSensors(noise, bias)(BODY, 0.0, Q, U, None, xi)
    wanted = np.asarray(bias + noise * xi)
    np.testing.assert_allclose(BODY.space.local(Q, q), wanted[:3], atol=1e-12)
    np.testing.assert_allclose(u - U, wanted[3:], atol=1e-12)


def test_resolution():
    """Measured coordinates are the nearest multiples of the resolution; a resolution of 0 leaves them unchanged."""
    size = jnp.array([0.17, 0.0, 0.3, 0.12, 0.0, 0.15])
    q, u = StateSensors(resolution=size)(BODY, 0.0, Q, U, None, jnp.zeros(6))
    origin = BODY.space.identity()
    found = np.concatenate([BODY.space.local(origin, q), u])
    exact = np.concatenate([BODY.space.local(origin, Q), U])
    steps, some = np.asarray(size), np.asarray(size) > 0
    np.testing.assert_allclose(
        found[some] / steps[some], np.round(exact[some] / steps[some]), atol=1e-12
    )
    np.testing.assert_allclose(found[~some], exact[~some], atol=1e-14)


def test_in_the_loop():
    """For a cart at rest the first commands are −K (bias + noise ξ); their mean and standard deviation over 400
    trajectories agree."""
    gains = jnp.array([4.0, 2.0])
    of_all = jnp.array([[0.5, -0.2]] * 400)
    sensors = eqx.tree_at(lambda s: s.bias, StateSensors(jnp.array([0.3, 0.1])), of_all)
    law = Sampled(Gains(gains), PERIOD, sensors=sensors)
    axes = jax.tree.map(lambda x: None, law)
    axes = eqx.tree_at(lambda c: c.sensors.bias, axes, 0, is_leaf=lambda x: x is None)
    found = closed_loop(
        CART,
        jnp.zeros((400, 1)),
        jnp.zeros(1),
        law,
        1,
        key=jax.random.key(0),
        in_axes=(None, 0, None, axes),
    )
    first = np.asarray(found.given()[1].commands)[:, 0, 0]
    wide = np.hypot(4.0 * 0.3, 2.0 * 0.1)
    assert abs(first.mean() + (4.0 * 0.5 - 2.0 * 0.2)) < 4 * wide / 20
    assert abs(first.std() / wide - 1) < 4 / np.sqrt(800)


class Swing(eqx.Module):
    """The angles θ(t) of two masses."""

    def __call__(self, t):
        return -jnp.pi / 2 + jnp.stack([0.3 * jnp.sin(2 * t), 0.2 * jnp.sin(3 * t)])


def test_plan_of_a_result_with_moving_parts():
    """The plan has the curve's θ, θ̇ and θ̈; driven by θ̈, the system repeats the motion of the result."""
    ball = two_mass_ball()
    q0, u0 = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2)), jnp.zeros(3)
    ts = jnp.linspace(0.0, 0.5, 6)
    motion = simulate(ball, q0, u0, ts, Swing(), rtol=1e-10, atol=1e-12)
    problem = SimpleNamespace(system=ball, q0=q0, u0=u0)
    given = {"problem": problem, "trajectory": motion, "control": Swing()}
    found = SimpleNamespace(**given, states=None)
    plan = plan_of(found)
    t = np.asarray(ts)
    theta = np.stack([0.3 * np.sin(2 * t), 0.2 * np.sin(3 * t)], 1) - np.pi / 2
    np.testing.assert_allclose(plan.q[-1], theta, atol=1e-14)
    rates = np.stack([0.6 * np.cos(2 * t), 0.6 * np.cos(3 * t)], 1)
    np.testing.assert_allclose(plan.u[:, 3:], rates, atol=1e-14)
    second = np.stack([-1.2 * np.sin(2 * t), -1.8 * np.sin(3 * t)], 1)
    np.testing.assert_allclose(jax.vmap(plan.control)(plan.ts), second, atol=1e-13)
    start = jax.tree.map(lambda x: x[0], (plan.q, plan.u))
    again = simulate(plan.system, *start, plan.ts, plan.control, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(again.q[1], motion.q[1], atol=1e-8)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: StateSensors(noise=-1.0), ValueError, "`noise` is -1"),
        (lambda: StateSensors(bias=jnp.nan), ValueError, "`bias`"),
        (lambda: StateSensors(resolution=-0.1), ValueError, "`resolution` is -0.1"),
        (lambda: closed_loop(CART, jnp.zeros(1), jnp.zeros(1),
                             Sampled(Gains(jnp.ones(2)), 0.1, sensors=StateSensors(jnp.ones(3))), 5,
                             key=jax.random.key(0)),
         ValueError, r"`noise` of the sensors has shape \(3,\); it must be one number or \(2,\)"),
        (lambda: plan_of(CART), TypeError, "`result` is .*Cart; it must be the result of jaxhamel.control.solve"),
    ],
)  # fmt: skip
def test_messages(call, kind, words):
    with pytest.raises(kind, match=words):
        call()
