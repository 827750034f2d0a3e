"""The Lagrange–Poincaré equations by their own formula against the general routes, on several groups."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from jaxhamel.geometry import SE2, SO2, SO3, Euclidean, Product
from jaxhamel.mechanics import (
    LockedFrame,
    System,
    acceleration,
    lagrange_poincare,
    lagrange_routh,
    mass_blocks,
    mechanical_connection,
    spatial_momentum,
)
from tests.mechanics.random_bundles import by_group, random_bundle

CONTROL = 0.4  # added to every force


def by_general_route(system, t, q, v):
    """(Ω, ṙ) and (Ω̇, r̈), Ω̇ = ξ̇ + A r̈ + Ȧ ṙ, from v̇ by the multiplier route."""
    f = system.space.dim - q[1].size
    rate = acceleration(system, t, q, v, CONTROL, route="multipliers")
    connection = lambda t, r: mechanical_connection(system, t)(r)
    A, A_dot = jax.jvp(connection, (t, q[1]), (jnp.ones_like(t), v[f:]))
    u = jnp.concatenate([v[:f] + A @ v[f:], v[f:]])
    return u, jnp.concatenate([rate[:f] + A @ rate[f:] + A_dot @ v[f:], rate[f:]])


@eqx.filter_jit
def difference(system, t, q, v):
    """(Ω̇, r̈) less that of a general route (all agree: test_mechanics_routes), and its size."""
    u, wanted = by_general_route(system, t, q, v)
    rate = lagrange_poincare(system, t, q, u, CONTROL)
    return rate - wanted, jnp.max(jnp.abs(rate))


@by_group
def test_equals_the_general_routes(group):
    """L with potential, terms linear in v and forces that all break the symmetry, M(t, r), a control."""
    system, t, q, v = random_bundle(11, group)
    error, size = difference(system, t, q, v)
    assert size > 0.1
    assert np.max(np.abs(error)) < 1e-10 * (1 + size)


@given(seed=st.integers(0, 10**6), group=st.sampled_from([SO3(), SE2()]), broken=st.booleans())
def test_any_lagrangian(seed, group, broken):
    error, size = difference(*random_bundle(seed, group, broken=float(broken)))
    assert np.max(np.abs(error)) < 1e-10 * (1 + size)


def test_locked_frame_is_a_system_of_its_own():
    """The same (Ω̇, r̈) by Boltzmann and Hamel's equations in the frame [[1, A], [0, 1]]."""
    system, t, q, u = random_bundle(12, SE2())
    locked = LockedFrame(system)

    @jax.jit
    def both(t, q, u):
        rate = acceleration(locked, t, q, u, CONTROL, route="boltzmann-hamel")
        return rate, lagrange_poincare(system, t, q, u, CONTROL)

    rate, wanted = both(t, q, u)
    np.testing.assert_allclose(rate, wanted, rtol=0, atol=1e-10)


class Slider(System):
    """A plane body, a mass at (r, h(t)) in it: h as the control prescribes, r free, held by a spring."""

    space = Product(SE2(), Euclidean(1))
    prescribed_motion = True

    def lagrangian(self, t, q, v, control):
        (omega, x, y, r_dot), (r,) = v, q[1]
        h, h_dot = jax.jvp(control, (t,), (jnp.ones_like(t),))
        along, across = x - omega * h + r_dot, y + omega * r + h_dot
        body = 1.5 * (x * x + y * y) + 0.4 * omega * omega
        return body + 0.35 * (along * along + across * across) - 0.8 * r * r


