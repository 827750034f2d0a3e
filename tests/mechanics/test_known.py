"""Systems with well-known equations, written as a user would write them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SE3, SO3, Euclidean, Product, quaternion_matrix
from jaxhamel.mechanics import (
    ROUTES,
    Points,
    Spins,
    System,
    acceleration,
    constraint_force,
    energy,
    velocity,
)

routes = pytest.mark.parametrize("route", ROUTES)


class Sleigh(System):
    """Chaplygin's sleigh: the blade, at the origin of the body, does not move sideways."""

    mass: jax.Array
    inertia: jax.Array
    offset: jax.Array
    space = SE2()
    n_constraints = 1

    def lagrangian(self, t, q, v):
        sideways = v[2] + self.offset * v[0]  # centre of mass at (offset, 0)
        return 0.5 * (self.mass * (v[1] ** 2 + sideways**2) + self.inertia * v[0] ** 2)

    def frame(self, t, q):
        return jnp.eye(3)[jnp.array([2, 0, 1])]  # v_y = 0; then ω and v_x


@routes
def test_chaplygin_sleigh(route):
    """v' = a ω², ω' = −m a v ω/(I + m a²); the blade's force follows from Newton's law sideways (Bloch, section 1.7)."""
    m, inertia, a, omega, v = 1.3, 0.7, 0.4, 0.9, -0.6
    sleigh = Sleigh(*map(jnp.asarray, (m, inertia, a)))
    q, u = jnp.array([0.3, 1.0, 2.0]), jnp.array([omega, v])
    omega_dot = -m * a * v * omega / (inertia + m * a**2)
    np.testing.assert_allclose(
        acceleration(sleigh, 0.0, q, u, route=route), [omega_dot, a * omega**2], rtol=1e-13
    )
    blade = m * (a * omega_dot + v * omega)
    np.testing.assert_allclose(constraint_force(sleigh, 0.0, q, u), [blade], rtol=1e-13)


class Charge(System):
    """A relativistic charge in a constant magnetic field: L = −m c² √(1 − v²/c²) + e A(x)·v, A = ½ B × x."""

    space = Euclidean(3)

    def lagrangian(self, t, q, v):
        vector_potential = 0.5 * jnp.cross(jnp.array([0.0, 0.0, 2.0]), q)
        return -jnp.sqrt(1 - jnp.dot(v, v)) + jnp.dot(vector_potential, v)


@routes
def test_a_lagrangian_that_is_not_quadratic(route):
    """Lorentz: γ v' = v × B with γ constant, m = c = e = 1, B = (0, 0, 2); the energy is γ."""
    v = jnp.array([0.3, -0.5, 0.4])
    gamma = 1 / np.sqrt(1 - 0.5)
    expected = np.cross(v, [0, 0, 2]) / gamma
    q = jnp.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        acceleration(Charge(), 0.0, q, v, route=route), expected, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(energy(Charge(), 0.0, q, v), gamma, rtol=1e-14)


class RotatingFrame(System):
    """A free particle of mass 2 in the plane, with its velocity resolved in axes that rotate at the rate w."""

    rate: jax.Array
    space = Euclidean(2)

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v)

    def frame(self, t, q):
        c, s = jnp.cos(self.rate * t), jnp.sin(self.rate * t)
        return jnp.array([[c, s], [-s, c]])


@routes
def test_a_frame_that_depends_on_time(route):
    """u' = −w × u, since the velocity is constant in space."""
    u = jnp.array([0.3, 0.7])
    u_dot = acceleration(RotatingFrame(jnp.asarray(1.7)), 0.4, jnp.zeros(2), u, route=route)
    np.testing.assert_allclose(u_dot, [1.7 * 0.7, -1.7 * 0.3], rtol=1e-13)


class MovingOrigin(System):
    """A free particle seen from an origin at x = sin t: u = v + a(t) is its relative velocity."""

    space = Euclidean(1)

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v)

    def drift(self, t, q):
        return -jnp.cos(t)[None]


@routes
def test_a_drift_that_depends_on_time(route):
    """u' = sin t for a particle at rest in space; the apparent force is −m a of the origin."""
    u_dot = acceleration(MovingOrigin(), 0.8, jnp.zeros(1), jnp.array([-np.cos(0.8)]), route=route)
    np.testing.assert_allclose(u_dot, [np.sin(0.8)], rtol=1e-14)


