"""Helpers for the tests of printed equations: ε in sums of components, tildes, and comparisons by equation number."""

import jax.numpy as jnp
import numpy as np

EPSILON = np.zeros((3, 3, 3))
for _i, _j, _k in [(0, 1, 2), (1, 2, 0), (2, 0, 1)]:
    EPSILON[_i, _j, _k], EPSILON[_i, _k, _j] = 1, -1
HAT = jnp.asarray(-EPSILON)  # HAT @ a is ã
C_SE3 = np.zeros((6, 6, 6))
C_SE3[:3, :3, :3] = C_SE3[3:, :3, 3:] = C_SE3[3:, 3:, :3] = EPSILON


def eps(indices, *operands):
    """An einsum whose leading triples of indices are Levi-Civita symbols."""
    terms = indices.split("->")[0].split(",")
    return jnp.einsum(indices, *[EPSILON] * (len(terms) - len(operands)), *operands)


def close(found, wanted, atol=1e-12, name=""):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=atol, err_msg=name)


def all_close(pairs, atol=1e-11):
    """Compares both sides of each equation; the keys are the equations' numbers."""
    for name, (left, right) in pairs.items():
        close(left, right, atol, name)


def tilde(a):
    return HAT @ a


def vee(matrix):
    """The vector of a skew matrix."""
    return jnp.stack([matrix[2, 1], matrix[0, 2], matrix[1, 0]])
