"""The mechanical connection: its frame and Hamel coefficients, block-diagonal mass matrix, locked velocity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import Euclidean, Product, curvature, hamel_coefficients
from jaxhamel.mechanics import (
    LockedFrame,
    System,
    acceleration,
    locked_inertia,
    locked_velocity,
    mass_blocks,
    mechanical_connection,
    momentum,
)
from tests.mechanics.random_bundles import GROUPS, by_group, random_bundle


@by_group
def test_hamel_coefficients_of_the_locked_frame(group):
    """(5.6)–(5.8) from the structure constants and the curvature, against the definition (2.6)."""
    system, t, q, _ = random_bundle(3, group)
    f, n = group.dim, system.space.dim
    connection = mechanical_connection(system, t)

    @jax.jit
    def both(q):
        frame = lambda q: LockedFrame(system).frame(t, q)
        A, B = connection(q[1]), curvature(connection, q[1], group)
        return hamel_coefficients(frame, q, system.space), A, B

    gamma, A, B = both(q)
    c = group.structure_constants()
    wanted = np.zeros((n, n, n))
    wanted[:f, :f, :f] = c
    wanted[:f, f:, :f] = np.einsum("abd,dj->ajb", c, A)
    wanted[:f, :f, f:] = -np.einsum("abd,dj->abj", c, A)
    wanted[:f, f:, f:] = B
    np.testing.assert_allclose(gamma, wanted, atol=1e-13)
    assert np.max(np.abs(B)) > 1e-3


@by_group
def test_mass_matrix_is_block_diagonal(group):
    """(5.14): BᵀMB = diag(L, S − AᵀLA), and ∂ℓ/∂Ω = LΩ = ∂L/∂ξ: the momentum is that of the locked system."""
    system, t, q, v = random_bundle(4, group, gyroscopic=0.0)
    f = group.dim
    L, K, S = mass_blocks(system, t, q)
    A = mechanical_connection(system, t)(q[1])
    np.testing.assert_allclose(A, np.linalg.solve(L, K), rtol=1e-11, atol=1e-13)
    B = LockedFrame(system).inverse_frame(t, q)
    full = np.block([[L, K], [np.transpose(K), S]])
    decoupled = B.T @ full @ B
    np.testing.assert_allclose(decoupled[:f, :f], L, atol=1e-12)
    np.testing.assert_allclose(decoupled[:f, f:], 0.0, atol=1e-12)
    np.testing.assert_allclose(decoupled[f:, f:], S - A.T @ L @ A, atol=1e-12)
    assert np.max(np.abs(K)) > 1e-2
    Omega = locked_velocity(system, t, q, v)
    np.testing.assert_allclose(locked_inertia(system, t, q) @ Omega, momentum(system, t, q, v)[:f])


class OnR3(System):
    space = Euclidean(3)

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v) / 2


class Constrained(System):
    space = Product(GROUPS[0], Euclidean(2))
    n_constraints = 1

    def lagrangian(self, t, q, v):
        return jnp.dot(v, v) / 2


def test_what_does_not_fit_is_named():
    with pytest.raises(TypeError, match=r"OnR3 has the space.*Product\(G, Euclidean\(m\)\)"):
        mechanical_connection(OnR3())
    with pytest.raises(ValueError, match=r"has 1 constraints.*must have 0"):
        LockedFrame(Constrained())
    q = GROUPS[0].identity(), jnp.zeros(2)
    with pytest.raises(ValueError, match="`u` has shape"):
        locked_velocity(Constrained(), 0.0, q, jnp.zeros(4))


def test_single_precision(float32):
    q = GROUPS[0].identity(), jnp.zeros(2)
    assert mechanical_connection(Constrained())(q[1]).dtype == jnp.float32
    assert acceleration(Constrained(), 0.0, q, jnp.zeros(2)).dtype == jnp.float32
