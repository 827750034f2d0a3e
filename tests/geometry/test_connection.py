"""Connections: their curvature is a block of the Hamel coefficients of their frame."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    SE2,
    SO3,
    Euclidean,
    Product,
    bundle_curvature,
    bundle_frame,
    curvature,
    fibre_velocity,
    hamel_coefficients,
    kinematic_connection,
    principal_frame,
)
from tests.geometry.random_connections import by_group, random_connection


def difference(f, x, h=1e-3):
    """∂f/∂x by central differences of fourth order, along a new last axis."""
    columns = []
    for e in np.eye(len(x)):
        wide = (f(x + h * e) - f(x - h * e)) / (2 * h)
        narrow = (f(x + h / 2 * e) - f(x - h / 2 * e)) / h
        columns.append((4 * narrow - wide) / 3)
    return np.stack(columns, axis=-1)


@by_group
@pytest.mark.parametrize("right", [False, True], ids=["left", "right"])
def test_curvature_is_the_block_of_the_hamel_coefficients(space, right):
    """The whole tensor of (4.3) and (4.7), from the definition of γ on G × R³."""
    f, m = space.dim, 3
    connection = random_connection(f, f, m, m)
    r = jnp.asarray([0.4, -0.7, 0.2])
    g = space.exp(jnp.linspace(-0.5, 0.8, f))
    whole = Product(space, Euclidean(m))
    frame = principal_frame(connection, space, right=right)
    gamma = jax.jit(lambda g, r: hamel_coefficients(frame, (g, r), whole))(g, r)
    A, c = connection(r), space.structure_constants(r.dtype)
    sign = -1 if right else 1
    expected = np.zeros((f + m,) * 3)
    expected[:f, :f, :f] = sign * c
    expected[:f, :f, f:] = -sign * np.einsum("abl,lj->abj", c, A)
    expected[:f, f:, :f] = -np.swapaxes(expected[:f, :f, f:], 1, 2)
    expected[:f, f:, f:] = jax.jit(lambda r: curvature(connection, r, space, right=right))(r)
    np.testing.assert_allclose(gamma, expected, rtol=0, atol=1e-13 * (1 + np.max(np.abs(expected))))
    assert np.max(np.abs(expected[:f, f:, f:])) > 0.1


@by_group
def test_curvature_by_differences(space):
    """(4.3) written out with finite differences: index order and sign, without autodiff."""
    connection = random_connection(7, space.dim, 2, 2)
    r = np.array([0.3, 1.1])
    A, slope = np.asarray(connection(r)), difference(lambda x: np.asarray(connection(x)), r)
    bracket = np.asarray(space.ad(jnp.asarray(A[:, 0]))) @ A[:, 1]
    B = jax.jit(lambda r: curvature(connection, r, space))(jnp.asarray(r))
    np.testing.assert_allclose(B[:, 0, 1], slope[:, 0, 1] - slope[:, 1, 0] + bracket, atol=1e-8)
    np.testing.assert_allclose(B[:, 1, 0], -B[:, 0, 1], rtol=1e-14)


@pytest.mark.parametrize(("f", "m"), [(1, 2), (3, 2), (2, 3)])
def test_trivial_bundle(f, m):
    """(3.11) is γ^α_IJ of (3.9), and γ^α_βJ = −∂A^α_J/∂s^β."""
    flat = random_connection(f + 10 * m, f, m, f + m)
    connection = lambda s, r: flat(jnp.concatenate([s, r]))
    q = jnp.linspace(-0.7, 0.9, f + m)
    gamma = jax.jit(lambda q: hamel_coefficients(bundle_frame(connection, f), q))(q)
    B = jax.jit(lambda q: bundle_curvature(connection, q[:f], q[f:]))(q)
    np.testing.assert_allclose(gamma[:f, f:, f:], B, atol=1e-13)
    by_s = jax.jit(jax.jacfwd(connection))(q[:f], q[f:])
    np.testing.assert_allclose(gamma[:f, :f, f:], -np.swapaxes(by_s, 1, 2), atol=1e-13)
    np.testing.assert_array_equal(gamma[f:], np.zeros((m, f + m, f + m)))
    assert np.max(np.abs(B)) > 0.1


def test_flat_connection():
    """Constraints that are the differential of s + φ(r) have no curvature; their bracket form on a
    group, g = h(r)⁻¹ g_0, has none either although A and its derivatives are large."""
    phi = lambda r: jnp.stack([jnp.sin(r[0] * r[1]), jnp.exp(r[0]) * r[1]])
    slope = lambda s, r: jax.jacfwd(phi)(r)
    B = bundle_curvature(slope, jnp.ones(2), jnp.asarray([0.4, 0.9]))
    np.testing.assert_allclose(B, 0, atol=1e-14)

    space = SE2()
    h = lambda r: space.exp(jnp.sin(jnp.arange(6.0).reshape(3, 2) @ r))

    def connection(r):  # u = Ad(…)(g h)' vanishes: ξ = −ḣ h⁻¹ = −Ad_h (h⁻¹ḣ)
        velocity = lambda e: space.velocity(h(r), jax.jvp(h, (r,), (e,))[1])
        return space.Ad(h(r)) @ jax.vmap(velocity)(jnp.eye(2)).T

    r = jnp.asarray([0.2, -0.3])
    left, right = jax.jit(
        lambda r: [curvature(connection, r, space, right=side) for side in (False, True)]
    )(r)
    np.testing.assert_allclose(left, 0, atol=1e-12)
    assert np.max(np.abs(right)) > 0.1


def test_connection_of_constraints():
    """The rows [A_1 A_2] of a differential-drive car give its well-known connection."""
    radius, track = 0.3, 0.5  # wheel angles (left, right); forward vx, heading ω
    rows = np.array(  # ω = R (r − l)/d ,  vx = R (r + l)/2 ,  vy = 0 , scaled and mixed
        [
            [2 * track, 0, 0, 2 * radius, -2 * radius],
            [track, 1, 0, radius - radius / 2, -radius - radius / 2],
            [0, 0, 3, 0, 0],
        ]
    )
    A = kinematic_connection(jnp.asarray(rows))
    expected = [[radius / track, -radius / track], [-radius / 2, -radius / 2], [0, 0]]
    np.testing.assert_allclose(A, expected, atol=1e-15)
    np.testing.assert_allclose(fibre_velocity(A, jnp.ones(2)), [0, radius, 0], atol=1e-15)
    # turning and driving do not commute: B = A_1 × A_2 is a sideways displacement
    B = curvature(lambda r: A, jnp.zeros(2), SE2())
    np.testing.assert_allclose(B[:, 0, 1], [0, 0, -(radius**2) / track], atol=1e-15)


def test_wrong_shape_is_named():
    with pytest.raises(ValueError, match=r"connection\(r\).*\(3, 2\)"):
        curvature(lambda r: jnp.ones((2, 2)), jnp.zeros(2), SO3())
