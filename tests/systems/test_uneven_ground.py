"""Balls on uneven ground: textbook motions, agreement of the routes, Newton's law, energy, the plane as a special case."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import acceleration, constraint_force
from jaxhamel.geometry import quaternion_matrix
from jaxhamel.mechanics import Constant, energy
from jaxhamel.mechanics._description._fields import examples_of
from jaxhamel.systems import RollingBall, RollingPendulumBall, RollingRotorBall, Terrain
from tests.systems.ball import Waves, two_mass_ball
from tests.systems.motion import unit_quaternions

G = 9.81


def solid(ground, radius=0.1, mass=0.7, **more):
    return RollingBall(radius, mass, [0.4 * mass * radius**2] * 3, gravity=G, ground=ground, **more)


def inside_cylinder(x):
    """The inner side of a vertical cylinder of radius 0.6."""
    return jnp.stack([0.6 * jnp.cos(x[0]), -0.6 * jnp.sin(x[0]), x[1]])


def hills(x):
    return 0.2 * jnp.sin(x[0]) * jnp.cos(0.7 * x[1]) + 0.1 * x[0]


def rolling_without_spin(ball, q, rates):
    """Ω for which the contact point moves at the given rates and ω·n = 0."""
    matrix = np.asarray(ball.inverse_frame(0.0, q))[3:, 2:]
    normal = np.asarray(ball.ground_axes(q)[2] @ quaternion_matrix(q[0]))
    return jnp.asarray(np.linalg.solve(np.vstack([matrix, normal]), [*rates, 0.0]))


IDENTITY = jnp.array([1.0, 0.0, 0.0, 0.0])


def test_a_ball_in_a_cylinder_rises_again():
    """The centre goes round at a constant rate φ̇, and z̈ = −w² z − (5/7) g with w² = 2/7 φ̇² for a solid ball without
    spin; the normal force is m (R − r) φ̇² (Neimark and Fufaev 1972, chapter III)."""
    ball, rate = solid(inside_cylinder), 8.0
    q0 = IDENTITY, jnp.zeros(2)
    u0 = rolling_without_spin(ball, q0, [rate, 0.0])
    ts = jnp.linspace(0.0, 3.0, 16)
    motion = jaxhamel.simulate(ball, q0, u0, ts, rtol=1e-11, atol=1e-11)
    w = rate * np.sqrt(2 / 7)
    np.testing.assert_allclose(motion.q[1][:, 0], rate * ts, atol=1e-8)
    fall = -(5 / 7) * G / w**2 * (1 - np.cos(w * ts))
    np.testing.assert_allclose(motion.q[1][:, 1], fall, atol=1e-8)
    contact = ball.contact(0.0, q0, u0)
    np.testing.assert_allclose(contact.normal, 0.7 * 0.5 * rate**2, rtol=1e-12)
    # the friction along the wall holds 2/7 of the weight, as m (g + z̈) with z̈ = −5/7 g
    np.testing.assert_allclose(contact.friction, 2 / 7 * G / (0.5 * rate**2), rtol=1e-12)


def test_a_ball_at_the_bottom_of_a_bowl_swings():
    """ω² = 5/7 g/(ρ − r) with the radius of curvature ρ of the bowl, along each of its axes."""
    ball = solid(lambda x: 0.5 * (x[0] ** 2 / 0.5 + x[1] ** 2 / 2.0))
    q = IDENTITY, jnp.zeros(2)
    modes = jaxhamel.mechanics.linearise(ball, 0.0, q, jnp.zeros(3))
    found = np.sort(np.abs(np.linalg.eigvals(modes.A).imag))[-4:]
    wanted = np.sqrt(5 / 7 * G / (np.array([2.0, 2.0, 0.5, 0.5]) - 0.1))
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    np.testing.assert_allclose(ball.fit(q), 1 - 0.1 / 0.5, rtol=1e-13)


def test_in_a_sphere_the_spin_about_the_normal_stays():
    """d(ω·n)/dt = 0 for a homogeneous ball that rolls inside a sphere, and not in an ellipsoid."""

    def change(ground):
        ball, u = solid(ground), jnp.array([4.0, -3.0, 9.0])
        q = IDENTITY, jnp.array([0.3, -0.2])
        v, rate = ball.inverse_frame(0.0, q)[:, 2:] @ u, acceleration(ball, 0.0, q, u)

        def spin(s):
            at = ball.space.retract(q, s * v)
            return ball.ground_axes(at)[2] @ quaternion_matrix(at[0]) @ (u + s * rate)

        return jax.jvp(spin, (0.0,), (1.0,))[1]

    np.testing.assert_allclose(change(lambda x: -jnp.sqrt(1.0 - x @ x)), 0.0, atol=1e-12)
    assert abs(change(lambda x: -jnp.sqrt(1.0 - x[0] ** 2 - 0.5 * x[1] ** 2))) > 1e-3


def test_an_inclined_plane_by_its_height():
    """Acceleration and force are those of `slope`, whose coordinates lie in the plane."""
    slope = np.array([0.3, 0.0])
    level, inclined = solid(None, slope=slope), solid(lambda x: slope @ x)
    u = jnp.array([1.0, -2.0, 0.5])
    half = 0.5 * np.arctan(0.3)
    turned = jnp.array(
        [np.cos(half), 0.0, -np.sin(half), 0.0]
    )  # axes of the plane to those of space
    plane, space = (IDENTITY, jnp.zeros(2)), (turned, jnp.zeros(2))
    np.testing.assert_allclose(
        acceleration(inclined, 0.0, space, u), acceleration(level, 0.0, plane, u), atol=1e-12
    )
    np.testing.assert_allclose(
        inclined.contact_force(0.0, space, u), level.contact_force(0.0, plane, u), atol=1e-12
    )
    rates = inclined.inverse_frame(0.0, space)[3:, 2:] @ u  # of x and y in space
    np.testing.assert_allclose(rates[0] * np.sqrt(1.09), level.inverse_frame(0.0, plane)[3, 2:] @ u)


def random_cases(n):
    """Balls with two masses on three waves, whose curvature is at most 0.4 of the ball's, pushed, on a slope; states."""
    rng = np.random.default_rng(0)
    k = rng.uniform(-2.0, 2.0, (n, 3, 2))
    a = 0.12 * rng.uniform(-1.0, 1.0, (n, 3)) / np.maximum(np.sum(k * k, axis=2), 0.5)
    ground = jax.vmap(Waves)(*map(jnp.asarray, (a, k, rng.uniform(0, 6, (n, 3)))))
    more = jnp.asarray(rng.uniform(-0.3, 0.3, (n, 2))), jnp.asarray(rng.normal(size=(n, 3)))
    q = unit_quaternions(rng, n), rng.normal(size=(n, 2))
    return (ground, *more), jax.tree.map(jnp.asarray, q), jnp.asarray(rng.normal(size=(n, 3)))


