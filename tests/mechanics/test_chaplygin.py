"""Chaplygin's and Voronets' equations against the general routes, and on systems with known motion."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import SO3, Euclidean, hamel_coefficients
from jaxhamel.mechanics import (
    ROUTES,
    System,
    acceleration,
    chaplygin,
    hamel_chaplygin,
    kinematic_coefficients,
    kinematic_curvature,
    voronets,
)
from tests.mechanics.printed_systems import Particle
from tests.mechanics.random_systems import RandomSystem, random_system

EQUATIONS = [hamel_chaplygin, chaplygin, voronets]
by_equation = pytest.mark.parametrize("equation", EQUATIONS, ids=lambda f: f.__name__)


class Split(System):
    """A random system on R^n in the coordinates (s, r): constraint rows [A_1 A_2](t, q), then (0, 1)."""

    base: RandomSystem
    space: Euclidean
    n_constraints: int = eqx.field(static=True)

    def lagrangian(self, t, q, v):
        return self.base.lagrangian(t, q, v)

    def frame(self, t, q):
        m = self.n_constraints
        return jnp.concatenate([self.base.frame(t, q)[:m], jnp.eye(self.space.dim)[m:]])

    def force(self, t, q, v, control):
        return self.base.force(t, q, v, control)


def split_system(seed, n, m):
    base, t, q, rdot = random_system(seed, Euclidean(n), m)
    return Split(base=base, space=Euclidean(n), n_constraints=m), t, q, rdot


@pytest.mark.parametrize(("n", "m"), [(3, 1), (4, 2), (5, 3)])
def test_random_systems(n, m):
    """r̈ by (34), (35) and (36) equals u̇ by the general routes, with A_1 ≠ 1, F̄(t, s, r), a force and a control."""
    control = lambda t: jnp.full(n, jnp.sin(t))
    for seed in (1, 2):
        system, t, q, rdot = split_system(seed, n, m)
        reference = acceleration(system, t, q, rdot, control, route="multipliers")
        assert np.max(np.abs(reference)) > 1e-2
        results = {f.__name__: f(system, t, q, rdot, control) for f in EQUATIONS}
        for route in (
            ROUTES if (seed, n) == (1, 4) else ()
        ):  # one case is enough: test_routes_agree compares the routes
            results[route] = acceleration(system, t, q, rdot, control, route=route)
        scale = 1 + np.max(np.abs(reference))
        for name, value in results.items():
            assert np.max(np.abs(value - reference)) < 1e-10 * scale, name


@pytest.mark.parametrize(("n", "m"), [(3, 1), (4, 2)])
def test_coefficients_are_those_of_the_frame(n, m):
    """(33) is γ^α_IJ of [[1, F̄], [0, 1]] by the definition (12); the rows with A_1 ≠ 1 have
    A_1 times it, for both frames have the same B_I."""
    system, t, q, _ = split_system(4, n, m)

    def normalised(q):
        F = kinematic_coefficients(system, t, q)
        return jnp.concatenate([jnp.concatenate([jnp.eye(m), F], axis=1), jnp.eye(n)[m:]])

    gamma = jax.jit(lambda q: kinematic_curvature(system, t, q))(q)
    by_definition = jax.jit(lambda q: hamel_coefficients(normalised, q)[:m, m:, m:])(q)
    np.testing.assert_allclose(gamma, by_definition, atol=1e-13)
    assert np.max(np.abs(gamma)) > 1e-2
    frame = lambda q: system.frame(t, q)
    general = jax.jit(lambda q: hamel_coefficients(frame, q)[:m, m:, m:])(q)
    expected = np.einsum("ab,bij->aij", system.frame(t, q)[:m, :m], gamma)
    np.testing.assert_allclose(general, expected, atol=1e-13)


class RollingCoin(System):
    """The vertical coin in coordinates (x, y, φ, θ): ẋ = R θ̇ cos φ, ẏ = R θ̇ sin φ; drive and steer torques."""

    mass: jax.Array
    radius: jax.Array
    spin: jax.Array
    steer: jax.Array
    space = Euclidean(4)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        turning = self.steer * v[2] ** 2 + self.spin * v[3] ** 2
        return (self.mass * (v[0] ** 2 + v[1] ** 2) + turning) / 2

    def frame(self, t, q):
        rows = jnp.eye(4)
        return (
            rows.at[0, 3]
            .set(-self.radius * jnp.cos(q[2]))
            .at[1, 3]
            .set(-self.radius * jnp.sin(q[2]))
        )

    def force(self, t, q, v, control):
        zero = jnp.zeros_like(q[0])
        return jnp.stack([zero, zero, control[0], control[1]])


@by_equation
def test_rolling_coin(equation):
    """I φ̈ = τ_φ and (J + m R²) θ̈ = τ_θ (Bloch 2003, section 1.4), although γ ≠ 0."""
    coin = RollingCoin(*map(jnp.asarray, (2.0, 0.5, 0.3, 0.2)))
    q, rdot = jnp.asarray([1.0, -2.0, 0.7, 0.1]), jnp.asarray([1.5, -2.0])
    result = equation(coin, 0.0, q, rdot, jnp.asarray([0.6, 0.4]))
    np.testing.assert_allclose(result, [0.6 / 0.2, 0.4 / (0.3 + 2.0 * 0.25)], rtol=1e-13)
    gamma = kinematic_curvature(coin, 0.0, q)[:, 0, 1]
    # γ^x_φθ = −∂F̄^x_θ/∂φ with F̄^x_θ = −R cos φ
    np.testing.assert_allclose(gamma, [-0.5 * np.sin(0.7), 0.5 * np.cos(0.7)], rtol=1e-13)


@by_equation
@pytest.mark.parametrize("gravity", [0.0, 9.81])
def test_nonholonomic_particle(equation, gravity):
    """(1 + y²) ẍ + y ẋ ẏ = −g y, ÿ = 0. With ṡ-independent printed (34), gravity would be lost."""
    q, rdot = jnp.asarray([0.3, -1.0, 0.8]), jnp.asarray([1.2, 0.7])
    result = equation(Particle(jnp.asarray(gravity)), 0.0, q, rdot)
    x = -(0.8 * 1.2 * 0.7 + gravity * 0.8) / (1 + 0.64)
    np.testing.assert_allclose(result, [x, 0.0], rtol=1e-13, atol=1e-14)


def test_curvature_term_matters():
    """Lagrange's equations of L_c, without γ, give (1 + y²) ẍ + 2 y ẋ ẏ = 0 and ÿ = y ẋ²: wrong."""

    def constrained(q, rdot):
        return (rdot[0] ** 2 * (1 + q[2] ** 2) + rdot[1] ** 2) / 2

    q, rdot = jnp.asarray([0.3, -1.0, 0.8]), jnp.asarray([1.2, 0.7])
    gradient = jax.grad(constrained, argnums=1)
    qdot = jnp.concatenate([q[2:] * rdot[:1], rdot])
    _, bias = jax.jvp(lambda q: gradient(q, rdot), (q,), (qdot,))
    force = jax.grad(constrained)(q, rdot)[1:] - bias
    wrong = force / jnp.asarray([1 + 0.64, 1.0])
    right = chaplygin(Particle(jnp.asarray(0.0)), 0.0, q, rdot)
    assert abs(wrong[1] - right[1]) > 1


