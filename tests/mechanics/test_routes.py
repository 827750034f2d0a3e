"""Three routes to the same motion, on random systems; no route shares its equation with another."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SE2, SE3, SO2, SO3, Euclidean, Helical, Product, Schoenflies
from jaxhamel.mechanics import (
    ROUTES,
    System,
    acceleration,
    constraint_force,
    energy,
    momentum,
    power_balance,
    quasi_velocity,
    velocity,
)
from jaxhamel.mechanics._constraints._multipliers import solve_with_multipliers
from jaxhamel.mechanics._equations._euler_lagrange import euler_lagrange
from tests.mechanics.random_systems import random_system
from tests.one_by_one import of_each

# n = 2 … 8 and m = 0 … 4, every kind of space; 24 random systems of each: 528 in all
CASES = [
    (Euclidean(2), 0),
    (Euclidean(2), 1),
    (SO3(), 0),
    (SO3(), 1),
    (SE2(), 1),
    (SE2(), 2),
    (Schoenflies(), 0),
    (Schoenflies(), 2),
    (Product(SO3(), Euclidean(1)), 1),
    (Product(SO2(), Helical(0.3), Euclidean(2)), 3),
    (Euclidean(5), 0),
    (Product(SO3(), Euclidean(2)), 2),
    (Product(SE2(), SO2(), SO2()), 3),
    (Product(SO3(), SO2(), SO2()), 4),
    (SE3(), 0),
    (SE3(), 3),
    (Product(SO3(), SO3()), 4),
    (Product(SE3(), SO2()), 2),
    (Product(Schoenflies(), SE2()), 4),
    (Euclidean(8), 4),
    (Product(SE3(), Euclidean(2)), 1),
    (Product(SO3(), SO3(), Euclidean(2)), 3),
]
EACH = 24


def ids(case):
    return f"n{case[0].dim}-m{case[1]}-{case[0]}".replace(" ", "")[:60]


@pytest.mark.parametrize("case", CASES, ids=ids)
def test_routes_agree(case):
    space, m = case
    batch = random_system(space.dim * 10 + m, space, m, batch=(EACH,))

    @of_each
    def by_all_routes(system, t, q, u):
        control = lambda t: jnp.full(space.dim, jnp.sin(t))
        return {name: route(system, t, q, u, control) for name, route in ROUTES.items()}

    results = by_all_routes(*batch)
    reference = results["boltzmann-hamel"]
    assert np.all(np.isfinite(reference))
    scale = 1.0 + np.max(np.abs(reference), axis=1, keepdims=True)
    for name, value in results.items():
        assert np.max(np.abs(value - reference) / scale) < 1e-10, name


@pytest.mark.parametrize("case", [c for c in CASES if 0 < c[1] < 4][:6], ids=ids)
def test_multipliers_close_the_equations(case):
    """M v̇ = f + A_αᵀ λ and the constraints hold, with λ from the public function and v̇ from the multiplier route."""
    space, m = case
    system, t, q, u = random_system(5, space, m)

    @jax.jit
    def both_sides(system, t, q, u):
        v = velocity(system, t, q, u)
        v_dot, multiplier = solve_with_multipliers(system, t, q, v, None)
        mass_matrix, force = euler_lagrange(system, t, q, v, None)
        right = force + system.frame(t, q)[:m].T @ multiplier
        return mass_matrix @ v_dot, right, constraint_force(system, t, q, u), multiplier

    left, right, public, multiplier = both_sides(system, t, q, u)
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(public, multiplier, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", [CASES[3], CASES[5], CASES[11], CASES[15]], ids=ids)
def test_power_balance(case):
    """dE/dt along the motion is the power of the forces, of the affine constraints, and −∂L/∂t."""
    space, m = case
    system, t, q, u = random_system(11, space, m)
    balance = power_balance(system, t, q, u, jnp.ones(space.dim))
    parts = balance.force + balance.constraint + balance.explicit_time
    assert abs(balance.constraint) > 1e-6  # the drift does work, so the comparison is not with zero
    np.testing.assert_allclose(balance.rate, parts, rtol=1e-10)


@pytest.mark.parametrize("case", [CASES[1], CASES[11]], ids=ids)
def test_velocity_and_quasi_velocity_are_inverse(case):
    space, m = case
    system, t, q, u = random_system(2, space, m)
    v = velocity(system, t, q, u)
    np.testing.assert_allclose(quasi_velocity(system, t, q, v), u, rtol=1e-12, atol=1e-13)
    constrained = (system.frame(t, q) @ v + system.drift(t, q))[:m]
    np.testing.assert_allclose(constrained, np.zeros(m), atol=1e-13)


def test_momentum_and_energy_are_derivatives_of_the_lagrangian():
    """p_a equals a numerical derivative of ℓ, and E follows from the same differences by Euler's formula."""
    system, t, q, u = random_system(3, SO3(), 0)

    def reduced(u):
        return float(system.lagrangian(t, q, velocity(system, t, q, u)))

    def derivative(direction, h=1e-3):  # Richardson, error O(h⁴)
        central = lambda h: (reduced(u + h * direction) - reduced(u - h * direction)) / (2 * h)
        return (4 * central(h / 2) - central(h)) / 3

    p = np.array([derivative(e) for e in np.eye(3)])
    np.testing.assert_allclose(momentum(system, t, q, u), p, rtol=1e-9, atol=1e-9)
    v_part = np.asarray(u - system.drift(t, q))  # v·∂L/∂v = p·(u − a)
    np.testing.assert_allclose(energy(system, t, q, u), p @ v_part - reduced(u), rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_gradients_reverse_equal_forward_equal_richardson(route):
    system, t, q, u = random_system(7, Product(SO3(), Euclidean(2)), 2)
    direction = jnp.array([0.3, -0.2, 0.5])

    def scalar(u):
        return jnp.sum(jnp.sin(acceleration(system, t, q, u, route=route)))

    @jax.jit
    def differentiated(u):
        value, forward = jax.jvp(scalar, (u,), (direction,))
        return value, forward, jax.grad(scalar)(u) @ direction

    values = [differentiated(u + h * direction)[0] for h in (-1e-3, -5e-4, 5e-4, 1e-3)]
    _, forward, reverse = differentiated(u)
    coarse, fine = (values[3] - values[0]) / 2e-3, (values[2] - values[1]) / 1e-3
    richardson = (4 * fine - coarse) / 3
    np.testing.assert_allclose(forward, reverse, rtol=1e-11)
    np.testing.assert_allclose(forward, richardson, rtol=1e-8)


class Redundant(System):
    """A system whose constraint rows are replaced by nearly dependent ones with the same span: A_1, A_1 + δ A_2."""

    other: System
    closeness: jax.Array
    space = Product(SO3(), Euclidean(2))
    n_constraints = 2

    def lagrangian(self, t, q, v):
        return self.other.lagrangian(t, q, v)

    def frame(self, t, q):
        rows = self.other.frame(t, q)
        return jnp.concatenate([rows[:1], (rows[0] + self.closeness * rows[1])[None], rows[2:]])

    def drift(self, t, q):
        a = self.other.drift(t, q)
        return jnp.concatenate([a[:1], (a[0] + self.closeness * a[1])[None], a[2:]])

    def force(self, t, q, v, control):
        return self.other.force(t, q, v, control)


@pytest.mark.parametrize("route", ROUTES)
def test_nearly_dependent_constraints(route):
    """Rows A_1, A_1 + δ A_2 describe the same distribution, so each route gives the same motion up to the condition
    number."""
    system, t, q, u = random_system(4, Product(SO3(), Euclidean(2)), 2)
    expected = acceleration(system, t, q, u)
    for closeness in (1e-3, 1e-6, 1e-8):
        redundant = Redundant(system, jnp.asarray(closeness))
        got = acceleration(redundant, t, q, u, route=route)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-14 / closeness)
