"""A ball on inclined ground: the textbook's solid sphere, two routes to the equations, energy, level ground."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import acceleration
from jaxhamel.mechanics import Constant, energy
from jaxhamel.systems import RollingBall
from tests.systems.ball import two_mass_ball

G, RADIUS, MASS = 9.81, 0.3, 2.0
Q = np.array([0.5, -0.5, 0.7, 0.1]), np.array([0.4, -0.2])
OMEGA = np.array([0.7, -1.1, 0.4])


def test_a_solid_sphere_rolls_downhill():
    """a = 5/7 g sin α, friction 2/7 m g sin α, normal force m g cos α (Goldstein 1980, problem 1.14)."""
    alpha, towards = np.deg2rad(12.0), np.deg2rad(35.0)
    slope = np.tan(alpha) * np.array([np.cos(towards), np.sin(towards)])
    inertia = 0.4 * MASS * RADIUS**2
    sphere = RollingBall(RADIUS, MASS, [inertia] * 3, gravity=G, slope=slope)
    q = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)
    rolling = np.asarray(sphere.closed_form(0.0, q, jnp.zeros(3)))
    downhill = -np.array([np.cos(towards), np.sin(towards)])
    wanted = 5 / 7 * G * np.sin(alpha) * downhill
    np.testing.assert_allclose(RADIUS * np.array([rolling[1], -rolling[0]]), wanted, atol=1e-13)
    force = np.asarray(sphere.contact_force(0.0, q, jnp.zeros(3)))
    np.testing.assert_allclose(force[:2], -2 / 7 * MASS * G * np.sin(alpha) * downhill, atol=1e-13)
    np.testing.assert_allclose(force[2], MASS * G * np.cos(alpha), atol=1e-13)


def tilted(slope):
    """For a ball with two masses on a slope: Ω̇ by two routes and by (B.8), and dE/dt with the masses at rest."""
    ball, q, u = two_mass_ball(slope=slope), (jnp.asarray(Q[0]), jnp.asarray(Q[1])), OMEGA
    moving, still = lambda t: jnp.stack([jnp.sin(t), 2.0 + t * t]), Constant(jnp.array([0.3, -1.0]))
    q = ball.space.normalise(q)
    found = [
        acceleration(ball, 0.4, q, jnp.asarray(u), moving, route=x)
        for x in (None, "boltzmann-hamel")
    ]
    exact = ball.closed_form(0.4, q, jnp.asarray(u), moving)
    rate = ball.closed_form(0.4, q, jnp.asarray(u), still)
    v = jnp.linalg.solve(ball.frame(0.0, q), jnp.concatenate([jnp.zeros(2), jnp.asarray(u)]))
    later = lambda s: energy(ball, 0.4, ball.space.retract(q, s * v), u + s * rate, still)
    return jnp.stack(found), exact, jax.jvp(later, (0.0,), (1.0,))[1]


def test_routes_agree_and_energy_stays():
    """(B.8) with Λᵀe agrees with the Lagrangian with the height e·r, both written independently; a zero slope gives the
    ball on level ground."""
    run = jax.jit(jax.vmap(tilted))
    found, exact, power = run(jnp.array([[0.2, -0.4], [0.0, 0.0], [-1.0, 3.0]]))
    np.testing.assert_allclose(found, jnp.broadcast_to(exact[:, None], found.shape), atol=1e-11)
    np.testing.assert_allclose(power, 0.0, atol=1e-11)
    level = two_mass_ball().closed_form(
        0.4, jax.tree.map(jnp.asarray, (Q[0], Q[1])), OMEGA, lambda t: jnp.stack([jnp.sin(t), 2.0 + t * t])
    )  # fmt: skip
    np.testing.assert_allclose(exact[1], level, atol=1e-12)


def test_messages():
    with pytest.raises(ValueError, match=r"`slope` has shape \(3,\); it must have shape \(2,\)"):
        two_mass_ball(slope=[0.1, 0.0, 0.0])
    with pytest.raises(ValueError, match=r"`slope` is .*nan"):
        two_mass_ball(slope=[0.1, np.nan])
