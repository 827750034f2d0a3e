"""The independent implementations against published and separately computed numbers.

These tests do not touch the package: they say that what the package is compared with is right.
"""

import numpy as np
import pytest

from tests.reference import ball as rb
from tests.reference import bodies as bodies
from tests.reference import disk as disk
from tests.reference import rails as rails
from tests.reference.integrator import complex_step, integrate, step
from tests.reference.runs import CHAPLYGIN_SPHERE, RUN


def two_mass_ball():
    ball = rb.Ball(1.0, 4.0, np.diag([1, 1.1, 1.2]), np.array([0, 0, -0.05]), np.ones(2), 9.81)
    normal, zero = np.array([[0, -1.0, 0], [1.0, 0, 0]]), np.array([[1.0, 0, 0], [0, 1.0, 0]])
    theta = rb.waves(-np.pi / 2, 0.3, 2.0, np.array([0.0, 0.5]))
    return ball, rb.moving(lambda th: rails.circle(th, 0.8, normal, zero, 0.0), theta)


@pytest.mark.parametrize("t", RUN)
def test_ball_regression_trajectory(t):
    ball, motion = two_mass_ball()
    start = np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 0])
    state = integrate(rb.rate(ball, motion), 0.0, t, start, int(40 * t))
    wanted = np.concatenate(RUN[t][:3])
    np.testing.assert_allclose(state, wanted, rtol=0, atol=1e-11)
    force = rb.contact_force(ball, state[:4], state[4:7], motion(t))
    np.testing.assert_allclose(force, RUN[t][3], rtol=0, atol=2e-10)


def test_ball_moves_its_centre_of_mass_as_newton_says():
    """F_c = M g e_3 + M r̈_CM − F_e, with r̈_CM by central differences along the run."""
    ball, motion = two_mass_ball()
    rate = rb.rate(ball, motion)
    state = integrate(rate, 0.0, 1.0, np.array([1.0, 0, 0, 0, 0, 0, 0, 0, 0]), 40)
    mass = np.array([4.0, 1.0, 1.0])

    def centre(t, state):
        chi = np.concatenate([ball.shell_com[None], motion(t)[0]])
        return np.append(state[7:], 1.0) + rb.rotation(state[:4]) @ (mass @ chi) / mass.sum()

    h = 2e-3
    around = {k: centre(1 + k * h, step(rate, 1.0, state, k * h)) for k in (-2, -1, 0, 1, 2)}
    second = (16 * (around[1] + around[-1]) - around[2] - around[-2] - 30 * around[0]) / (
        12 * h * h
    )
    force = rb.contact_force(ball, state[:4], state[4:7], motion(1.0))
    np.testing.assert_allclose(force, mass.sum() * (second + np.array([0, 0, 9.81])), atol=1e-6)


@pytest.mark.parametrize("t", CHAPLYGIN_SPHERE)
def test_chaplygin_sphere(t):
    ball = rb.Ball(1.0, 1.0, np.diag([1.0, 2, 3]), np.zeros(3), np.zeros(0), 9.81)
    motion = rb.moving(rails.none, lambda t: (np.zeros(0),) * 3)
    start = np.array([1.0, 0, 0, 0, 0.7, 0.2, -0.5, 0, 0])
    state = integrate(rb.rate(ball, motion), 0.0, t, start, int(30 * t))
    np.testing.assert_allclose(state, np.concatenate(CHAPLYGIN_SPHERE[t]), rtol=0, atol=1e-11)


def heavy_top():
    inertia = np.diag([15.234375, 0.46875, 15.234375])
    push = 15 * 9.81 * np.array([0.0, 1, 0])
    rate = lambda t, q, omega: bodies.heavy_top_rate(inertia, push, q, omega)
    return rate, np.array([1.0, 0, 0, 0, 0, 150.0, -4.61538])


def test_heavy_top_initial_acceleration():
    """Brüls, Cardona, Arnold 2012."""
    rate, start = heavy_top()
    np.testing.assert_allclose(
        rate(0.0, start[:4], start[4:]), [661.3461692307692, 0, 0], rtol=1e-13
    )


def test_heavy_top_spatial_velocity():
    """ω_y in space: published at t = 0.01 as 149.8473939540758."""
    rate, start = heavy_top()
    state = integrate(bodies.with_attitude(rate), 0.0, 0.01, start, 40)
    omega = rb.rotation(state[:4]) @ state[4:]
    np.testing.assert_allclose(omega[1], 149.8473939540758, rtol=0, atol=5e-12)


