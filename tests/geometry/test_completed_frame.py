"""Differentials of functions on a group, and frames completed with the rows of independent velocities."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel import System, acceleration, constraint_force
from jaxhamel.geometry import SE2, SO3, Euclidean, Product, completed_frame, differential


class FourBar(System):
    """Three bars in a row between two fixed joints, each described by its angle, with masses at the bars' middles."""

    space = Euclidean(3)
    n_constraints = 2

    def lagrangian(self, t, q, v):
        def middles(q):
            bars = jnp.array([0.3, 0.8, 0.6])[:, None] * jnp.stack([jnp.cos(q), jnp.sin(q)], axis=1)
            return jnp.cumsum(bars, axis=0) - 0.5 * bars

        x, xdot = jax.jvp(middles, (q,), (v,))
        return 0.5 * jnp.sum(xdot**2) - 9.81 * jnp.sum(x[:, 1]) + 0.05 * jnp.sum(v**2)

    def holonomic(self, t, q):
        ends = jnp.array([0.3, 0.8, 0.6]) @ jnp.stack([jnp.cos(q), jnp.sin(q)], axis=1)
        return ends - jnp.array([1.0, 0.4])

    def frame(self, t, q):
        loop = differential(lambda q: self.holonomic(t, q), q, self.space)
        return completed_frame(loop, independent=[0])


def test_differential_on_a_product_of_groups():
    """The differential equals central differences along one-parameter subgroups (error h² plus rounding / h)."""
    space = Product(SO3(), SE2(), Euclidean(2))
    q = space.retract(space.identity(), jnp.array([0.3, -1.1, 0.4, 2.0, 0.5, -0.2, 1.0, 3.0]))

    def g(q):
        turn, plane, shape = q
        return jnp.stack(
            [turn[1] * plane[0] + shape[1] ** 2, jnp.sin(plane[2]) * turn[0] * turn[3]]
        )

    h = 1e-5
    central = [
        (g(space.retract(q, h * e)) - g(space.retract(q, -h * e))) / (2 * h) for e in np.eye(8)
    ]
    np.testing.assert_allclose(differential(g, q, space), np.stack(central, axis=1), atol=1e-9)


def test_four_bar_linkage_by_the_angle_of_its_crank():
    """Accelerations equal those of Lagrange's equations of the first kind, M v̇ = f + Gᵀ λ and G v̇ = −Ġ v, solved by
    NumPy."""
    system, q = FourBar(), jnp.array([1.1, 0.2, 0.7])

    @jax.jit
    def terms(q):
        G = differential(lambda q: system.holonomic(0.0, q), q, system.space)
        v = jnp.linalg.solve(completed_frame(G, independent=[0]), jnp.array([0.0, 0.0, 2.0]))
        M = jax.hessian(lambda v: system.lagrangian(0.0, q, v))(v)
        along = jax.jvp(lambda q: jax.grad(system.lagrangian, 2)(0.0, q, v), (q,), (v,))[1]
        f = jax.grad(system.lagrangian, 1)(0.0, q, v) - along
        Gdot = jax.jvp(lambda q: jax.jacfwd(system.holonomic, 1)(0.0, q), (q,), (v,))[1]
        return G, M, f, Gdot @ v

    G, M, f, turning = terms(q)
    matrix = np.block([[np.asarray(M), -np.asarray(G.T)], [np.asarray(G), np.zeros((2, 2))]])
    wanted = np.linalg.solve(matrix, np.concatenate([f, -turning]))
    u = jnp.array([2.0])
    np.testing.assert_allclose(acceleration(system, 0.0, q, u), wanted[:1], rtol=1e-11)
    np.testing.assert_allclose(constraint_force(system, 0.0, q, u), wanted[3:], rtol=1e-10)


def test_rows_in_place_of_indices():
    C = jnp.array([[0.0, 2.0, 1.0]])
    wanted = completed_frame(C, [2, 0])
    np.testing.assert_array_equal(wanted, [[0, 2, 1], [0, 0, 1], [1, 0, 0]])
    np.testing.assert_array_equal(
        jax.jit(completed_frame)(C, jnp.eye(3)[jnp.array([2, 0])]), wanted
    )
    np.testing.assert_array_equal(completed_frame(jnp.eye(3), []), jnp.eye(3))


@pytest.mark.parametrize(
    ("independent", "error", "message"),
    [
        (
            [0],
            ValueError,
            r"`independent` is \[0\]; 1 one-forms of 3 velocities leave 2 independent ones: give 2 diff",
        ),
        ([0, 3], ValueError, "different indices from 0 to 2"),
        ([1, 1], ValueError, "different indices from 0 to 2"),
        ([0.0, 1.0], TypeError, r"indices of velocities, or rows S \(2, 3\)"),
        ("theta", TypeError, "`independent` is 'theta'"),
        (np.eye(3), ValueError, r"has shape \(3, 3\); it must have shape \(2, 3\)"),
    ],
)
def test_independent_velocities_that_do_not_fit(independent, error, message):
    with pytest.raises(error, match=message):
        completed_frame(jnp.array([[0.0, 2.0, 1.0]]), independent)


def test_a_function_of_the_wrong_shape():
    with pytest.raises(
        ValueError, match=r"`function\(q\)` has shape \(\); it must have shape \(h,\)"
    ):
        differential(lambda q: q[0], jnp.zeros(2), Euclidean(2))
