"""A satellite with reaction wheels: all routes, momentum, phases, and the wheel motion of Müller 2023."""

from dataclasses import fields
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE3, curvature, geometric_phase, reconstruct
from jaxhamel.mechanics import (
    acceleration,
    mass_blocks,
    mechanical_connection,
    reconstruct_with_momentum,
)
from jaxhamel.systems import Satellite
from tests.systems.motion import states, unit_quaternions
from tests.systems.nonholonomic import (
    STATES,
    assert_kept,
    assert_parameter_gradients_agree,
    assert_routes_agree,
    first,
)

AXES = np.array([[1.0, 0, 0], [0, 0.6, 0.8], [0, 0, 1.0]])
SATELLITE = Satellite(
    AXES,
    [0.3, 0.4, 0.5],
    mass=20.0,
    inertia=[1.0, 1.2, 0.9],
    com=[0.02, 0.0, -0.05],
    wheel_masses=[2.0, 3.0, 2.5],
    wheel_positions=[[0.3, 0.1, 0.0], [0.0, 0.3, 0.1], [-0.1, 0.0, 0.3]],
    wheel_transverse_inertias=[0.2, 0.25, 0.3],
)
TORQUE = np.array([0.7, -1.1, 0.4])


@cache
def mixed_satellite():
    return SATELLITE.mixed()


def random_states(rng):
    pose = np.concatenate([unit_quaternions(rng, STATES), rng.normal(size=(STATES, 3))], axis=1)
    return (pose, rng.normal(size=(STATES, 3))), rng.normal(size=(STATES, 9))


def wheel_path(t):
    """The wheels' motion of Müller 2023, section 6(c), period 1 s."""
    phase = 2 * jnp.pi * t
    return jnp.pi * jnp.stack([jnp.cos(phase) - 1, jnp.sin(phase), jnp.sin(2 * phase) / 2])


ONE_WHEEL = Satellite(
    AXES[1:2],
    [0.4],
    mass=20.0,
    inertia=[1.0, 1.2, 0.9],
    com=[0.02, 0.0, -0.05],
    wheel_masses=[3.0],
    wheel_positions=[[0.0, 0.3, 0.1]],
    wheel_transverse_inertias=[0.25],
)


def test_routes_and_gradients():
    """A satellite with one wheel, which compiles in a third of the time; the other tests have three."""
    (pose, angles), u = random_states(np.random.default_rng(1))
    q, u, torque = (pose, angles[:, :1]), u[:, :7], jnp.asarray(TORQUE[:1])
    assert_routes_agree(ONE_WHEEL, q, u, torque, torque)
    assert_parameter_gradients_agree(ONE_WHEEL.mixed(), *in_mixed(*first((q, u)), ONE_WHEEL))


def in_mixed(q, u, satellite=SATELLITE):
    """The same state in (Λ, x_c), (ω, ẋ_c, φ̇): the velocity of the centre of mass, in space axes."""
    pose, com = jnp.asarray(q[0]), satellite.centre_of_mass()
    rotation = SE3().matrix(pose)[:3, :3]
    velocity = rotation @ (u[3:6] + jnp.cross(u[:3], com))
    place = pose[4:] + rotation @ com
    return ((pose[:4], place), q[1]), jnp.concatenate([u[:3], velocity, u[6:]])


def test_both_groups_are_one_satellite():
    """On SE(3) and on SO(3) × R³: the same ω̇ and φ̈, the centre of mass unaccelerated."""
    q, u = jax.tree.map(jnp.asarray, first(random_states(np.random.default_rng(2))))
    on_se3 = acceleration(SATELLITE, 0.0, q, u, TORQUE)
    mixed = acceleration(mixed_satellite(), 0.0, *in_mixed(q, u), TORQUE)
    np.testing.assert_allclose(mixed[:3], on_se3[:3], atol=1e-12)
    np.testing.assert_allclose(mixed[6:], on_se3[6:], atol=1e-12)
    np.testing.assert_allclose(mixed[3:6], 0.0, atol=1e-13)
    assert np.max(np.abs(on_se3[3:6])) > 0.1


def test_torques_that_turn_the_wheels_as_prescribed():
    """At zero momentum τ = (S − AᵀLA) r̈ (eq. 6.3) turns the wheels along r(t), and the body by the connection alone:
    the simulated motion is the reconstructed one, momentum stays zero, the centre of mass rests."""
    blocks = mass_blocks(SATELLITE, 0.0, (SE3().identity(), jnp.zeros(3)))
    A = np.linalg.solve(blocks.locked, blocks.coupling)
    inertia = blocks.shape - A.T @ blocks.locked @ A
    rate = jax.jacfwd(wheel_path)
    torque = lambda t: inertia @ jax.jacfwd(rate)(t)
    times = jnp.linspace(0.0, 1.0, 3)
    rdot = rate(jnp.asarray(0.0))
    u = jnp.concatenate([-A @ rdot, rdot])
    start = (SE3().identity(), jnp.zeros(3))
    (pose, wheels), velocity = states(SATELLITE, start, u, times, torque, jnp.asarray(60))
    np.testing.assert_allclose(wheels, jax.vmap(wheel_path)(times), atol=1e-8)
    np.testing.assert_allclose(jax.vmap(SATELLITE.momentum)((pose, wheels), velocity), 0, atol=1e-8)

    fine = jnp.linspace(0.0, 1.0, 401)
    connection = mechanical_connection(SATELLITE)
    path = jax.jit(lambda: reconstruct(connection, wheel_path, fine, SE3()))()
    sign = np.sign(np.sum(path[::200, :4] * pose[:, :4], axis=1))
    np.testing.assert_allclose(sign[:, None] * path[::200, :4], pose[:, :4], atol=1e-7)
    np.testing.assert_allclose(path[::200, 4:], pose[:, 4:], atol=1e-7)
    assert (
        np.linalg.norm(pose[-1, 4:]) > 1e-3
    )  # a translation, by the turn about the centre of mass

    centre = jax.vmap(lambda g: g[4:] + SE3().matrix(g)[:3, :3] @ SATELLITE.centre_of_mass())(path)
    np.testing.assert_allclose(centre, np.broadcast_to(centre[0], centre.shape), atol=1e-7)


