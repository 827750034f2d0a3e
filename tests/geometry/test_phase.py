"""Phases of loops in shape space: Stokes, closed forms, order of the stepper, small loops."""

import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.geometry import (
    SE2,
    SO2,
    SO3,
    curvature,
    geometric_phase,
    loop_area,
    reconstruct,
    small_loop_phase,
)
from tests.geometry.random_connections import by_group, random_connection
from tests.one_by_one import of_each

sides = pytest.mark.parametrize("right", [False, True], ids=["left", "right"])


def ellipse(size, centre=(0.0, 0.0), turns=1):
    """An ellipse with area 0.6 π size², counter-clockwise for turns = 1."""

    def loop(x):
        angle = 2 * math.pi * turns * x
        return jnp.stack(
            [centre[0] + size * jnp.cos(angle), centre[1] + 0.6 * size * jnp.sin(angle)]
        )

    return loop


def circle(radius):
    """A circle about the origin, counter-clockwise."""

    def loop(x):
        return radius * jnp.stack([jnp.cos(2 * math.pi * x), jnp.sin(2 * math.pi * x)])

    return loop


def plane_connection(r):
    """A = (0, x) of u = θ̇ + x ẏ: ∮A = area."""
    return jnp.stack([jnp.zeros_like(r[0]), r[0]])[None]


def test_abelian_phase_is_minus_the_area():
    """θ̇ = −x ẏ: −∮x dy = −area = +∫B, for B_12 = −1. Müller's (4.8), −∫B, has the other sign."""
    loop, area = ellipse(0.8, (0.3, -2.0)), 0.6 * math.pi * 0.64
    np.testing.assert_allclose(loop_area(loop), [[0, area], [-area, 0]], atol=1e-14)
    np.testing.assert_allclose(geometric_phase(plane_connection, loop, SO2()), [-area], rtol=1e-9)
    np.testing.assert_allclose(small_loop_phase(plane_connection, loop, SO2()), [-area], rtol=1e-13)
    B = curvature(plane_connection, jnp.zeros(2), SO2())
    np.testing.assert_array_equal(B[0], [[0, -1], [1, 0]])


def test_abelian_phase_is_the_integral_of_the_curvature():
    """For a curved connection on a finite loop, ∫B_12 is computed over the disc by Gauss–Legendre and trapezoidal
    rules."""
    connection = random_connection(3, 1, 2, 2)
    size, centre = 0.9, np.array([0.2, -0.4])
    radii, weights = np.polynomial.legendre.leggauss(20)
    radii, weights = (radii + 1) / 2, weights / 2
    angles = 2 * np.pi * np.arange(40) / 40
    points = radii[:, None, None] * np.stack([np.cos(angles), 0.6 * np.sin(angles)], -1) * size
    points = jnp.asarray(points.reshape(-1, 2) + centre)
    B = jax.jit(jax.vmap(lambda r: curvature(connection, r, SO2())[0, 0, 1]))(points)
    disc = np.repeat(weights * radii, 40) * 2 * np.pi / 40 * 0.6 * size**2
    phase = geometric_phase(connection, ellipse(size, centre), SO2(), steps=400)
    np.testing.assert_allclose(phase, [np.sum(disc * np.asarray(B))], rtol=1e-8)


def test_ball_rolling_without_spinning_around_a_circle():
    """ω = e_3 × ṗ / R in space: g = exp(−2π (a/R, 0, 1)) after a circle of radius a, from the frame
    that turns with the contact; for a ≪ R the rotation −area/R² about the vertical.
    """
    radius, a = 0.4, 0.7
    A = jnp.asarray([[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]]) / radius  # u = ω + A ṗ
    space = SO3()
    phase = geometric_phase(lambda p: A, circle(a), space, steps=400, right=True)
    closed = space.exp(-2 * math.pi * jnp.asarray([a / radius, 0.0, 1.0]))
    # a quaternion and its negative are one rotation
    np.testing.assert_allclose(space.matrix(phase), space.matrix(closed), atol=1e-7)

    # published: the only coefficient is γ^3_54 = 1/R² (Müller 2023, eq. 4.13)
    B = curvature(lambda p: A, jnp.zeros(2), space, right=True)
    expected = np.zeros((3, 2, 2))
    expected[2] = np.array([[0, -1], [1, 0]]) / radius**2
    np.testing.assert_allclose(B, expected, atol=1e-15)
    small = small_loop_phase(lambda p: A, circle(0.01), space, right=True)
    np.testing.assert_allclose(small, [0, 0, -math.pi * (0.01 / radius) ** 2], atol=1e-15)


