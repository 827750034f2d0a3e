"""The ball with one free pendulum in a vertical plane: two degrees of freedom, two first integrals, a quadrature.

With φ the angle by which the ball has rolled, ψ that of the pendulum in space and A = I + (m_0 + m) r²,

    P = A φ̇ − m r l cos ψ ψ̇ ,    E = P²/2A + ½ (J + m l² − (m r l cos ψ)²/A) ψ̇² − m g l cos ψ

are constant: φ is a function of (t, ψ), and ψ swings or turns with the period ∮ dψ/ψ̇.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

from jaxhamel.systems import RollingPendulumBall
from tests.systems.motion import states

R, SHELL, M, L, G, HEADING = 0.5, 2.0, 0.7, 0.35, 9.5, 0.7
ACROSS, PENDULUM = 0.3, 0.02  # moments of inertia about the pendulum's axis
A = ACROSS + (SHELL + M) * R**2


def ball():
    shell, own = [0.25, ACROSS, 0.35], [[0.03, PENDULUM, 0.04]]
    at_centre, axis, arm = [[0.0, 0, 0]], [[0.0, 1, 0]], [[0.0, 0, -L]]
    return RollingPendulumBall(R, SHELL, shell, [0.0, 0, 0], [M], own, at_centre, axis, arm, G)


def inertia(psi):
    return PENDULUM + M * L**2 - (M * R * L * np.cos(psi)) ** 2 / A


def swing_period(amplitude):
    """4 ∫ √(inertia/m g l) / cos(ψ/2) ds with sin(ψ/2) = sin(amplitude/2) sin s: nothing singular is left."""
    k = np.sin(amplitude / 2)

    def integrand(s):
        psi = 2 * np.arcsin(k * np.sin(s))
        return np.sqrt(inertia(psi) / (M * G * L)) / np.cos(psi / 2)

    return 4 * quad(integrand, 0, np.pi / 2, epsabs=1e-14, epsrel=1e-13)[0]


def turning_period(rate):
    """∫ dψ/ψ̇ over one turn; `rate` is that at the lowest point."""
    energy = 0.5 * inertia(0.0) * rate**2 - M * G * L

    def integrand(psi):
        return np.sqrt(inertia(psi) / (2 * (energy + M * G * L * np.cos(psi))))

    return 2 * quad(integrand, 0, np.pi, epsabs=1e-14, epsrel=1e-13)[0]


def motion(psi, psi_rate, phi_rate, period):
    """(φ, ψ, φ̇, ψ̇) at quarters of two periods, heading along HEADING; nothing leaves the plane."""
    turned, times = 0.4, jnp.linspace(0.0, 2 * period, 9)  # of the ball to begin with
    half, yaw = turned / 2, HEADING / 2
    sin, cos = np.sin(half), np.cos(half)
    start = np.array([np.cos(yaw) * cos, -np.sin(yaw) * sin, np.cos(yaw) * sin, np.sin(yaw) * cos])
    q0 = jnp.asarray(start), jnp.array([0.3, -0.2]), jnp.array([psi - turned])
    u0 = jnp.array([0.0, phi_rate, 0.0, psi_rate - phi_rate])
    (_, place, angle), u = states(ball(), q0, u0, times, steps=jnp.asarray(50))
    along = np.array([np.cos(HEADING), np.sin(HEADING)])
    shift = np.asarray(place - place[:1])
    np.testing.assert_allclose(shift, np.outer(shift @ along, along), rtol=0, atol=1e-12)
    np.testing.assert_allclose(u[:, [0, 2]], 0.0, atol=1e-12)
    phi = shift @ along / R
    own = np.asarray(angle[:, 0]) + turned + phi
    return np.asarray(times), phi, own, np.asarray(u[:, 1]), np.asarray(u[:, 1] + u[:, 3])


def check_the_ball(times, phi, psi, phi_rate, psi_rate):
    """φ follows from P, at every time."""
    momentum = A * phi_rate - M * R * L * np.cos(psi) * psi_rate
    np.testing.assert_allclose(momentum, momentum[0], rtol=0, atol=1e-10)
    rolled = momentum[0] * times + M * R * L * (np.sin(psi) - np.sin(psi[0]))
    np.testing.assert_allclose(A * phi, rolled, rtol=0, atol=1e-10)


@pytest.mark.parametrize("amplitude", [0.01, 2.6])
def test_swings(amplitude):
    """Released from rest in a rolling ball, the pendulum is lowest after a quarter of a period and at rest on the other
    side after half."""
    period = swing_period(amplitude)
    path = motion(amplitude, 0.0, 1.3, period)
    check_the_ball(*path)
    _, phi, psi, _, rate = path
    swung = amplitude * np.array([1, 0, -1, 0, 1, 0, -1, 0, 1])
    np.testing.assert_allclose(psi, swung, rtol=0, atol=1e-9)
    fastest = np.sqrt(2 * M * G * L * (1 - np.cos(amplitude)) / inertia(0.0))
    wanted = fastest * np.array([0, -1, 0, 1, 0, -1, 0, 1, 0])
    np.testing.assert_allclose(rate, wanted, rtol=0, atol=1e-9)
    np.testing.assert_allclose(phi[[4, 8]], 1.3 * period * np.array([1, 2]), rtol=0, atol=1e-9)


def test_turns():
    """Fast enough to pass the top: two full turns in two periods, and half a turn in half a period."""
    rate = 14.0
    period = turning_period(rate)
    path = motion(0.0, rate, -0.6, period)
    check_the_ball(*path)
    np.testing.assert_allclose(path[2][::2], np.pi * np.arange(5), rtol=0, atol=1e-9)
    np.testing.assert_allclose(path[4][[4, 8]], rate, rtol=0, atol=1e-9)


def test_small_swings_are_the_limit():
    """The period of small swings is 2π √(inertia/m g l), up to the square of the amplitude."""
    harmonic = 2 * np.pi * np.sqrt(inertia(0.0) / (M * G * L))
    np.testing.assert_allclose(swing_period(1e-4), harmonic, rtol=1e-8)