def test_locked_frame_under_prescribed_motion():
    """The frame takes the motion too: block-diagonal mass matrix, and the formula's (Ω̇, r̈), the body at rest or not."""
    system, t = Slider(), jnp.asarray(0.3)
    q, u = (jnp.array([0.4, 1.0, -2.0]), jnp.array([0.6])), jnp.array([0.5, -0.7, 1.1, 0.9])
    locked = LockedFrame(system, jnp.sin)

    @jax.jit
    def everything(t, q, u):
        route = lambda name: acceleration(locked, t, q, u, jnp.sin, route=name)
        rates = [route("boltzmann-hamel"), route("multipliers")]
        B, blocks = locked.inverse_frame(t, q), mass_blocks(system, t, q, jnp.sin)
        return rates, lagrange_poincare(system, t, q, u, jnp.sin), B, blocks

    rates, wanted, B, (L, K, S) = everything(t, q, u)
    for rate in rates:
        np.testing.assert_allclose(rate, wanted, rtol=0, atol=1e-12)
    whole = B.T @ np.block([[L, K], [np.transpose(K), S]]) @ B
    np.testing.assert_allclose(whole[:3, 3], 0.0, atol=1e-14)
    assert np.max(np.abs(K)) > 0.1
    with pytest.raises(ValueError, match=r"`motion` is missing: the kinetic energy of Slider"):
        LockedFrame(system)


def test_at_given_momentum():
    """r̈ as a function of μ, with Ω = L⁻¹ (Ad_gᵀ μ − b): the momentum of the state gives the state's r̈."""
    system, t, q, v = random_bundle(13, SE2())

    @jax.jit
    def both(t, q, v):
        u, rate = by_general_route(system, t, q, v)
        mu = spatial_momentum(system, t, q, v)
        return lagrange_routh(system, t, q, u[3:], mu, CONTROL), rate[3:]

    found, wanted = both(t, q, v)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10)


def test_gradients_in_every_parameter():
    """∂(w·(Ω̇, r̈))/∂parameters: reverse = forward, and = the forward derivative of a general route."""
    system, t, q, v = random_bundle(15, SO2())
    parameters, rebuild = ravel_pytree(system)
    weights = jnp.arange(1.0, 4.0)

    def of_formula(x):
        base = rebuild(x)
        u, _ = by_general_route(base, t, q, v)
        return weights @ lagrange_poincare(base, t, q, u, CONTROL)

    def of_route(x):
        return weights @ by_general_route(rebuild(x), t, q, v)[1]

    along = jnp.asarray(np.random.default_rng(0).normal(size=parameters.size))

    @jax.jit
    def derivatives(x):
        push = lambda f: jax.jvp(f, (x,), (along,))[1]
        return jax.grad(of_formula)(x), push(of_formula), push(of_route)

    reverse, forward, of_other = derivatives(parameters)
    assert np.all(np.isfinite(reverse))
    np.testing.assert_allclose(reverse @ along, forward, rtol=1e-10)
    np.testing.assert_allclose(forward, of_other, rtol=1e-9)


class FixedInSpace(System):
    """Its inertia is fixed in space: not left-invariant."""

    space = Product(SE2(), Euclidean(1))

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v) / 2 + jnp.cos(q[0][0]) * v[1] ** 2

    def frame(self, t, q):
        return jnp.eye(4)


def test_what_does_not_fit_is_named():
    system, t, q, u = random_bundle(16, SE2())
    with pytest.raises(ValueError, match="`u` has shape"):
        lagrange_poincare(system, t, q, u[1:])
    with pytest.raises(ValueError, match=r"`momentum` has shape \(2,\)"):
        lagrange_routh(system, t, q, u[3:], jnp.ones(2))
    turned = (jnp.asarray([0.5, 0.0, 0.0]), jnp.zeros(1))
    with pytest.raises(ValueError, match="kinetic energy of `system` FixedInSpace changes with g"):
        lagrange_poincare(FixedInSpace(), 0.0, turned, jnp.ones(4))


def test_single_precision(float32):
    found = lagrange_poincare(FreeJoint(), 0.0, (jnp.zeros(3), jnp.zeros(1)), jnp.ones(4))
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, [0, 1, -1, 0], atol=1e-6)


class FreeJoint(System):
    """M = 1: v̇ = −ω × v."""

    space = Product(SE2(), Euclidean(1))

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v) / 2