@by_equation
def test_single_precision(equation, float32):
    coin = RollingCoin(*(jnp.asarray(x, jnp.float32) for x in (2.0, 0.5, 0.3, 0.2)))
    q, rdot = jnp.asarray([1.0, -2.0, 0.7, 0.1]), jnp.asarray([1.5, -2.0])
    result = equation(coin, 0.0, q, rdot, jnp.asarray([0.6, 0.4]))
    assert result.dtype == jnp.float32
    np.testing.assert_allclose(result, [3.0, 0.5], rtol=1e-5)


@pytest.mark.parametrize("equation", [chaplygin, voronets])
def test_gradient_in_a_parameter(equation):
    """∂θ̈/∂m = −τ R²/(J + m R²)²."""

    def spin_up(mass):
        coin = RollingCoin(mass, *map(jnp.asarray, (0.5, 0.3, 0.2)))
        q = jnp.asarray([1.0, -2.0, 0.7, 0.1])
        return equation(coin, 0.0, q, jnp.asarray([1.5, -2.0]), jnp.asarray([0.6, 0.4]))[1]

    np.testing.assert_allclose(jax.grad(spin_up)(2.0), -0.4 * 0.25 / 0.8**2, rtol=1e-12)


class OnAGroup(Particle):
    space = SO3()


class Drifting(Particle):
    def drift(self, t, q):
        return jnp.ones(3)


class Turned(Particle):
    def frame(self, t, q):  # the constraint says nothing of ṡ
        return jnp.eye(3)[::-1]


@by_equation
@pytest.mark.parametrize(
    ("kind", "error", "match"),
    [
        (OnAGroup, TypeError, "Euclidean"),
        (Drifting, ValueError, "drift"),
        (Turned, ValueError, "A_1"),
    ],
)
def test_what_does_not_fit_is_named(equation, kind, error, match):
    with pytest.raises(error, match=match):
        equation(kind(jnp.asarray(0.0)), 0.0, jnp.ones(3), jnp.ones(2))
