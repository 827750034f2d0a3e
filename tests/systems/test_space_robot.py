"""A free-floating planar robot: all routes, conserved momentum, rotation by a single link, a cycle with zero phase."""

from dataclasses import fields

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, curvature, geometric_phase
from jaxhamel.mechanics import acceleration, mechanical_connection
from jaxhamel.systems import SpaceRobot
from tests.systems.motion import states
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    assert_routes_agree,
    first,
)

THREE_LINKS = SpaceRobot(
    base_mass=10.0,
    base_inertia=1.3,
    mount=[0.4, 0.1],
    lengths=[0.6, 0.5, 0.3],
    coms=[0.3, 0.2, 0.2],
    masses=[2.0, 1.0, 0.7],
    inertias=[0.06, 0.03, 0.01],
)
SYMMETRIC = SpaceRobot(10.0, 1.3, [0.4, 0.0], [0.6, 0.5], [0.3, 0.2], [2.0, 1.0], [0.06, 0.03])
TORQUE = np.array([0.7, -1.1, 0.4])


def random_states(seed=5):
    rng = np.random.default_rng(seed)
    q = (rng.normal(size=(STATES, 3)), rng.normal(size=(STATES, 3)))
    return q, rng.normal(size=(STATES, 6))


def test_routes_and_gradients():
    assert_routes_agree(THREE_LINKS, *random_states(), jnp.asarray(TORQUE), jnp.asarray(TORQUE))
    assert_parameter_gradients_agree(THREE_LINKS, *first(random_states()))


def test_momentum_is_kept_under_torques_and_energy_without():
    q, u = jax.tree.map(jnp.asarray, first(random_states()))
    times = jnp.linspace(0.0, 1.0, 3)
    steps = jnp.asarray(60)
    driven = states(THREE_LINKS, q, u, times, jnp.asarray(TORQUE), steps)
    assert_kept(THREE_LINKS, driven, 1e-10, control=TORQUE)
    assert np.ptp(driven[1][:, 0]) > 0.01
    assert_kept(THREE_LINKS, states(THREE_LINKS, q, u, times, None, steps), 1e-10)


def test_one_link_turns_the_base_by_the_ratio_of_inertias():
    """A hinge at both centres of mass: I_0 ω + I_1 (ω + ṙ) = 0."""
    flywheel = SpaceRobot(3.0, 0.8, [0.0, 0.0], [0.2], [0.0], [1.0], [0.2])
    A = mechanical_connection(flywheel)(jnp.asarray([0.7]))
    np.testing.assert_allclose(A, [[0.2 / 1.0], [0.0], [0.0]], atol=1e-15)
    rate = acceleration(
        flywheel,
        0.0,
        with_base_at_rest(jnp.zeros(1)),
        jnp.zeros(4),
        jnp.asarray([0.5]),
        route="gauss",
    )
    np.testing.assert_allclose(rate, [-0.5 / 0.8, 0, 0, 0.5 / 0.2 + 0.5 / 0.8], rtol=1e-14)


def with_base_at_rest(r):
    return SE2().identity(), r


def loop_about(centre):
    """A loop that a half turn about `centre` maps to itself."""

    def loop(x):
        angle = 2 * np.pi * x
        return centre + jnp.stack([0.8 * jnp.cos(angle) + 0.3 * jnp.sin(angle), jnp.sin(angle)])

    return loop


def test_cycle_of_zero_phase():
    """With the mount on the axis, r → −r is the robot's mirror image: B of the turn is odd, so its integral over an
    area that is symmetric about r = 0 vanishes; no turn and a resting centre of mass are no motion at all."""
    connection = mechanical_connection(SYMMETRIC)

    @jax.jit
    def phase(centre):
        return geometric_phase(connection, loop_about(centre), SE2(), steps=120)

    np.testing.assert_allclose(phase(jnp.zeros(2)), 0.0, atol=1e-9)
    assert abs(phase(jnp.asarray([0.5, 0.5]))[0]) > 0.02

    B = jax.jit(lambda r: curvature(connection, r, SE2()))
    r = jnp.asarray([0.4, -1.1])
    np.testing.assert_allclose(B(r)[0], -B(-r)[0], atol=1e-15)
    assert abs(B(r)[0, 0, 1]) > 1e-3
    lopsided = mechanical_connection(THREE_LINKS)
    off = lambda r: curvature(lopsided, jnp.concatenate([r, jnp.zeros(1)]), SE2())
    assert abs(off(jnp.zeros(2))[0, 0, 1]) > 1e-3  # the mount is beside the axis


def test_centre_of_mass_rests_at_zero_momentum():
    """x = x_c − R(θ) d(r) with Σ m_i x_i from the positions of the bodies."""
    connection = mechanical_connection(SYMMETRIC)
    masses = np.array([10.0, 2.0, 1.0])
    loop = loop_about(jnp.asarray([0.5, 0.5]))
    quarter = lambda x: loop(0.3 * x)
    g = jax.jit(lambda: geometric_phase(connection, quarter, SE2(), steps=60))()

    def centre(g, r):
        return masses @ SYMMETRIC.positions((g, r)) / 13.0

    np.testing.assert_allclose(
        centre(g, quarter(1.0)), centre(jnp.zeros(3), quarter(0.0)), atol=1e-9
    )
    assert np.linalg.norm(g[1:]) > 0.01


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"base_mass": 0.0}, "`base_mass` is 0.*positive"),
        ({"mount": [0.1]}, r"`mount` has shape \(1,\)"),
        ({"lengths": [0.6]}, r"`lengths` has shape \(1,\).*\(3,\)"),
        ({"masses": [1.0, -1.0, 2.0]}, "`masses` is .*no entry may be negative"),
        ({"inertias": [np.nan] * 3}, "`inertias` is .*finite"),
    ],
)
def test_messages(change, message):
    given = {field.name: getattr(THREE_LINKS, field.name) for field in fields(THREE_LINKS)}
    with pytest.raises(ValueError, match=message):
        SpaceRobot(**{**given, **change})


def test_torques_of_wrong_shape_are_named():
    q, u = jax.tree.map(jnp.asarray, first(random_states()))
    with pytest.raises(ValueError, match=r"`control` has values of shape \(2,\).*joint torques"):
        acceleration(THREE_LINKS, 0.0, q, u, jnp.ones(2))
    with pytest.raises(TypeError, match="`control` has values of type complex128; they must be"):
        acceleration(THREE_LINKS, 0.0, q, u, lambda t: jnp.ones(3, complex))
