"""A body in an ideal fluid: the sphere, Munk's moment as a pendulum, impulses."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ellipk

from jaxhamel.geometry import SE3
from jaxhamel.mechanics import acceleration
from jaxhamel.systems import FreeRigidBody, UnderwaterBody
from tests.systems.motion import inertias, states, unit_quaternions
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    first,
    kept,
)

ORIGIN = SE3().identity()


@pytest.fixture
def rng():
    return np.random.default_rng(13)


def submarine(rng):
    """A body without symmetries, heavier than water, with generic centres."""
    half = rng.normal(size=(6, 6))
    return UnderwaterBody(
        1.2, inertias(rng), half @ half.T / 6, 0.9, 0.2 * rng.normal(size=3), [0.1, 0, 0.2]
    )


def random_states(rng):
    pose = np.concatenate([unit_quaternions(rng, STATES), rng.normal(size=(STATES, 3))], axis=1)
    return pose, rng.normal(size=(STATES, 6))


def sphere(mass, displaced):
    return UnderwaterBody(mass, [0.1] * 3, np.diag([0, 0, 0, 0.5, 0.5, 0.5]) * displaced, displaced)


@pytest.mark.parametrize(("mass", "rise"), [(1e-9, 2.0), (1.0, 0.0), (2.5, -0.5)])
def test_sphere_rises_with_half_its_water(mass, rise):
    """The acceleration is (m_w − m) g/(m + m_w/2): 2 g for a bubble, zero for a neutral sphere."""
    rate = acceleration(sphere(mass, 1.0), 0.0, ORIGIN, jnp.zeros(6))
    np.testing.assert_allclose(rate, [0, 0, 0, 0, 0, 9.81 * rise], rtol=0, atol=1e-7)


def test_munk_moment_is_a_pendulum():
    """φ = 2 θ swings with k² = (m_1 − m_2) P²/(m_1 m_2 I_3), in the period 4 K(sin²(φ_0/2))/k."""
    system = UnderwaterBody(1.0, [0.3, 0.3, 0.5], np.diag([0, 0, 0.2, 2.0, 0.5, 0.7]), 1.0)
    broad, narrow, inertia, impulse, theta = 3.0, 1.5, 0.7, 2.0, 0.6
    k = np.sqrt((broad - narrow) / (broad * narrow * inertia)) * impulse
    period = 4 * ellipk(np.sin(theta) ** 2) / k
    turn = jnp.array([np.cos(theta / 2), 0, 0, np.sin(theta / 2), 0, 0, 0])
    velocity = [impulse * np.cos(theta) / broad, -impulse * np.sin(theta) / narrow, 0]
    u = jnp.array([0, 0, 0, *velocity])
    q, end = states(system, turn, u, jnp.array([0, period / 2, period]), steps=150)
    np.testing.assert_allclose(end[-1], u, rtol=0, atol=1e-10)
    np.testing.assert_allclose(q[-1, :4], turn[:4], rtol=0, atol=1e-10)
    np.testing.assert_allclose(q[1, 3], -turn[3], rtol=0, atol=1e-10)  # the other side
    assert q[-1, 4] > 1.0  # the body moves along its impulse


def test_impulses_and_energy_are_kept(rng):
    system, (q, u) = submarine(rng), first(random_states(rng))
    path = states(system, jnp.asarray(q), jnp.asarray(u), jnp.linspace(0.0, 1.5, 4), steps=150)
    assert_kept(system, path, 1e-10)
    assert np.ptp(path[0][:, 6]) > 0.1


def test_neutral_body_keeps_all_impulses(rng):
    half = rng.normal(size=(6, 6))
    system = UnderwaterBody(1.2, inertias(rng), half @ half.T / 6, 1.2)
    q, u = first(random_states(rng))
    path = states(system, jnp.asarray(q), jnp.asarray(u), jnp.linspace(0.0, 1.5, 4), steps=150)
    start = np.concatenate(system.impulse(jnp.asarray(q), jnp.asarray(u)))
    end = np.concatenate(system.impulse(path[0][-1], path[1][-1]))
    np.testing.assert_allclose(end, start, rtol=0, atol=1e-10)
    assert_kept(system, path, 1e-10)
    assert set(kept(system, path)) == {
        "energy", "horizontal impulse", "vertical angular impulse"
    }  # fmt: skip


def test_without_water_it_is_a_free_body(rng):
    """Without added mass, displaced water and weight it is a free rigid body."""
    inertia = inertias(rng)
    dry = UnderwaterBody(1.2, inertia, np.zeros((6, 6)), 0.0, [0.1, -0.2, 0.3], gravity=0.0)
    q, u = (jnp.asarray(x) for x in first(random_states(rng)))
    rate = acceleration(dry, 0.0, q, u)
    wanted = acceleration(FreeRigidBody(inertia), 0.0, q[:4], u[:3])
    np.testing.assert_allclose(rate[:3], wanted, rtol=0, atol=1e-12)
    omega, com = np.asarray(u[:3]), np.array([0.1, -0.2, 0.3])
    of_com = rate[3:] + np.cross(omega, u[3:])
    of_com = of_com + np.cross(rate[:3], com) + np.cross(omega, np.cross(omega, com))
    np.testing.assert_allclose(of_com, 0.0, atol=1e-12)


def test_parameter_gradients(rng):
    system, at = submarine(rng), random_states(rng)
    assert_parameter_gradients_agree(system, *first(at))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sphere(0.0, 1.0), "`mass` is 0.*positive"),
        (lambda: sphere(1.0, -1.0), "`displaced_mass` is -1"),
        (
            lambda: UnderwaterBody(1.0, [1.0] * 3, np.eye(3), 1.0),
            r"`added_mass` has shape \(3, 3\)",
        ),
        (lambda: UnderwaterBody(1.0, [1.0] * 3, -np.eye(6), 1.0), "`added_mass` .*eigenvalue -1"),
        (lambda: UnderwaterBody(1.0, [1.0] * 3, np.eye(6, k=1), 1.0), "`added_mass` .*transpose"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()