MOVING = lambda t: jnp.stack([jnp.sin(t), 2.0 + t * t])


def momentum(ball, t, q, u):
    """Σ m_i ṙ_i in space, from the positions r_i = p + r n + Λ χ_i."""
    v = ball.inverse_frame(t, q)[:, 2:] @ u

    def places(t, s):
        at = ball.space.retract(q, s * v)
        chi = ball._positions_and_rates(t, MOVING)[0]
        return ball.centre(at)[None] + chi @ quaternion_matrix(at[0]).T

    rates = jax.jvp(places, (t, 0.0), (1.0, 1.0))[1]
    return ball._all_masses() @ rates


def newton(ball, q, u):
    """dP/dt less weight, external force and the force of the ground in space: zero."""
    rate = acceleration(ball, 0.4, q, u, MOVING)
    v = ball.inverse_frame(0.4, q)[:, 2:] @ u

    def along(s):
        return momentum(ball, 0.4 + s, ball.space.retract(q, s * v), u + s * rate)

    change = jax.jvp(along, (0.0,), (1.0,))[1]
    weight = -ball.gravity * jnp.sum(ball._all_masses()) * ball._upwards()
    force = ball.contact_force(0.4, q, u, MOVING) @ ball.ground_axes(q)
    return change - weight - ball.external_force - force


def by_all_routes(changed, q, u):
    """Ω̇ by three routes from the Lagrangian, then by moments about the contact; the residual of Newton's law; the
    multipliers, and the force of the ground."""
    ground, slope, push = changed
    ball = two_mass_ball(ground=ground, slope=slope, external_force=push)
    routes = (None, "boltzmann-hamel", "multipliers")
    found = [acceleration(ball, 0.4, q, u, MOVING, route=x) for x in routes]
    found.append(ball.closed_form(0.4, q, u, MOVING))
    multipliers = constraint_force(ball, 0.4, q, u, MOVING)
    return jnp.stack(found), newton(ball, q, u), multipliers, ball.contact_force(0.4, q, u, MOVING)


def test_routes_agree_and_newton_holds():
    found, residual, multipliers, force = jax.jit(jax.vmap(by_all_routes))(*random_cases(8))
    np.testing.assert_allclose(found, jnp.broadcast_to(found[:, 3:], found.shape), atol=1e-10)
    np.testing.assert_allclose(residual, 0.0, atol=1e-10)
    np.testing.assert_allclose(multipliers, force[:, :2], atol=1e-10)


def test_a_height_of_zero_is_the_plane():
    plane, level = two_mass_ball(), two_mass_ball(ground=lambda x: 0.0)
    q = plane.space.normalise((jnp.array([0.5, -0.5, 0.7, 0.1]), jnp.array([0.4, -0.2])))
    u = jnp.array([0.7, -1.1, 0.4])
    np.testing.assert_allclose(
        acceleration(level, 0.4, q, u, MOVING), acceleration(plane, 0.4, q, u, MOVING), atol=1e-13
    )
    np.testing.assert_allclose(
        level.contact_force(0.4, q, u, MOVING), plane.contact_force(0.4, q, u, MOVING), atol=1e-13
    )