class Turntable(System):
    """A homogeneous ball on a plane that turns at the rate w: affine constraints ẋ − r ω_y = −w y, ẏ + r ω_x = w x.

    Quasi-velocities: the constraints, then the space components of the angular velocity.
    """

    rate: jax.Array
    space = Product(SO3(), Euclidean(2))
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return 0.5 * (0.4 * jnp.dot(v[:3], v[:3]) + jnp.dot(v[3:], v[3:]))  # m = r = 1

    def frame(self, t, q):
        rotation = quaternion_matrix(q[0])
        slip = jnp.concatenate([jnp.stack([-rotation[1], rotation[0]]), jnp.eye(2)], axis=1)
        return jnp.concatenate([slip, jnp.concatenate([rotation, jnp.zeros((3, 2))], axis=1)])

    def drift(self, t, q):
        x, y = q[1]
        zero = jnp.zeros(())
        return self.rate * jnp.stack([y, -x, zero, zero, zero])


@routes
def test_ball_on_a_turntable(route):
    """The centre moves on a circle at 2/7 of the table's rate: ẍ = −(2/7) w ẏ, ÿ = (2/7) w ẋ (Weltner 1979)."""
    w = 1.9
    table = Turntable(jnp.asarray(w))
    omega = jnp.array([0.4, -0.7, 0.3])
    q = (jnp.array([0.5, 0.5, -0.5, 0.5]), jnp.array([0.6, -0.2]))
    v = velocity(table, 0.0, q, omega)
    x_dot, y_dot = v[3:]
    np.testing.assert_allclose(
        [x_dot, y_dot], [omega[1] + 0.2 * w, -omega[0] + 0.6 * w], rtol=1e-13
    )
    omega_dot = acceleration(table, 0.0, q, omega, route=route)
    # ẍ = ω̇_y − w ẏ and ÿ = −ω̇_x + w ẋ, from differentiating the constraints
    acc = np.array([omega_dot[1] - w * y_dot, -omega_dot[0] + w * x_dot])
    np.testing.assert_allclose(acc, 2 / 7 * w * np.array([-y_dot, x_dot]), rtol=1e-12)
    assert abs(omega_dot[2]) < 1e-14


class Kirchhoff(System):
    """A body in an ideal fluid: L = ½ vᵀ M v on SE(3), M any positive matrix."""

    mass_matrix: jax.Array
    space = SE3()

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.dot(v, self.mass_matrix @ v)


@routes
def test_kirchhoff_equations(route):
    """With (π, P) = M (ω, v): π' = π × ω + P × v, P' = P × ω (Müller 2021, eq. 91, without force)."""
    root = np.random.default_rng(0).normal(size=(6, 6))
    mass_matrix = jnp.asarray(root @ root.T + 6 * np.eye(6))
    v = jnp.asarray(np.random.default_rng(1).normal(size=6))
    q = SE3().exp(jnp.arange(6.0) / 5)
    momenta = np.asarray(mass_matrix @ v)
    angular, linear = momenta[:3], momenta[3:]
    rate = np.concatenate(
        [np.cross(angular, v[:3]) + np.cross(linear, v[3:]), np.cross(linear, v[:3])]
    )
    u_dot = acceleration(Kirchhoff(mass_matrix), 0.0, q, v, route=route)
    np.testing.assert_allclose(mass_matrix @ u_dot, rate, rtol=1e-11, atol=1e-12)


class Pendulum(System):
    """A pendulum given as a point mass in space axes: Gauss' principle on points, beside its Lagrangian."""

    length: jax.Array
    space = Euclidean(1)

    def position(self, q):
        return self.length * jnp.stack([jnp.sin(q[0]), jnp.zeros(()), -jnp.cos(q[0])])

    def lagrangian(self, t, q, v):
        return 0.5 * self.length**2 * v[0] ** 2 - 9.81 * self.position(q)[2]

    def bodies(self, t, q, v, control):
        _, speed = jax.jvp(self.position, (q,), (v,))
        weight = jnp.array([[0.0, 0.0, -9.81]])
        return (Points(jnp.ones(1), speed[None], weight, jnp.zeros(3)),)


@routes
@pytest.mark.parametrize("angle", [0.0, 1e-7, 1.1, np.pi])
def test_pendulum_from_points_and_from_its_lagrangian(route, angle):
    u_dot = acceleration(
        Pendulum(jnp.asarray(0.7)), 0.0, jnp.array([angle]), jnp.array([0.4]), route=route
    )
    np.testing.assert_allclose(u_dot, [-9.81 / 0.7 * np.sin(angle)], rtol=1e-12, atol=1e-14)