def test_rolling_along_a_square():
    """Four straight edges are four rotations by s/R about horizontal axes; corners are at times."""
    space, radius, side = SO3(), 0.5, 0.6
    A = jnp.asarray([[0.0, 1.0], [-1.0, 0.0], [0.0, 0.0]]) / radius
    axes = [(0.0, 1.0, 0.0), (-1.0, 0.0, 0.0), (0.0, -1.0, 0.0), (1.0, 0.0, 0.0)]  # e_3 × edge
    expected = space.identity()
    for axis in axes:
        expected = space.compose(space.exp(jnp.asarray(axis) * side / radius), expected)
    g = space.identity()
    corners = [(0.0, 0.0), (side, 0.0), (side, side), (0.0, side), (0.0, 0.0)]
    for p, q in pairwise(corners):
        edge = lambda x, p=p, q=q: jnp.asarray(p) * (1 - x) + jnp.asarray(q) * x
        ends = reconstruct(lambda r: A, edge, jnp.linspace(0, 1, 2), space, g, right=True)
        g = ends[-1]
    np.testing.assert_allclose(g, expected, atol=1e-15)


@by_group
@sides
def test_small_loops(space, right):
    """log of the phase less ½ B ∮x dx falls like ε³: slope 3 over three halvings."""
    connection = random_connection(11, space.dim, 2, 2)
    centre = (0.3, 0.5)

    @of_each
    def errors(size):
        loop = ellipse(size, centre)
        exact = space.log(geometric_phase(connection, loop, space, steps=60, right=right))
        return exact - small_loop_phase(connection, loop, space, samples=16, right=right)

    sizes = jnp.asarray([0.04, 0.02, 0.01])
    error = np.linalg.norm(errors(sizes), axis=1)
    slopes = np.log2(error[:-1] / error[1:])
    # an even power on SO(2): the mean is the centre of the ellipse, whose moments of order 3 vanish
    expected = 4 if isinstance(space, SO2) else 3
    np.testing.assert_allclose(slopes, expected, atol=0.15)


@pytest.mark.parametrize(("space", "right"), [(SO3(), True), (SE2(), False)])
def test_stepper_has_order_four(space, right):
    connection = random_connection(2, space.dim, 2, 2)
    loop = ellipse(0.5, (0.1, 0.2))

    def phase(steps):
        return geometric_phase(connection, loop, space, steps=steps, right=right)

    exact = phase(320)
    error = [float(jnp.linalg.norm(space.local(exact, phase(n)))) for n in (20, 40)]
    assert error[1] > 1e-11  # above rounding
    np.testing.assert_allclose(np.log2(error[0] / error[1]), 4, atol=0.35)


@sides
def test_the_phase_knows_the_curve_only(right):
    """Another speed along the loop leaves the phase; two rounds give its square and the reverse gives its inverse.
    `reconstruct` begins at the given pose."""
    space = SE2()
    connection = random_connection(5, 3, 2, 2)
    loop = ellipse(0.3, (0.1, 0.2))
    faster = lambda x: loop(x + 0.1 * jnp.sin(2 * math.pi * x))
    phase = lambda loop: geometric_phase(connection, loop, space, steps=300, right=right)
    g = phase(loop)
    np.testing.assert_allclose(phase(faster), g, atol=1e-7)
    twice = phase(ellipse(0.3, (0.1, 0.2), turns=2))
    np.testing.assert_allclose(twice, space.compose(g, g), atol=1e-6)
    np.testing.assert_allclose(phase(lambda x: loop(1 - x)), space.inverse(g), atol=1e-7)
    start = space.exp(jnp.linspace(-1, 1, 3))
    moved = reconstruct(connection, loop, jnp.linspace(0, 1, 301), space, start, right=right)
    both = (g, start) if right else (start, g)
    np.testing.assert_allclose(moved[-1], space.compose(*both), atol=1e-12)
    np.testing.assert_array_equal(moved[0], start)


def test_gradient_of_a_gait():
    """The phase is differentiable by the loop: d(area)/d(size) of the abelian example, also at size 0, where the loop
    is a point."""
    phase = lambda size: geometric_phase(plane_connection, ellipse(size), SO2(), steps=40)[0]
    np.testing.assert_allclose(jax.jit(jax.grad(phase))(0.8), -1.2 * math.pi * 0.8, rtol=1e-5)
    np.testing.assert_array_equal(jax.jit(jax.grad(phase))(0.0), 0.0)


def test_bad_input_is_named():
    with pytest.raises(TypeError, match="path"):
        reconstruct(plane_connection, 3.0, jnp.linspace(0, 1, 3), SO2())
    times = jnp.linspace(0, 1, 3)
    with pytest.raises(ValueError, match="start"):
        reconstruct(plane_connection, ellipse(1.0), times, SO2(), jnp.zeros(2))
    with pytest.raises(ValueError, match=r"`loop` goes from \[0\. 0\.\] at 0 to \[1\. 1\.\] at 1"):
        geometric_phase(plane_connection, lambda x: jnp.stack([x, x]), SO2())
    with pytest.raises(ValueError, match=r"`connection\(r\)` has shape .*must have shape \(3, 2\)"):
        geometric_phase(plane_connection, ellipse(1.0), SO3())
    with pytest.raises(TypeError, match="`connection` is of type"):
        geometric_phase(jnp.zeros((1, 2)), ellipse(1.0), SO2())
    with pytest.raises(ValueError, match=r"`steps` is 2.5"):
        geometric_phase(plane_connection, ellipse(1.0), SO2(), steps=2.5)
    with pytest.raises(ValueError, match="steps"):
        geometric_phase(plane_connection, ellipse(1.0), SO2(), steps=0)
