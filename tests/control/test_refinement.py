"""Mesh refinement on a problem with boundary layers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxhamel
from jaxhamel import control
from jaxhamel.control._mesh._refinement import evenly_spread, expected_error


class Damped(jaxhamel.System):
    """A unit mass with damping: v̇ = f − k v."""

    damping: jax.Array
    space = jaxhamel.Euclidean(1)

    def lagrangian(self, t, q, v):
        return 0.5 * jnp.sum(v * v)

    def force(self, t, q, v, control):
        return control - self.damping * v


def speed(t, q, u, control):
    return u


def test_layers_at_both_ends_are_resolved():
    """½∫ v² + f² over a long time with v = 1 at both ends has the layers exp(∓ω t), ω² = k² + 1, and J = ω up to
    e^{−ωT}."""
    problem = control.ControlProblem(
        Damped(jnp.array(3.0)), jnp.zeros(1), jnp.ones(1), jnp.array([0.0, T]), lambda t: jnp.zeros(1),
        (control.ControlEnergy(), control.Running(speed)), (control.StateAtEnd(u=jnp.ones(1)),),
    )  # fmt: skip
    coarse, result = (
        control.solve(problem, control.Collocation(intervals=8, degree=3, error=error))
        for error in (None, 1e-3)
    )
    assert result.converged, result.status
    assert np.max(result.mesh_errors) <= 1e-3 < 1e-2 < np.max(coarse.mesh_errors)
    assert error_at_nodes(result) < 1e-4 < 1e-3 < error_at_nodes(coarse)
    np.testing.assert_allclose(result.cost, OMEGA, atol=1e-9)
    lengths = np.diff(np.asarray(result.ts))
    assert lengths.max() > 4 * lengths[[0, -1]].max()


OMEGA, T = np.sqrt(10.0), 8.0


def error_at_nodes(result):
    ts = np.asarray(result.ts)
    exact = np.exp(-OMEGA * ts) + np.exp(-OMEGA * (T - ts))
    return np.max(np.abs(np.asarray(result.states[1])[:, 0] - exact))


def test_a_mesh_spreads_the_error_evenly():
    """With errors ε_i ∝ ρ_i h_i^4 of a given density ρ, the new mesh has equal errors in all intervals."""
    shares = np.linspace(0.0, 1.0, 401)
    rho = lambda s: np.exp(4.0 * s)
    errors = rho(0.5 * (shares[1:] + shares[:-1])) * np.diff(shares) ** 4
    mesh = evenly_spread(shares, errors, 4, 200)
    new = rho(0.5 * (mesh[1:] + mesh[:-1])) * np.diff(mesh) ** 4
    np.testing.assert_allclose(new / new.mean(), 1.0, atol=0.02)
    np.testing.assert_allclose(new.mean(), expected_error(errors, 4, 200), rtol=1e-3)


def test_the_error_between_the_nodes_must_be_positive():
    with pytest.raises(ValueError, match="`error` is 0"):
        control.Collocation(error=0.0)
