"""Terrain: polynomials, an independent spline, continuation beyond the edge, derivatives, messages."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.interpolate import make_interp_spline

from jaxhamel.systems import Terrain

START, END = np.array([-1.0, 0.5]), np.array([2.0, 2.5])


def grid(n, m):
    return np.meshgrid(
        np.linspace(START[0], END[0], n), np.linspace(START[1], END[1], m), indexing="ij"
    )


def places(n, rng):
    return jnp.asarray(START + (END - START) * rng.uniform(size=(n, 2)))


def test_polynomials_of_degree_five_are_exact():
    def height(x, y):
        return 0.3 * x**5 - x**2 * y**3 + 0.7 * y**5 + x * y - 0.2

    terrain = Terrain.through(height(*grid(9, 7)), START, END)
    at = places(50, np.random.default_rng(0))
    np.testing.assert_allclose(jax.vmap(terrain)(at), height(*at.T), rtol=0, atol=2e-12)
    slopes = jax.vmap(jax.grad(terrain))(at)
    wanted = jax.vmap(jax.grad(lambda x: height(*x)))(at)
    np.testing.assert_allclose(slopes, wanted, atol=2e-11)


def test_it_is_the_not_a_knot_spline():
    """SciPy's interpolating spline of degree 5 leaves out the same knots."""
    rng = np.random.default_rng(1)
    heights = rng.normal(size=(12, 20))
    terrain = Terrain.through(heights, START, END)
    x, y = np.linspace(START[0], END[0], 12), np.linspace(START[1], END[1], 20)
    at = places(40, rng)
    rows = make_interp_spline(x, heights, k=5)(at[:, 0])
    wanted = [make_interp_spline(y, row, k=5)(b) for row, b in zip(rows, at[:, 1], strict=True)]
    np.testing.assert_allclose(jax.vmap(terrain)(at), wanted, atol=1e-12)


def test_beyond_the_edge_the_height_is_linear():
    terrain = Terrain.through(np.random.default_rng(2).normal(size=(8, 8)), START, END)
    for edge, out in (([END[0], 1.0], [1.0, 0.0]), ([0.3, START[1]], [0.0, -1.0])):
        edge, out = jnp.asarray(edge), jnp.asarray(out)
        slope = jax.grad(terrain)(edge) @ out
        for far in (1e-3, 1.0, 30.0):
            np.testing.assert_allclose(
                terrain(edge + far * out), terrain(edge) + far * slope, rtol=1e-12, atol=1e-12
            )


def test_heights_have_derivatives():
    """h is linear in the heights: the derivative by one of them is the terrain through a unit height there."""
    at = jnp.array([0.4, 1.1])
    found = jax.grad(lambda z: Terrain.through(z, START, END)(at))(jnp.ones((7, 6)))
    unit = np.zeros((7, 6))
    unit[3, 2] = 1.0
    np.testing.assert_allclose(found[3, 2], Terrain.through(unit, START, END)(at), atol=1e-14)
    np.testing.assert_allclose(jnp.sum(found), 1.0, atol=1e-13)


def test_messages():
    flat = np.zeros((6, 6))
    with pytest.raises(
        ValueError, match=r"`heights` has shape \(5, 9\); a spline of degree 5 needs at least 6"
    ):
        Terrain.through(np.zeros((5, 9)), START, END)
    with pytest.raises(ValueError, match=r"`coefficients` has shape \(6, 2\).*at least 6"):
        Terrain(flat[:, :2], START, END)
    with pytest.raises(ValueError, match=r"`start` is .* and `end` is .*must be larger"):
        Terrain(flat, END, START)
    with pytest.raises(ValueError, match=r"`heights`.*nan"):
        Terrain.through(np.where(flat == 0, np.nan, 0.0), START, END)
