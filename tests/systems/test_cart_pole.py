"""The cart with a pole: without force, half a swing takes the time given by a quadrature."""

import jax.numpy as jnp
import numpy as np

from jaxhamel.systems import CartPole
from tests.systems.motion import states


def test_half_a_swing_takes_the_time_of_the_quadrature():
    """With sin(θ/2) = sin(θ_0/2) sin φ the integrand of ∫ dθ/θ̇ is periodic in φ: the trapezoidal rule has all digits."""
    m1, m2, length, gravity, widest = 1.2, 0.4, 0.7, 9.5, 2.0
    phi = np.arange(64) * np.pi / 64
    theta = 2 * np.arcsin(np.sin(widest / 2) * np.sin(phi))
    share = 1 - m2 * np.cos(theta) ** 2 / (m1 + m2)
    half = np.pi * np.mean(np.sqrt(length / gravity * share) / np.cos(theta / 2))
    cart = CartPole(m1, m2, length, gravity)
    q, u = states(
        cart, jnp.array([0.3, widest]), jnp.zeros(2), jnp.asarray([0.0, half / 2, half]), steps=60
    )
    np.testing.assert_allclose(q[1:, 1], [0.0, -widest], atol=1e-10)
    np.testing.assert_allclose(u[2], 0.0, atol=1e-9)
    centre = q[:, 0] + m2 / (m1 + m2) * length * np.sin(q[:, 1])  # the centre of mass stays at rest
    np.testing.assert_allclose(centre, centre[0], rtol=1e-12)
