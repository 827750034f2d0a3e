"""Derivatives of rollout: against the same steps written plainly under vmap, in both modes, of second order, in memory."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from systems_ball import two_mass_ball
from systems_motion import unit_quaternions
from test_ensemble_simulate import Swing

from jaxhamel import ensemble
from jaxhamel.ensemble._tableaus import tableau
from jaxhamel.mechanics import VectorField
from jaxhamel.systems import FreeRigidBody

RNG = np.random.default_rng(8)
B = 3
TS, DT = np.array([0.0, 0.1, 0.3]), 0.05
QUATERNION, U0 = unit_quaternions(RNG, B), jnp.asarray(RNG.normal(size=(B, 3)))
Q0 = (QUATERNION, jnp.asarray(RNG.normal(size=(B, 2))))
MASSES, INERTIA = jnp.asarray(RNG.uniform(0.5, 1.5, (B, 2))), jnp.array([1.0, 2.0, 2.5])


def plain(system, q0, u0, control, method):
    """One trajectory's last state, step by step."""
    table = tableau(method)

    def ahead(y, weights, slopes):
        used = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
        move = lambda x, *k: x + DT * sum(w * s for (w, _), s in zip(used, k, strict=True))  # noqa: E731
        return jax.tree.map(move, y, *(k for _, k in used)) if used else y

    def step(y, t):
        slopes = []
        for row, c in zip(table.a, table.c, strict=True):
            slopes.append(slope(t + c * DT, ahead(y, row, slopes)))
        q, u = ahead(y, table.b, slopes)
        return (system.space.normalise(q), u), None

    slope = jax.jit(lambda t, y: VectorField()(t, y, (system, control)))
    return jax.lax.scan(step, (q0, u0), DT * jnp.arange(round(TS[-1] / DT), dtype=float))[0]


def cost(q, u):
    return sum(jnp.mean(jnp.sin(x) * x) for x in jax.tree.leaves((q, u)))


def rolled(method):
    """Of a mean cost of balls by their masses, starts and the control that all share."""

    def total(masses, u0, swing):
        balls = jax.vmap(lambda m: two_mass_ball(masses=m))(masses)
        axes = (0, 0, 0, None)
        q, u = ensemble.rollout(balls, Q0, u0, TS, swing, dt=DT, in_axes=axes, method=method)
        return cost(jax.tree.map(lambda x: x[:, -1], q), u[:, -1])

    return total


def by_vmap(method):
    def total(masses, u0, swing):
        one = lambda m, q, u: plain(two_mass_ball(masses=m), q, u, swing, method)  # noqa: E731
        return cost(*jax.vmap(one)(masses, Q0, u0))

    return total


def test_gradient_is_that_of_the_plain_steps():
    at = (MASSES, U0, Swing(jnp.array([0.3, 0.2])))
    found, wanted = (jax.jit(jax.grad(f("rk4"), (0, 1, 2)))(*at) for f in (rolled, by_vmap))
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


def spinning(method="rk4", checkpoint=True):
    """Of a body's inertia, which all share, and of its starts."""

    def total(inertia, u0):
        body, axes = FreeRigidBody(inertia), (None, 0, 0, None)
        options = {"dt": DT, "in_axes": axes, "method": method, "checkpoint": checkpoint}
        q, u = ensemble.rollout(body, QUATERNION, u0, TS, **options)
        return cost(q[:, -1], u[:, -1])

    return total


@pytest.mark.parametrize("method", [diffrax.Heun(), diffrax.Tsit5(), diffrax.Dopri8()])
def test_stages_that_need_all_those_before(method):
    def wanted(inertia, u0):
        one = lambda q, u: plain(FreeRigidBody(inertia), q, u, None, method)  # noqa: E731
        return cost(*jax.vmap(one)(QUATERNION, u0))

    for x, y in zip(
        jax.jit(jax.grad(spinning(method), (0, 1)))(INERTIA, U0),
        jax.jit(jax.grad(wanted, (0, 1)))(INERTIA, U0),
        strict=True,
    ):
        np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-13)


def test_every_mode_and_order():
    """Forward, backward, forward over backward, backward over backward, vmap of backward: one Hessian."""
    f, v = (
        (lambda x: spinning()(x[:3], jnp.reshape(x[3:], (B, 3)))),
        jnp.linspace(0.5, -0.7, 3 + 3 * B),
    )
    x = jnp.concatenate([INERTIA, U0.ravel()])
    gradient = jax.grad(f)
    found = jax.jit(
        lambda x, v: {
            "rate": jax.jvp(f, (x,), (v,))[1],
            "gradient": gradient(x),
            "forward": jax.jvp(gradient, (x,), (v,))[1],
            "backward": jax.grad(lambda x: gradient(x) @ v)(x),
            "several": jax.vmap(gradient)(jnp.stack([x, x + 1e-5 * v, x - 1e-5 * v])),
        }
    )(x, v)
    np.testing.assert_allclose(found["rate"], found["gradient"] @ v, rtol=1e-12)
    np.testing.assert_allclose(found["forward"], found["backward"], rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(found["several"][0], found["gradient"], rtol=1e-12)
    differences = (found["several"][1] - found["several"][2]) / 2e-5
    np.testing.assert_allclose(found["forward"], differences, rtol=1e-7, atol=1e-9)


def test_with_and_without_checkpoints():
    found, wanted = (jax.jit(jax.grad(spinning(checkpoint=c)))(INERTIA, U0) for c in (True, False))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_finite_at_rest_and_at_the_identity():
    def total(u0, swing):
        identity = (jnp.tile(jnp.eye(4)[0], (B, 1)), jnp.zeros((B, 2)))
        axes = (None, 0, 0, None)
        q, u = ensemble.rollout(two_mass_ball(), identity, u0, TS, swing, dt=DT, in_axes=axes)
        return cost(q, u)

    found = jax.jit(jax.grad(total, (0, 1)))(jnp.zeros((B, 3)), Swing(jnp.zeros(2)))
    assert all(np.isfinite(x).all() and np.any(x) for x in jax.tree.leaves(found))


def test_memory_grows_like_the_square_root_of_the_steps():
    """16 times the steps, four times the intervals, four times the steps in each: four times the memory."""

    def bytes_for(intervals):
        ts = np.linspace(0.0, 1.0, intervals + 1)

        def total(u0):
            body, axes = FreeRigidBody(INERTIA), (None, 0, 0, None)
            start = jnp.tile(QUATERNION[:1], (64, 1))
            options = {"dt": 1.001 / intervals**2, "in_axes": axes, "checkpoint": True}
            _, u = ensemble.rollout(body, start, u0, ts, **options)
            return jnp.mean(u[:, -1] ** 2)

        compiled = jax.jit(jax.grad(total)).lower(jnp.ones((64, 3))).compile()
        return compiled.memory_analysis().temp_size_in_bytes

    few, many = bytes_for(24), bytes_for(96)
    assert 3.0 < many / few < 5.0


def test_single_precision_stays_single(float32):
    body = FreeRigidBody(jnp.asarray(INERTIA, np.float32))
    start, u0 = jnp.asarray(QUATERNION, np.float32), jnp.asarray(U0, np.float32)

    def total(u0, body):
        _, u = ensemble.rollout(body, start, u0, TS, dt=DT, in_axes=(None, 0, 0, None))
        return jnp.mean(u[:, -1] ** 2)

    found = eqx.filter_jit(eqx.filter_grad(lambda x: total(*x)))((u0, body))
    assert all(x.dtype == np.float32 for x in jax.tree.leaves(eqx.filter(found, eqx.is_array)))
