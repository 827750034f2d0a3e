"""Gauss' function of Massa and Vignolo (12): its value, minimum and Hessian, and (14), (15) derived from it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SE3, Euclidean, quaternion_matrix
from jaxhamel.mechanics import (
    Points,
    Spins,
    System,
    acceleration,
    constraint_force,
    gauss_function,
    velocity,
)
from jaxhamel.systems import ChaplyginSphere, RigidBody
from tests.mechanics.random_systems import random_system


class Pendulum(System):
    """A mass m on a rod of length l, with its angle from the lowest point as coordinate."""

    mass: jax.Array
    length: jax.Array
    space = Euclidean(1)

    def lagrangian(self, t, q, v):
        rise = 9.81 * self.length * jnp.cos(q[0])
        return self.mass * (0.5 * (self.length * v[0]) ** 2 + rise)

    def bodies(self, t, q, v, control):
        across = jnp.stack([jnp.cos(q[0]), jnp.zeros_like(q[0]), jnp.sin(q[0])])
        weight = -9.81 * self.mass * jnp.eye(3)[2]
        speed = self.length * v[0]
        return (Points(self.mass[None], speed * across[None], weight[None], jnp.zeros(3)),)


def test_pendulum():
    """C = R²/2m + ½ m l² (θ̈ − θ̈_0)², R = m (l θ̇² + g cos θ) the pull of the rod, θ̈_0 = −g/l sin θ."""
    m, length, theta, rate = 1.7, 0.6, 0.8, 2.1
    system = Pendulum(jnp.asarray(m), jnp.asarray(length))
    pull = m * (length * rate**2 + 9.81 * np.cos(theta))
    free = -9.81 / length * np.sin(theta)
    for tried in (free, 0.0, 5.0):
        found = gauss_function(system, 0.0, *map(jnp.array, ([theta], [rate], [tried])))
        wanted = pull**2 / (2 * m) + 0.5 * m * length**2 * (tried - free) ** 2
        np.testing.assert_allclose(found, wanted, rtol=1e-13)


def assert_parabola(system, t, q, u, control=None):
    """Checks that the function is stationary at `acceleration` and that its Hessian is the positive ∂²T/∂u∂u at every
    u̇."""

    @jax.jit
    def look(q, u):
        function = lambda u_dot: gauss_function(system, t, q, u, u_dot, control)
        known = hasattr(system, "closed_form")
        u_dot = (
            system.closed_form(t, q, u, control)
            if known
            else acceleration(system, t, q, u, control, route="boltzmann-hamel")
        )
        kinetic = lambda u: system.lagrangian(t, q, velocity(system, t, q, u))
        slope, hessian = jax.grad(function)(u_dot), jax.hessian(function)
        return slope, hessian(u_dot), hessian(u_dot + 1.0), jax.hessian(kinetic)(u)

    slope, hessian, elsewhere, mass_matrix = look(q, u)
    np.testing.assert_allclose(slope, 0.0, atol=1e-10)
    np.testing.assert_allclose(hessian, mass_matrix, atol=1e-11)
    np.testing.assert_allclose(hessian, elsewhere, atol=1e-11)
    assert np.min(np.linalg.eigvalsh(hessian)) > 1e-3


POSE = jax.jit(SE3().exp)(jnp.array([0.4, -0.9, 0.7, 0.3, 1.0, -0.5]))
TWIST = jnp.array([0.6, -1.2, 0.8, 0.1, 0.5, -0.4])
BODY = (1.3, [0.3, 0.4, 0.5], [0.2, -0.4, 0.3], 9.81)


def test_minimum_on_bodies_and_on_a_lagrangian():
    """A body under a wrench, a rolling ball, and a constrained and driven system known by its Lagrangian only."""
    assert_parabola(RigidBody(*BODY, "mixed"), 0.0, POSE, TWIST, jnp.arange(6.0))
    sphere = ChaplyginSphere(1.2, 0.8, [1.0, 2.0, 2.5])
    assert_parabola(sphere, 0.0, (POSE[:4], POSE[4:6]), TWIST[:3])
    system, t, q, u = random_system(3, SE2(), 1)
    system = eqx.tree_at(lambda s: s.quartic, system, jnp.asarray(0.0))
    assert_parabola(system, t, q, u, jnp.ones(3))


def test_least_value_is_that_of_the_forces_of_constraint():
    """C at the motion is ½ (A_αᵀλ)·M⁻¹(A_αᵀλ), with M of the Lagrangian and λ from `constraint_force`."""
    system, t, q, u = random_system(5, SE2(), 1)
    rate, multiplier = acceleration(system, t, q, u), constraint_force(system, t, q, u)
    v = velocity(system, t, q, u)
    mass_matrix = np.asarray(jax.jit(jax.hessian(lambda v: system.lagrangian(t, q, v)))(v))
    force = np.asarray(system.frame(t, q)[:1].T @ multiplier)
    assert np.max(np.abs(force)) > 1e-2
    wanted = 0.5 * force @ np.linalg.solve(mass_matrix, force)
    np.testing.assert_allclose(gauss_function(system, t, q, u, rate), wanted, rtol=1e-10)


class Cloud(System):
    """The rigid body as mass points at fixed places in it, each with its weight: Massa and Vignolo's (12)–(15)."""

    body: RigidBody
    masses: jax.Array
    places: jax.Array
    space = SE3()

    def lagrangian(self, t, q, v):
        return self.body.lagrangian(t, q, v)

    def frame(self, t, q):
        return self.body.frame(t, q)

    def points(self, q, v):
        """Velocities of the points in space axes, (8)."""
        in_body = v[3:][None] + jnp.cross(v[:3][None], self.places)
        return in_body @ quaternion_matrix(q[:4]).T

    def bodies(self, t, q, v, control):
        weight = -self.body.gravity * self.masses[:, None] * jnp.eye(3)[2:]
        return (Points(self.masses, self.points(q, v), weight, jnp.zeros(3)),)


