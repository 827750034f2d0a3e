"""Surfaces: axes and curvatures of the sphere, the cylinder, the saddle; level ground; messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import principal_curvatures, surface_axes, surface_point


def sphere(x):
    """A sphere of radius 2 by latitude and longitude, its normal outward."""
    around, up = x
    ring = jnp.cos(up)
    return 2.0 * jnp.stack([ring * jnp.cos(around), ring * jnp.sin(around), jnp.sin(up)])


def cylinder(x):
    """A vertical cylinder of radius 0.5, its normal outward."""
    return jnp.stack([0.5 * jnp.cos(x[0]), 0.5 * jnp.sin(x[0]), x[1]])


def paraboloid(x):
    return 0.5 * (3.0 * x[0] ** 2 + 4.0 * x[0] * x[1] - 2.0 * x[1] ** 2)


PLACE = np.array([0.3, -0.4])


def test_axes_are_orthonormal_and_tangent():
    for surface in (sphere, cylinder, paraboloid):
        axes = np.asarray(surface_axes(surface, jnp.asarray(PLACE)))
        np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-15)
        np.testing.assert_allclose(np.linalg.det(axes), 1.0, atol=1e-15)
        h = 1e-6  # differences of the points are perpendicular to n, those along x_1 have the direction t_1
        along = [
            (surface_point(surface, PLACE + h * e) - surface_point(surface, PLACE - h * e))
            / (2 * h)
            for e in np.eye(2)
        ]
        np.testing.assert_allclose(axes[2] @ np.array(along).T, 0.0, atol=1e-9)
        np.testing.assert_allclose(axes[0] * np.linalg.norm(along[0]), along[0], atol=1e-9)


def test_normals_of_sphere_and_cylinder():
    x = jnp.asarray(PLACE)
    np.testing.assert_allclose(surface_axes(sphere, x)[2], sphere(x) / 2.0, atol=1e-15)
    radial = [np.cos(PLACE[0]), np.sin(PLACE[0]), 0.0]
    np.testing.assert_allclose(surface_axes(cylinder, x)[2], radial, atol=1e-15)


def test_level_ground_has_the_axes_of_space():
    np.testing.assert_array_equal(surface_axes(lambda x: 7.0, jnp.asarray(PLACE)), np.eye(3))


def test_curvatures():
    """A surface bends towards its normal where the curvature is positive; at the vertex of a paraboloid they are the
    eigenvalues of its Hessian matrix."""
    x = jnp.asarray(PLACE)
    np.testing.assert_allclose(principal_curvatures(sphere, x), [-0.5, -0.5], atol=1e-14)
    np.testing.assert_allclose(principal_curvatures(cylinder, x), [-2.0, 0.0], atol=1e-14)
    hessian = np.array([[3.0, 2.0], [2.0, -2.0]])
    np.testing.assert_allclose(
        principal_curvatures(paraboloid, jnp.zeros(2)), np.linalg.eigvalsh(hessian), atol=1e-14
    )


def test_curvatures_of_a_sphere_have_finite_derivatives():
    """The derivative by the radius of −1/R is 1/R², although the curvatures coincide."""
    ball = lambda radius: principal_curvatures(
        lambda x: radius / 2.0 * sphere(x), jnp.asarray(PLACE)
    )
    for differentiate in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(differentiate(ball)(2.0), [0.25, 0.25], atol=1e-13)


def test_a_wrong_surface_is_named():
    with pytest.raises(
        ValueError, match=r"shape \(2,\) for coordinates of shape \(2,\); it must give a height"
    ):
        surface_point(lambda x: x, jnp.zeros(2))
