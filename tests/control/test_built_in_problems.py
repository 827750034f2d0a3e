"""The systems of the built-in problems against their textbook equations, and the direction of their guesses.

docs/optimal_control_problems.md has the optimal costs; benchmarks/ solves all of the problems.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import geometry
from jaxhamel.control import problems
from jaxhamel.geometry import SO3, quaternion_matrix

RNG = np.random.default_rng(5)


def test_cart_with_pole_has_kellys_equations():
    """The accelerations agree with Kelly 2017, eq. (6.1) and (6.2)."""
    cart = problems.CartPole(1.2, 0.4, 0.7, 9.5)
    m1, m2, length, g = 1.2, 0.4, 0.7, 9.5
    states, forces = RNG.normal(size=(5, 4)), RNG.normal(size=(5, 1))
    solve = jax.jit(
        jax.vmap(lambda x, f: jaxhamel.acceleration(cart, 0.0, x[:2], x[2:], jnp.asarray(f)))
    )
    found = solve(jnp.asarray(states), jnp.asarray(forces))
    sin, cos, rate, push = np.sin(states[:, 1]), np.cos(states[:, 1]), states[:, 3], forces[:, 0]
    bottom = m1 + m2 * (1 - cos**2)
    along = (length * m2 * sin * rate**2 + push + m2 * g * cos * sin) / bottom
    turn = length * m2 * cos * sin * rate**2 + push * cos + (m1 + m2) * g * sin
    np.testing.assert_allclose(found, np.stack([along, -turn / (length * bottom)], 1), rtol=1e-12)


def energy_of_halves(cat, q, v):
    """Kinetic energy of two rigid bodies moving through space, from the derivatives of their positions and rotations."""

    def bodies(t):
        middle = geometry.SO3().retract(q[0], t * v[:3])
        bend = jnp.concatenate([jnp.zeros(1), q[1] + t * v[3:]])
        turns = [quaternion_matrix(middle) @ matrix_of(s * bend / 2) for s in (1.0, -1.0)]
        return [(R, s * cat.length * R[:, 0]) for R, s in zip(turns, (1.0, -1.0), strict=True)]

    (here, rates) = jax.jvp(bodies, (0.0,), (1.0,))
    inertia = jnp.stack([cat.axial_inertia, cat.transverse_inertia, cat.transverse_inertia])
    mean = 0.5 * (rates[0][1] + rates[1][1])
    total = jnp.zeros(())
    for (R, _), (R_dot, x_dot) in zip(here, rates, strict=True):
        skew = R.T @ R_dot
        omega = jnp.stack([skew[2, 1], skew[0, 2], skew[1, 0]])
        moved = x_dot - mean
        total += 0.5 * cat.mass * jnp.dot(moved, moved) + 0.5 * jnp.dot(inertia, omega**2)
    return total


def matrix_of(turn):
    return quaternion_matrix(SO3().exp(turn))


def test_cat_is_two_bodies_without_momentum():
    """The Lagrangian is the kinetic energy of both bodies. At u = ḃ the momentum ∂L/∂ω is zero, and the connection has
    finite derivatives at bent and straight shapes."""
    cat = problems.FallingCat(1.4, 0.13, 0.003, 0.009)
    turned = SO3().exp(jnp.asarray(RNG.normal(size=3)))

    def numbers(bend, v, rates):
        q, u = (turned, bend), jnp.concatenate([jnp.zeros(3), rates])
        free = cat.inverse_frame(0.0, q) @ u
        momentum = jax.grad(lambda v: cat.lagrangian(0.0, q, v))(free)[:3]
        slopes = jax.jacfwd(cat.connection)(bend)
        energies = cat.lagrangian(0.0, q, v), energy_of_halves(cat, q, v)
        return energies, momentum, cat.frame(0.0, q) @ free - u, slopes

    bends = jnp.concatenate([jnp.asarray(RNG.normal(size=(1, 2))), jnp.zeros((1, 2))])
    given = bends, jnp.asarray(RNG.normal(size=(2, 5))), jnp.asarray(RNG.normal(size=(2, 2)))
    energies, momentum, gap, slopes = jax.jit(jax.vmap(numbers))(*given)
    np.testing.assert_allclose(*energies, rtol=1e-13)
    np.testing.assert_allclose(momentum, 0.0, atol=1e-15)
    np.testing.assert_allclose(gap, 0.0, atol=1e-15)
    assert np.isfinite(slopes).all()


def test_satellite_has_no_momentum():
    """Θ ω + J (φ̇_1, φ̇_2, 0) = 0 for any Θ; if Θ is diagonal, the wheels cause no rotation about e_3."""
    matrix = jnp.array([[1.1, 0.1, -0.05], [0.1, 1.3, 0.2], [-0.05, 0.2, 1.2]])
    for inertia in (matrix, jnp.array([1.0, 1.2, 1.5])):
        satellite = problems.TwoWheelSatellite(inertia, 0.3)
        q = satellite.space.identity(jnp.float64)
        omega, rates = jnp.split(
            satellite.inverse_frame(0.0, q) @ jnp.array([0, 0, 0, 0.7, -0.4]), [3]
        )
        theta = jnp.diag(inertia) if inertia.ndim == 1 else inertia
        np.testing.assert_allclose(theta @ omega, [-0.3 * 0.7, 0.3 * 0.4, 0.0], atol=1e-16)
        np.testing.assert_allclose(rates, [0.7, -0.4])


def test_guesses_of_closed_loops_turn_the_right_way():
    """For both signs of the angle, the guessed motion ends at 0.5 to 1.5 times the angle."""
    for make, axis in ((problems.plate_ball, 3), (problems.satellite_turn, 3), (problems.falling_cat, 1)):  # fmt: skip
        for angle in (1.5, -1.5):
            quaternion = np.asarray(make(angle=angle).guess[0][0][-1])
            turn = 2 * np.arctan2(quaternion[axis], quaternion[0])
            assert 0.5 < turn / angle < 1.5, (make.__name__, angle, turn)


def test_plate_ball_is_shifted_along_x_or_by_a_vector():
    targets = [problems.plate_ball(shift=x).constraints[0].q[1] for x in (0.3, [0.3, -0.2])]
    np.testing.assert_array_equal(targets, [[0.3, 0.0], [0.3, -0.2]])


def test_other_numbers_compile_nothing():
    """The guesses of these problems are programs whose numbers are arguments: a second problem compiles none."""
    compiled: list[str] = []
    record = lambda name, *_, **__: compiled.append(name) if "backend_compile" in name else None
    for make in (problems.ball_to_point, problems.plate_ball, problems.sleigh_park):
        make()
        jax.monitoring.register_event_duration_secs_listener(record)
        try:
            make(duration=3.0)
        finally:
            jax.monitoring.unregister_event_duration_listener(record)
    assert not compiled