@pytest.mark.parametrize("kind", [RollingPendulumBall, RollingRotorBall])
def test_driven_balls_by_two_routes(kind):
    """u̇ from the Lagrangian and from Newton's and Euler's laws; both forces; the power of the torques."""
    ball = kind(**{**examples_of(kind), "ground": hills})
    angles = jnp.linspace(0.3, 0.8, ball.n_drives)
    q = IDENTITY, jnp.array([0.4, -0.2]), angles
    u = jnp.concatenate([jnp.array([0.7, -1.1, 0.4]), angles])
    torque = Constant(0.1 + angles)

    @jax.jit
    def found(q, u):
        v, rate = ball.inverse_frame(0.0, q)[:, 2:] @ u, acceleration(ball, 0.0, q, u, torque)
        later = lambda s: energy(ball, 0.0, ball.space.retract(q, s * v), u + s * rate)
        power = jax.jvp(later, (0.0,), (1.0,))[1] - torque.value @ u[3:]
        forces = constraint_force(ball, 0.0, q, u, torque), ball.contact_force(0.0, q, u, torque)
        return rate, ball.closed_form(0.0, q, u, torque), power, *forces

    rate, exact, power, multipliers, force = found(q, u)
    np.testing.assert_allclose(rate, exact, atol=1e-10)
    np.testing.assert_allclose(power, 0.0, atol=1e-10)
    np.testing.assert_allclose(multipliers, force[:2], atol=1e-10)


def test_measured_terrain_keeps_the_energy_and_has_gradients():
    """A ball with masses at rest on a terrain of random heights; d/ds of its end, s a scale of the heights, in
    reverse mode and by differences."""
    heights = 0.05 * np.random.default_rng(3).normal(size=(8, 8))
    ts, still = jnp.linspace(0.0, 0.5, 3), Constant(jnp.array([0.3, -1.0]))
    q0, u0 = (IDENTITY, jnp.array([0.4, -0.2])), jnp.array([0.7, -1.1, 0.4])

    def ball(scale):
        return two_mass_ball(ground=Terrain.through(scale * heights, [-3.0, -3.0], [3.0, 3.0]))

    def roll(scale):
        motion = jaxhamel.simulate(ball(scale), q0, u0, ts, still, rtol=1e-10, atol=1e-10)
        return motion.q[1][-1, 0], (motion.q, motion.u)

    compiled, end = jax.jit(roll), lambda s: roll(s)[0]
    energies = jax.jit(jax.vmap(lambda t, q, u: energy(ball(1.0), t, q, u, still)))
    at = energies(ts, *compiled(1.0)[1])
    np.testing.assert_allclose(at, jnp.broadcast_to(at[0], at.shape), rtol=1e-9)
    reverse = jax.jit(jax.grad(end))(1.0)
    h = 1e-3
    coarse, fine = ((compiled(1 + h)[0] - compiled(1 - h)[0]) / (2 * h) for h in (2 * h, h))
    np.testing.assert_allclose(reverse, (4 * fine - coarse) / 3, rtol=1e-6)


def test_single_precision():
    """Ω̇ on a terrain to the rounding of float32, and in its dtype."""
    heights = 0.05 * np.random.default_rng(3).normal(size=(8, 8))

    def found(dtype):
        ground = Terrain.through(heights.astype(dtype), [-3.0, -3.0], [3.0, 3.0])
        ball = jax.tree.map(lambda x: jnp.asarray(x, dtype), two_mass_ball(ground=ground))
        q = jnp.asarray(IDENTITY, dtype), jnp.array([0.4, -0.2], dtype)
        return ball.closed_form(
            0.0, q, jnp.array([0.7, -1.1, 0.4], dtype), Constant(jnp.zeros(2, dtype))
        )

    single = found(np.float32)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, found(float), rtol=2e-5, atol=2e-5)


def test_messages():
    with pytest.raises(
        ValueError, match=r"`ground` is 0.1; it is a callable of x \(2,\) that gives the height"
    ):
        solid(0.1)
    with pytest.raises(
        ValueError, match=r"`ground` gives an array of shape \(2,\) for x of shape \(2,\)"
    ):
        solid(lambda x: 0.1 * x)


def test_a_ball_that_does_not_fit_is_refused():
    """In a valley with the radius of curvature 0.05 m a ball of 0.1 m would touch both sides."""
    ball = solid(lambda x: 10.0 * x[0] ** 2)
    q = IDENTITY, jnp.zeros(2)
    np.testing.assert_allclose(ball.fit(q), -1.0, atol=1e-13)
    with pytest.raises(
        ValueError,
        match=r"does not fit into the ground: its radius is 0.1 m and .* curvature 0.05 m",
    ):
        jaxhamel.simulate(ball, q, jnp.zeros(3), jnp.linspace(0, 1, 3))
    jaxhamel.acceleration(ball, 0.0, (IDENTITY, jnp.array([1.0, 0.0])), jnp.zeros(3))
