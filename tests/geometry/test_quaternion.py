"""Quaternions, Appendix D of Putkaradze and Rogers 2018: every formula as printed, in NumPy, against the package's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    cross,
    hat,
    quaternion_conjugate,
    quaternion_matrix,
    quaternion_multiply,
    quaternion_normalise,
    quaternion_rate,
    quaternion_rotate,
    quaternion_velocity,
)


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def versor(rng):
    q = rng.normal(size=4)
    return jnp.asarray(q / np.linalg.norm(q))


def sharp(v):
    """(D.2): v^♯ = (0, v)."""
    return jnp.concatenate([jnp.zeros(1), v])


def flat(p):
    """(D.3): p^♭, the vector part."""
    return p[1:]


def test_sharp_and_flat(rng):
    """(D.1)–(D.5): scalar first; flat undoes sharp, sharp undoes flat only where the scalar is zero."""
    v, p = jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=4))
    np.testing.assert_array_equal(flat(sharp(v)), v)
    assert np.all(sharp(flat(p))[1:] == p[1:])
    assert sharp(flat(p))[0] != p[0]


def test_algebra(rng):
    """(D.6)–(D.12): sum, product, dot product, conjugate, magnitude, inverse; associative, not commutative."""
    p, q, s = (jnp.asarray(x) for x in rng.normal(size=(3, 4)))
    product = [p[0] * q[0] - p[1:] @ q[1:], *(p[0] * q[1:] + q[0] * p[1:] + np.cross(p[1:], q[1:]))]
    np.testing.assert_allclose(quaternion_multiply(p, q), product, rtol=1e-14)
    left = quaternion_multiply(p, quaternion_multiply(q, s))
    np.testing.assert_allclose(
        left, quaternion_multiply(quaternion_multiply(p, q), s), rtol=0, atol=1e-13
    )
    assert np.max(np.abs(quaternion_multiply(p, q) - quaternion_multiply(q, p))) > 0.1
    np.testing.assert_array_equal(quaternion_conjugate(p), [p[0], *(-p[1:])])
    inverse = quaternion_conjugate(p) / (p @ p)  # (D.12)
    np.testing.assert_allclose(quaternion_multiply(p, inverse), [1, 0, 0, 0], atol=1e-15)
    np.testing.assert_allclose(quaternion_normalise(p), p / np.sqrt(p @ p), rtol=1e-15)  # (D.13)
    both = quaternion_multiply(p + q, s)  # (D.6), (D.9): linear in each factor
    parts = quaternion_multiply(p, s) + quaternion_multiply(q, s)
    np.testing.assert_allclose(both, parts, atol=1e-14)


def test_rotation_matrix(rng):
    """(D.15) as printed; it is in SO(3); q and −q give the same (D.16)."""
    q = versor(rng)
    a, b, c, d = np.asarray(q)
    printed = [
        [1 - 2 * (c**2 + d**2), 2 * (b * c - a * d), 2 * (b * d + a * c)],
        [2 * (b * c + a * d), 1 - 2 * (b**2 + d**2), 2 * (c * d - a * b)],
        [2 * (b * d - a * c), 2 * (c * d + a * b), 1 - 2 * (b**2 + c**2)],
    ]
    matrix = quaternion_matrix(q)
    np.testing.assert_allclose(matrix, printed, rtol=0, atol=1e-15)
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(np.linalg.det(matrix), 1, rtol=1e-14)
    np.testing.assert_array_equal(quaternion_matrix(-q), matrix)


def test_rotations_of_vectors(rng):
    """(D.17), (D.18): Λ Y = [q Y^♯ q⁻¹]^♭ and Λ⁻¹ y = [q⁻¹ y^♯ q]^♭."""
    q, y = versor(rng), jnp.asarray(rng.normal(size=3))
    inverse = quaternion_conjugate(q)
    forth = flat(quaternion_multiply(quaternion_multiply(q, sharp(y)), inverse))
    back = flat(quaternion_multiply(quaternion_multiply(inverse, sharp(y)), q))
    np.testing.assert_allclose(quaternion_rotate(q, y), forth, rtol=0, atol=1e-15)
    np.testing.assert_allclose(quaternion_matrix(q) @ y, forth, rtol=0, atol=1e-15)
    np.testing.assert_allclose(quaternion_rotate(inverse, y), back, rtol=0, atol=1e-15)


def test_kinematics(rng):
    """(D.19)–(D.21): q̇ = ½ q Ω^♯ is Λ̇ = Λ Ω̂, and Ω comes back out of either."""
    q, omega = versor(rng), jnp.asarray(rng.normal(size=3))
    rate = quaternion_rate(q, omega)
    np.testing.assert_allclose(rate, 0.5 * quaternion_multiply(q, sharp(omega)), rtol=1e-15)
    matrix, turning = jax.jvp(quaternion_matrix, (q,), (rate,))
    np.testing.assert_allclose(turning, matrix @ hat(omega), atol=1e-15)
    skew = matrix.T @ turning
    np.testing.assert_allclose([skew[2, 1], skew[0, 2], skew[1, 0]], omega, atol=1e-14)
    np.testing.assert_allclose(quaternion_velocity(q, rate), omega, atol=1e-15)


def test_hat_map(rng):
    """(A.6), (A.7): â b = a × b, and the commutator is the cross product, (A.8)."""
    a, b = jnp.asarray(rng.normal(size=(2, 3)))
    np.testing.assert_allclose(hat(a) @ b, np.cross(a, b), atol=1e-15)
    np.testing.assert_allclose(cross(a, b), np.cross(a, b), atol=1e-15)
    np.testing.assert_allclose(hat(a) @ hat(b) - hat(b) @ hat(a), hat(cross(a, b)), atol=1e-15)


def test_three_numbers_are_no_quaternion():
    """JAX clips an index that is out of range: R of (1, 1, 1) would be that of (1, 1, 1, 1)."""
    three, four = jnp.ones(3), jnp.ones(4)
    for call in (
        lambda: quaternion_matrix(three),
        lambda: quaternion_multiply(three, four),
        lambda: quaternion_multiply(four, three),
        lambda: quaternion_rotate(three, three),
    ):
        with pytest.raises(ValueError, match=r"has shape \(3,\); it must have shape \(4,\)"):
            call()
