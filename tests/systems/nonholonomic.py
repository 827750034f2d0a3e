"""Helpers for the tests of nonholonomic systems: all routes at random states, derivatives by two modes."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from jaxhamel.mechanics import ROUTES, acceleration
from tests.one_by_one import of_each
from tests.systems.motion import unit_quaternions

STATES = 4


def assert_routes_agree(system, q, u, control=None, value=None):
    """Every route equals the closed form at all states (leading axis) to 1e-12 of their size."""

    @of_each
    def rates(q, u):
        found = {name: acceleration(system, 0.3, q, u, control, route=name) for name in ROUTES}
        return found, system.closed_form(0.3, q, u, value)

    found, wanted = rates(*jax.tree.map(jnp.asarray, (q, u)))
    size = np.max(np.abs(wanted)) + 1.0
    assert np.max(np.abs(wanted)) > 1e-3  # something happens
    for name, rate in found.items():
        assert np.max(np.abs(rate - wanted)) < 1e-12 * size, name


def assert_parameter_gradients_agree(system, q, u, control=None):
    """Checks ∂(w·u̇)/∂parameters in reverse and forward mode, and forward for the closed form."""
    parameters, rebuild = ravel_pytree(system)
    q, u = jax.tree.map(jnp.asarray, (q, u))
    weights = 1.0 + jnp.arange(u.size, dtype=u.dtype)

    def of_routes(parameters):
        return weights @ acceleration(rebuild(parameters), 0.0, q, u, control)

    def of_closed_form(parameters):
        return weights @ rebuild(parameters).closed_form(0.0, q, u)

    derivatives = (jax.grad(of_routes), jax.jacfwd(of_routes), jax.jacfwd(of_closed_form))
    reverse, forward, known = jax.jit(lambda x: [of(x) for of in derivatives])(parameters)
    assert np.max(np.abs(reverse)) > 1e-3
    np.testing.assert_allclose(reverse, forward, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(reverse, known, rtol=1e-10, atol=1e-11)


def first(states):
    """The first of the states."""
    return jax.tree.map(lambda x: x[0], states)


def kept(system, path, control=None):
    """The invariants along a path (q, u), by name."""
    return jax.vmap(lambda q, u: system.invariants(0.0, q, u, control))(*path)


def assert_kept(system, path, tolerance=1e-10, control=None):
    """No invariant moves along the path by more than `tolerance`."""
    found = kept(system, path, control)
    assert found
    for name, values in found.items():
        assert np.max(np.abs(values - values[:1])) < tolerance, name


def random_states(rng):
    """`STATES` random states (q, u) of a body with an orientation and a place, with three quasi-velocities."""
    q = unit_quaternions(rng, STATES), rng.normal(size=(STATES, 3))
    return q, rng.normal(size=(STATES, 3))