def test_wheels_with_momentum():
    """(6.5) with Π_0 = K ṙ(0): the body starts at rest, and Ad_g⁻ᵀ (L ξ + K ṙ), ξ by differences of g, stays μ."""
    connection = mechanical_connection(SATELLITE)
    blocks = mass_blocks(SATELLITE, 0.0, (SE3().identity(), jnp.zeros(3)))
    mu = blocks.coupling @ jax.jacfwd(wheel_path)(jnp.asarray(0.0))
    h = 1e-4
    times = jnp.asarray([0.0, h, *np.linspace(0, 1, 201)[1:], 1.0 + h])

    @jax.jit
    def paths():
        moving = reconstruct_with_momentum(SATELLITE, wheel_path, times, mu)
        return moving, connection(jnp.zeros(3))

    moving, A = paths()
    np.testing.assert_allclose(moving[1] - moving[0], 0, atol=1e-6)  # at rest at first, to O(h²)
    xi = SE3().local(moving[-2], moving[-1]) / h
    r_dot = (wheel_path(1.0 + h) - wheel_path(1.0)) / h
    body = blocks.locked @ (xi + A @ r_dot)
    middle = SE3().retract(moving[-2], xi * h / 2)
    found = SE3().Ad(SE3().inverse(middle)).T @ body
    np.testing.assert_allclose(found, mu, atol=1e-4 * np.max(np.abs(mu)))
    assert np.linalg.norm(moving[-2, 4:]) > 1e-2


def test_phases():
    """One wheel alone leaves no phase (an abelian group of motions); a small loop of area S in (φ_1, φ_2) turns the
    body by |θ̄_1 × θ̄_2| S, about θ̄_1 × θ̄_2, θ̄ = Θ⁻¹ J a."""
    connection = mechanical_connection(SATELLITE)

    def small(x):
        angle = 2 * jnp.pi * x
        return 0.02 * jnp.stack([jnp.cos(angle), jnp.sin(angle), jnp.zeros_like(angle)])

    @jax.jit
    def phases():
        alone = lambda x: wheel_path(x) * jnp.asarray([0.0, 1.0, 0.0])
        both = [geometric_phase(connection, loop, SE3(), steps=60) for loop in (alone, small)]
        return both, curvature(connection, jnp.zeros(3), SE3())

    (alone, little), B = phases()
    np.testing.assert_allclose(alone, SE3().identity(), atol=1e-12)
    bars = np.linalg.solve(mixed_satellite().inertia, (SATELLITE.wheel_inertias[:, None] * AXES).T)
    bracket = np.cross(bars[:, 0], bars[:, 1])
    np.testing.assert_allclose(B[:3, 0, 1], bracket, atol=1e-13)
    area = np.pi * 0.02**2
    turn = SE3().log(little)[:3]
    np.testing.assert_allclose(turn, bracket * area, atol=0.05 * area * np.linalg.norm(bracket))


def test_inverse_of_the_locked_inertia():
    """(5.36)."""
    L = np.asarray(SATELLITE.locked_inertia())
    m = L[5, 5]
    d = L[:3, 3:] / m
    U = np.linalg.inv(L[:3, :3] + m * d @ d)
    closed = np.block([[U, -U @ d], [d @ U, np.eye(3) / m - d @ U @ d]])
    np.testing.assert_allclose(closed @ L, np.eye(6), atol=1e-12)


def test_invariants_under_torques():
    q, u = jax.tree.map(jnp.asarray, first(random_states(np.random.default_rng(3))))
    path = states(
        mixed_satellite(),
        *in_mixed(q, u),
        jnp.linspace(0.0, 1.0, 3),
        jnp.asarray(TORQUE),
        jnp.asarray(60),
    )
    assert_kept(mixed_satellite(), path, 1e-10, control=TORQUE)
    assert set(mixed_satellite().invariants(0.0, *in_mixed(q, u), None)) == {"momentum", "energy"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"wheel_axes": 2 * AXES}, "`wheel_axes` has vectors of length"),
        ({"wheel_inertias": [0.1, 0.2]}, r"`wheel_inertias` has shape \(2,\)"),
        ({"wheel_inertias": [0.1, 0.2, 0.0]}, "`wheel_inertias` is .*positive"),
        ({"mass": -1.0}, "`mass` is -1.*positive"),
        ({"inertia": [1.0, 1.0, 3.0]}, "triangle inequality"),
        ({"wheel_masses": [1.0, -1.0, 2.0]}, "`wheel_masses` is .*no entry may be negative"),
        ({"wheel_positions": np.zeros((2, 3))}, r"`wheel_positions` has shape \(2, 3\)"),
    ],
)
def test_messages(change, message):
    given = {field.name: getattr(SATELLITE, field.name) for field in fields(SATELLITE)}
    with pytest.raises(ValueError, match=message):
        Satellite(**{**given, **change})


def test_torques_of_wrong_shape_are_named():
    q, u = jax.tree.map(jnp.asarray, first(random_states(np.random.default_rng(1))))
    with pytest.raises(ValueError, match=r"`control` has values of shape \(2,\).*wheel torques"):
        acceleration(SATELLITE, 0.0, q, u, jnp.ones(2))
