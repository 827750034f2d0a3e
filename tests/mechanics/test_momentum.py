"""Momentum in space and about the centre of mass, and average velocity, against sums over the bodies."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE3, SO3
from jaxhamel.mechanics import (
    centroidal,
    locked_velocity,
    reconstruct_with_momentum,
    spatial_momentum,
)
from jaxhamel.systems import Satellite, SpaceRobot
from tests.mechanics.random_bundles import random_bundle

ROBOT = SpaceRobot(10.0, 1.3, [0.4, 0.1], [0.6, 0.5], [0.3, 0.2], [2.0, 1.0], [0.06, 0.03])
SATELLITE = Satellite(
    np.eye(3)[:2],
    [0.3, 0.4],
    mass=20.0,
    inertia=[1.0, 1.2, 0.9],
    com=[0.02, 0.0, -0.05],
    wheel_masses=[2.0, 3.0],
    wheel_positions=[[0.3, 0.1, 0.0], [0.0, 0.3, 0.1]],
    wheel_transverse_inertias=[0.2, 0.25],
)
ROBOT_STATE = (
    (jnp.asarray([0.4, 1.0, -2.0]), jnp.asarray([0.5, -0.9])),
    jnp.asarray([0.3, -0.2, 0.6, 1.1, -0.7]),
)
SATELLITE_STATE = (
    (SE3().exp(jnp.linspace(-1.0, 1.3, 6)), jnp.asarray([0.4, 1.0])),
    jnp.linspace(-0.7, 1.1, 8),
)


def test_planar_robot():
    """Σ m ẋ and Σ (x − x_c) × m ẋ + I φ̇ over the bodies; the locked robot turns with ω_ave."""
    q, u = ROBOT_STATE
    total = ROBOT.momentum(q, u)
    np.testing.assert_allclose(spatial_momentum(ROBOT, 0.0, q, u), total, atol=1e-13)
    masses = np.array([10.0, 2.0, 1.0])
    x = np.asarray(ROBOT.positions(q))
    centre = masses @ x / 13.0
    found = centroidal(ROBOT, 0.0, q, u)
    turn = np.array([[np.cos(0.4), -np.sin(0.4)], [np.sin(0.4), np.cos(0.4)]])
    np.testing.assert_allclose(np.asarray(q[0][1:]) + turn @ found.com, centre, atol=1e-14)
    about = total[0] - (centre[0] * total[2] - centre[1] * total[1])
    np.testing.assert_allclose(found.momentum, [about, *total[1:]], atol=1e-13)
    inertia = 1.3 + 0.06 + 0.03 + masses @ np.sum((x - centre) ** 2, axis=1)
    np.testing.assert_allclose(found.inertia, np.diag([inertia, 13.0, 13.0]), atol=1e-13)
    np.testing.assert_allclose(found.average_velocity, found.momentum / np.diag(found.inertia))
    Omega = locked_velocity(ROBOT, 0.0, q, u)
    np.testing.assert_allclose(found.average_velocity[0], Omega[0], atol=1e-14)


def test_satellite():
    q, u = SATELLITE_STATE
    total = SATELLITE.momentum(q, u)
    np.testing.assert_allclose(spatial_momentum(SATELLITE, 0.0, q, u), total, atol=1e-12)
    found = centroidal(SATELLITE, 0.0, q, u)
    np.testing.assert_allclose(found.com, SATELLITE.centre_of_mass(), atol=1e-15)
    turn = np.asarray(SE3().matrix(q[0])[:3, :3])
    centre = q[0][4:] + turn @ found.com
    about = total[:3] - np.cross(centre, total[3:])
    np.testing.assert_allclose(found.momentum, [*about, *total[3:]], atol=1e-12)
    theta = turn @ np.asarray(SATELLITE.mixed().inertia) @ turn.T
    expected = np.block([[theta, np.zeros((3, 3))], [np.zeros((3, 3)), 25.0 * np.eye(3)]])
    np.testing.assert_allclose(found.inertia, expected, atol=1e-13)
    np.testing.assert_allclose(found.inertia @ found.average_velocity, found.momentum, atol=1e-12)
    np.testing.assert_allclose(found.average_velocity[3:], total[3:] / 25.0, atol=1e-13)


def test_what_does_not_fit_is_named():
    system, t, q, v = random_bundle(1, SO3())
    with pytest.raises(TypeError, match=r"centre of mass needs Product\(SE3"):
        centroidal(system, t, q, v)
    with pytest.raises(TypeError, match="`path`"):
        reconstruct_with_momentum(ROBOT, 1.0, jnp.linspace(0, 1, 3), jnp.ones(3))
    with pytest.raises(ValueError, match=r"`momentum` has shape \(2,\)"):
        reconstruct_with_momentum(ROBOT, lambda t: t, jnp.linspace(0, 1, 3), jnp.ones(2))
