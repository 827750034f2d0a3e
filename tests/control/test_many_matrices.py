"""Inverses and Cholesky factors of batches of small matrices, against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.control._interior_point import _many_matrices
from jaxhamel.control._interior_point._many_matrices import cho_solve, cholesky, inverse

RNG = np.random.default_rng(0)
GENERAL = jnp.asarray(RNG.normal(size=(2, 5, 6, 6)))
POSITIVE = GENERAL @ jnp.swapaxes(GENERAL, -1, -2) + jnp.eye(6)[None, None]
RIGHT = jnp.asarray(RNG.normal(size=(2, 5, 6, 3)))


def twice(function):
    return jax.vmap(jax.vmap(function))


@pytest.mark.parametrize("at_once", [4, 32])
def test_inverses(at_once, monkeypatch):
    """Ten matrices, in padded groups of four and in one group."""
    monkeypatch.setattr(_many_matrices, "MATRICES_AT_ONCE", at_once)
    np.testing.assert_allclose(twice(inverse)(GENERAL), np.linalg.inv(GENERAL), rtol=1e-10)


def test_rows_are_exchanged():
    """Inverting permutation matrices with entries of 1e-14 for zeros requires row exchanges."""
    orders = jnp.array([[1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 1, 2]])
    exchanges = jnp.eye(3)[orders] + 1e-14
    np.testing.assert_allclose(
        jax.vmap(inverse)(exchanges), np.linalg.inv(exchanges), rtol=1e-12, atol=1e-13
    )


def test_solutions_of_positive_matrices():
    found = twice(lambda a, b: cho_solve(cholesky(a), b))(POSITIVE, RIGHT)
    np.testing.assert_allclose(found, np.linalg.solve(POSITIVE, RIGHT), rtol=1e-10)
    one = cho_solve(cholesky(POSITIVE[0, 0]), RIGHT[0, 0])
    np.testing.assert_allclose(one, found[0, 0], rtol=1e-10)


def test_a_matrix_that_is_not_positive_has_no_factor():
    found = jax.vmap(cholesky)(jnp.stack([jnp.diag(jnp.array([1.0, -1.0])), jnp.eye(2)]))
    assert not np.all(np.isfinite(found[0]))
    np.testing.assert_array_equal(found[1], np.eye(2))


def test_gradients_are_those_of_one_matrix():
    def total(A, b, inverse, solve):
        return jnp.sum(inverse(A) ** 2) + jnp.sum(solve(A @ A.T + jnp.eye(6), b) ** 2)

    by = jax.grad(lambda A, b: total(A, b, inverse, lambda a, b: cho_solve(cholesky(a), b)), (0, 1))
    plain = jax.grad(lambda A, b: total(A, b, jnp.linalg.inv, jnp.linalg.solve), (0, 1))
    found, wanted = jax.vmap(by)(GENERAL[0], RIGHT[0]), jax.vmap(plain)(GENERAL[0], RIGHT[0])
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-8), found, wanted)