def cloud_of(representation):
    """Seven mass points, and the rigid body with their mass, centre and inertia."""
    rng = np.random.default_rng(2)
    masses, places = rng.uniform(0.1, 0.5, 7), rng.normal(size=(7, 3))
    com = masses @ places / masses.sum()
    lever = places - com
    square = np.einsum("b,bi,bi->", masses, lever, lever)
    inertia = square * np.eye(3) - np.einsum("b,bi,bj->ij", masses, lever, lever)
    body = RigidBody(masses.sum(), inertia, com, 9.81, representation)
    return Cloud(body, jnp.asarray(masses), jnp.asarray(places))


@pytest.mark.parametrize("representation", ["spatial", "mixed"])
def test_mass_points_are_the_rigid_body(representation):
    """(15): the sum over the points and the body's own function differ by a constant in u̇; (14) holds as printed."""
    cloud = cloud_of(representation)

    @jax.jit
    def look(q, u, tried):
        difference = lambda u_dot: (
            gauss_function(cloud, 0.0, q, u, u_dot) - gauss_function(cloud.body, 0.0, q, u, u_dot)
        )
        velocities = lambda q, u: cloud.points(q, cloud.body.inverse_frame(0.0, q) @ u)
        kinetic = lambda q, u: 0.5 * jnp.sum(cloud.masses[:, None] * velocities(q, u) ** 2)
        rate = cloud.body.closed_form(0.0, q, u)
        q_dot = cloud.space.rate(q, cloud.body.inverse_frame(0.0, q) @ u)
        along = lambda f: jax.jvp(f, (q, u), (q_dot, rate))
        _, momenta_rate = along(jax.grad(kinetic, argnums=1))
        partial, partial_rate = along(jax.jacfwd(velocities, argnums=1))
        weight = -cloud.body.gravity * cloud.masses[:, None] * jnp.eye(3)[2:]
        turning = jnp.einsum("b,bi,bia->a", cloud.masses, velocities(q, u), partial_rate)
        residual = momenta_rate - turning - jnp.einsum("bi,bia->a", weight, partial)
        return [difference(x) for x in tried], residual

    differences, residual = look(POSE, TWIST, [TWIST, 2.0 * TWIST + 1.0])
    np.testing.assert_allclose(differences[0], differences[1], rtol=1e-11)
    np.testing.assert_allclose(residual, 0.0, atol=1e-11)


class Planar(System):
    """A lamina with no inertia about the axes in its plane, pushed at a massless point."""

    space = SE2()

    def bodies(self, t, q, v, control):
        omega = v[0] * jnp.eye(3)[2]
        spin = Spins(jnp.diag(jnp.array([0.0, 0, 0.4]))[None], omega[None], jnp.zeros((1, 3)))
        places = jnp.array([[0.0, 0, 0], [0.3, -0.2, 0]])
        moving = jnp.append(v[1:], 0.0)[None] + jnp.cross(omega[None], places)
        push = jnp.zeros((2, 3)).at[1].set(jnp.array([0.5, 1.5, 0.0]))
        return spin, Points(jnp.array([2.0, 0.0]), moving, push, omega)


def test_massless_parts_count_by_their_force():
    """I ω̇ = x × F and m (v̇ + ω × v) = F give the stationary point, although 1/m and I⁻¹ do not exist for the massless
    parts."""
    u = jnp.array([0.7, -0.4, 1.1])
    wanted = [(0.3 * 1.5 + 0.2 * 0.5) / 0.4, 0.25 + 0.7 * 1.1, 0.75 + 0.7 * 0.4]
    slope = jax.grad(lambda x: gauss_function(Planar(), 0.0, jnp.zeros(3), u, x))
    np.testing.assert_allclose(slope(jnp.array(wanted)), 0.0, atol=1e-12)
    np.testing.assert_allclose(slope(jnp.zeros(3)), [-0.55, -2 * wanted[1], -2 * wanted[2]])


def test_wrong_rates_are_refused():
    system = Pendulum(jnp.asarray(1.0), jnp.asarray(1.0))
    with pytest.raises(ValueError, match=r"`u_dot` has shape \(2,\).*\(1,\)"):
        gauss_function(system, 0.0, jnp.ones(1), jnp.ones(1), jnp.ones(2))
