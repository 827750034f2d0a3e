"""Systems at zero momentum and without moments: the falling cat bends along a ray, two wheels turn a satellite steadily."""

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.geometry import SO3
from jaxhamel.systems import FallingCat, TwoWheelSatellite
from tests.systems.cases import I1, TURNED
from tests.systems.motion import states

TIMES = np.linspace(0.0, 0.4, 5)


def test_a_bend_along_a_ray_turns_nothing():
    """The times of the bends by Gauss-Legendre quadrature of √((I_t + m ℓ² sin²(β/2))/c), c that of the start."""
    mass, length, across = 1.4, 0.13, 0.009
    cat, ray = FallingCat(mass, length, 0.003, across), np.array([0.6, -0.8])
    start, rate = 0.3, 2.0
    q, u = states(
        cat,
        (jnp.asarray(TURNED), jnp.asarray(start * ray)),
        rate * ray,
        jnp.asarray(TIMES),
        steps=20,
    )
    np.testing.assert_allclose(q[0], np.broadcast_to(TURNED, (5, 4)), atol=1e-13)
    q, u = jax.tree.map(np.asarray, (q, u))
    bends = q[1] @ ray
    np.testing.assert_allclose(q[1], bends[:, None] * ray, atol=1e-13)
    root = lambda bend: np.sqrt(across + mass * (length * np.sin(bend / 2)) ** 2)
    np.testing.assert_allclose(u @ ray, rate * root(start) / root(bends), rtol=1e-11)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    half = (bends[1:] - start) / 2
    sampled = root(start + half[:, None] * (1 + nodes))
    np.testing.assert_allclose(half * (sampled @ weights) / (rate * root(start)), TIMES[1:], 1e-11)


def test_wheels_without_torque_turn_the_satellite_steadily():
    wheel, rates = 0.3, np.array([1.1, -0.7])
    satellite = TwoWheelSatellite(I1, wheel)
    q, u = states(
        satellite, (jnp.asarray(TURNED), jnp.zeros(2)), rates, jnp.asarray(TIMES), steps=20
    )
    np.testing.assert_allclose(u, np.broadcast_to(rates, (5, 2)), rtol=1e-13)
    np.testing.assert_allclose(q[1], TIMES[:, None] * rates, atol=1e-13)
    moments = np.diag(I1) if np.ndim(I1) == 1 else I1
    omega = -wheel * np.linalg.solve(moments, [*rates, 0.0])
    wanted = [SO3().retract(jnp.asarray(TURNED), jnp.asarray(t * omega)) for t in TIMES]
    np.testing.assert_allclose(q[0], np.stack(wanted), atol=1e-12)