def test_heavy_top_at_two_seconds():
    rate, start = heavy_top()
    state = integrate(bodies.with_attitude(rate), 0.0, 2.0, start, 2500)
    q = (0.1229471350413, -0.4910798925503, 0.3504300303435, -0.7879868875504)
    np.testing.assert_allclose(state[:4], q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(state[4:], [0.12223321949, 150, -5.8556245892], rtol=0, atol=1e-9)


def test_suslov_exact_solution():
    inertia = np.array([[1, 0, 0.3], [0, 2.0, 0], [0.3, 0, 1.5]])
    xi, still = np.array([0, 0, 1.0]), np.zeros(3)
    rate = lambda t, omega: bodies.suslov_rate(inertia, xi, still, omega)[0]
    omega = integrate(rate, 0.0, 5.0, np.array([0.5, 0.2, 0.0]), 100)
    np.testing.assert_allclose(omega, [0.3310492170565, 0.3319686851845, 0], rtol=0, atol=1e-12)


def test_suslov_keeps_a_turning_constraint():
    """Ω·ξ(t) stays zero only with the ξ̇ term of (A.37)."""
    inertia = np.array([[1, 0.1, 0.3], [0.1, 2.0, 0], [0.3, 0, 1.5]])

    def rate(t, omega):
        xi = np.array([np.sin(t), 0.2, np.cos(t)])
        xi_dot = np.array([np.cos(t), 0.0, -np.sin(t)])
        return bodies.suslov_rate(inertia, xi, xi_dot, omega)[0]

    omega = integrate(rate, 0.0, 3.0, np.array([0.5, -0.5, 0.1]), 100)
    assert abs(omega @ [np.sin(3.0), 0.2, np.cos(3.0)]) < 1e-12


def test_disk_keeps_its_energy():
    masses = np.array([4.0, 1.0, 0.5])
    zeta = np.array([[0.02, 0, -0.05], [0.3, 0, -0.6], [-0.2, 0, 0.1]])
    motion = (zeta, 0 * zeta, 0 * zeta)

    def rate(t, state):
        return np.array([state[1], disk.phi_rate(1.0, 1.0, masses, motion, 9.81, 0.0, *state)])

    start = np.array([0.3, -1.2])
    end = integrate(rate, 0.0, 3.0, start, 300)
    before, after = (disk.energy(1.0, 1.0, masses, zeta, 9.81, *s) for s in (start, end))
    np.testing.assert_allclose(after, before, rtol=1e-13)


def test_disk_is_a_ball_in_a_plane():
    """The same motion by (3.23): masses in the x-z plane, Ω = −φ̇ e_2, force along e_1."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        radius, inertia, gravity, push, phi, phi_dot = rng.uniform(0.5, 2.0, 6)
        masses = rng.uniform(0.1, 2.0, 3)
        motion = tuple(rng.normal(size=(3, 3)) * [1, 0, 1] for _ in range(3))
        motion[1][0], motion[2][0] = 0.0, 0.0  # the disk's own centre of mass stands still in it
        tensor = np.diag([3.0, inertia, 3.0])
        ball = rb.Ball(
            radius, masses[0], tensor, motion[0][0], masses[1:], gravity, np.array([push, 0, 0])
        )
        q = np.array([np.cos(phi / 2), 0, -np.sin(phi / 2), 0])
        moved = tuple(part[1:] for part in motion)
        omega_dot = rb.omega_rate(ball, q, np.array([0, -phi_dot, 0]), moved)
        wanted = disk.phi_rate(radius, inertia, masses, motion, gravity, push, phi, phi_dot)
        np.testing.assert_allclose(omega_dot, [0, -wanted, 0], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("kind", ["circle", "ellipse", "figure_eight"])
def test_rail_derivatives(kind):
    """ζ′ and ζ″ against the complex step of ζ and ζ′."""
    size = np.array([[0.7, 0.4]]) if kind == "ellipse" else np.array([0.7])
    frame = (np.array([[0.6, 0, 0.8]]), np.array([[0.0, 1, 0]]), np.array([[0.1, 0.2, 0.3]]))
    curve = lambda theta: getattr(rails, kind)(theta, size, *frame)
    theta, h = np.array([0.9]), 1e-30
    shifted = curve(theta + 1j * h)
    _, first, second = curve(theta)
    np.testing.assert_allclose(np.imag(shifted[0]) / h, first, rtol=1e-13)
    np.testing.assert_allclose(np.imag(shifted[1]) / h, second, rtol=1e-13)


def test_complex_step_through_the_integrator():
    """x(1) of ẋ = a x from x_0: derivatives e^a x_0 and e^a."""
    end = lambda p: integrate(lambda t, x: p[:, :1] * x, 0.0, 1.0, p[:, 1:], 40)
    derivative = complex_step(end, np.array([0.7, 1.3]))
    np.testing.assert_allclose(derivative, [[1.3 * np.exp(0.7), np.exp(0.7)]], rtol=1e-14)