class ThrownBody(System):
    """A rigid body in free flight on SE(3), its reference point off its centre of mass; in body axes throughout."""

    mass: jax.Array
    inertia: jax.Array
    com: jax.Array
    space = SE3()

    def velocity_of_com(self, v):
        return v[3:] + jnp.cross(v[:3], self.com)

    def lagrangian(self, t, q, v):
        height = (q[4:] + quaternion_matrix(q[:4]) @ self.com)[2]
        speed = self.velocity_of_com(v)
        spin = 0.5 * jnp.dot(v[:3], self.inertia @ v[:3])
        return spin + 0.5 * self.mass * jnp.dot(speed, speed) - 9.81 * self.mass * height

    def bodies(self, t, q, v, control):
        weight = -9.81 * self.mass * quaternion_matrix(q[:4])[2]
        centre = Points(self.mass[None], self.velocity_of_com(v)[None], weight[None], v[:3])
        return centre, Spins(self.inertia[None], v[None, :3], jnp.zeros((1, 3)))


@routes
def test_body_from_its_point_and_spin_and_from_its_lagrangian(route):
    """Euler's equations about the centre of mass, which falls: a_com = −g e_3, whatever the reference point."""
    root = np.random.default_rng(2).normal(size=(3, 3))
    inertia, com = jnp.asarray(root @ root.T + np.eye(3)), jnp.array([0.3, -0.2, 0.5])
    body = ThrownBody(jnp.asarray(1.7), inertia, com)
    q, v = SE3().exp(jnp.arange(6.0) / 3), jnp.array([0.8, -1.1, 0.4, 0.2, 0.7, -0.5])
    v_dot = acceleration(body, 0.0, q, v, route=route)
    omega, omega_dot = v[:3], v_dot[:3]
    euler = np.linalg.solve(inertia, -np.cross(omega, inertia @ omega))
    np.testing.assert_allclose(omega_dot, euler, rtol=1e-12)
    of_com = v_dot[3:] + np.cross(omega_dot, com) + np.cross(omega, body.velocity_of_com(v))
    np.testing.assert_allclose(quaternion_matrix(q[:4]) @ of_com, [0, 0, -9.81], atol=1e-12)


def test_hamel_route_on_zero_velocity_has_finite_gradients():
    gradient = jax.grad(lambda u: acceleration(Pendulum(jnp.asarray(1.0)), 0.0, jnp.zeros(1), u)[0])
    assert np.all(np.isfinite(gradient(jnp.zeros(1))))


class Wrong(System):
    space = Euclidean(2)
    n_constraints = 1
    matrix: jax.Array

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v)

    def frame(self, t, q):
        return self.matrix


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (jnp.eye(2), jnp.zeros(2), jnp.zeros(2)),
            r"`u` has shape \(2,\); it must have shape \(1,\)",
        ),
        ((jnp.eye(2), jnp.zeros(3), jnp.zeros(1)), r"`q` has shape \(3,\)"),
        ((jnp.eye(2), jnp.full(2, jnp.nan), jnp.zeros(1)), r"`q` .*finite"),
        ((jnp.eye(2), jnp.zeros(2), jnp.full(1, jnp.nan)), r"`u` is .*finite"),
        ((jnp.eye(3), jnp.zeros(2), jnp.zeros(1)), r"`frame\(t, q\)` has shape \(3, 3\)"),
        ((jnp.ones((2, 2)), jnp.zeros(2), jnp.zeros(1)), r"`frame\(t, q\)` is singular at t = 0.0"),
        (
            (jnp.zeros((2, 2)), jnp.zeros(2), jnp.zeros(1)),
            r"dependent constraint one-forms.*lower `n_constraints`",
        ),
    ],
)
def test_messages(arguments, message):
    matrix, q, u = arguments
    with pytest.raises(ValueError, match=message):
        acceleration(Wrong(matrix), 0.0, q, u)


def test_unknown_route_is_named():
    with pytest.raises(
        ValueError, match=r"`route` is 'kane'; it must be one of 'boltzmann-hamel', 'multipliers'"
    ):
        acceleration(Pendulum(jnp.asarray(1.0)), 0.0, jnp.zeros(1), jnp.zeros(1), route="kane")


def test_a_system_without_lagrangian_says_so():
    class Empty(System):
        space = Euclidean(1)

    with pytest.raises(
        TypeError, match=r"Empty has no Lagrangian: define lagrangian\(self, t, q, v\)"
    ):
        acceleration(Empty(), 0.0, jnp.zeros(1), jnp.zeros(1))
