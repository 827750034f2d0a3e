"""Rails: the curves of their definitions, derivatives and checks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.mechanics import Constant, MovingParts
from jaxhamel.systems import (
    CircularRails,
    EllipticRails,
    FigureEightRails,
    MixedRails,
    RollingBall,
    StraightRails,
)
from jaxhamel.systems._descriptions import rail_parameters
from tests.reference import rails as reference_rails
from tests.systems.motion import unit_pairs

N = 4


@pytest.fixture
def parts():
    """Normals, zero directions, centres, angles: (N, 3), (N, 3), (N, 3), (N,)."""
    rng = np.random.default_rng(3)
    normal, zero = unit_pairs(rng, N)
    return normal, zero, 0.3 * rng.normal(size=(N, 3)), rng.uniform(-4, 4, N)


def in_plane(position, normal, zero, centre):
    """Components of ζ − c along e, n × e and n."""
    away = position - centre
    axes = (zero, np.cross(normal, zero), normal)
    return tuple(np.sum(away * axis, axis=1) for axis in axes)


def test_circle(parts):
    normal, zero, centre, theta = parts
    radius = np.array([0.3, 0.5, 0.7, 0.9])
    rails = CircularRails(radius, normal, zero, centre)
    x, y, off = in_plane(rails(jnp.asarray(theta)), normal, zero, centre)
    np.testing.assert_allclose(np.hypot(x, y), radius, rtol=1e-15)
    np.testing.assert_allclose(off, 0, atol=1e-15)
    np.testing.assert_allclose(np.cos(np.arctan2(y, x) - theta), 1, rtol=1e-15)


def test_circle_turns_right_handed_about_its_normal():
    """About e_3 from e_1, a quarter turn is e_2."""
    rails = CircularRails([2.0], [[0.0, 0, 1]], [[1.0, 0, 0]])
    np.testing.assert_allclose(rails(jnp.array([jnp.pi / 2])), [[0, 2, 0]], atol=1e-15)


def test_ellipse(parts):
    normal, zero, centre, theta = parts
    axes = np.array([[0.3, 0.2], [0.4, 0.6], [0.5, 0.5], [0.9, 0.1]])
    x, y, off = in_plane(
        EllipticRails(axes, normal, zero, centre)(jnp.asarray(theta)), normal, zero, centre
    )
    np.testing.assert_allclose((x / axes[:, 0]) ** 2 + (y / axes[:, 1]) ** 2, 1, rtol=1e-14)
    np.testing.assert_allclose(off, 0, atol=1e-15)


def test_figure_eight(parts):
    """x⁴ = a² (x² − y²): the lemniscate of Gerono."""
    normal, zero, centre, theta = parts
    size = np.array([0.3, 0.5, 0.7, 0.9])
    x, y, off = in_plane(
        FigureEightRails(size, normal, zero, centre)(jnp.asarray(theta)), normal, zero, centre
    )
    np.testing.assert_allclose(x**4, size**2 * (x**2 - y**2), atol=1e-15)
    assert np.all(np.abs(y) > 1e-3)
    np.testing.assert_allclose(off, 0, atol=1e-15)


def test_straight_rails_measure_metres(parts):
    direction, _, origin, theta = parts
    rails = StraightRails(origin, direction)
    away = rails(jnp.asarray(theta)) - origin
    np.testing.assert_allclose(np.linalg.norm(away, axis=1), np.abs(theta), rtol=1e-14)
    np.testing.assert_allclose(rails(jnp.zeros(N)), origin, atol=0)


@pytest.mark.parametrize("kind", ["circle", "ellipse", "figure_eight", "line"])
def test_position_and_derivatives_by_autodiff(parts, kind):
    """ζ, ζ′, ζ″ against those written by hand."""
    normal, zero, centre, theta = parts
    size = np.array([0.3, 0.5, 0.7, 0.9])
    made = {
        "circle": (CircularRails, (size, normal, zero, centre)),
        "ellipse": (EllipticRails, (np.stack([size, size[::-1]], 1), normal, zero, centre)),
        "figure_eight": (FigureEightRails, (size, normal, zero, centre)),
        "line": (StraightRails, (centre, normal)),
    }
    rails, arguments = made[kind][0](*made[kind][1]), made[kind][1]
    slope = lambda theta: jax.jvp(rails, (theta,), (jnp.ones(N),))
    (position, first), (_, second) = jax.jvp(slope, (jnp.asarray(theta),), (jnp.ones(N),))
    wanted = getattr(reference_rails, kind)(theta, *arguments)
    for got, want in zip((position, first, second), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)


def test_mixed_rails_are_their_parts_in_order(parts):
    normal, zero, centre, theta = parts
    circles = CircularRails([0.3, 0.4], normal[:2], zero[:2])
    lines = StraightRails(centre[2:3], normal[2:3])
    eights = FigureEightRails([0.6], normal[3:], zero[3:], centre[3:])
    rails, theta = MixedRails(circles, lines, eights), jnp.asarray(theta)
    assert rails.n_masses == N
    wanted = [circles(theta[:2]), lines(theta[2:3]), eights(theta[3:])]
    np.testing.assert_array_equal(rails(theta), np.concatenate(wanted))


def test_one_centre_for_all_is_one_centre_each(parts):
    normal, zero, _, theta = parts
    radius, shared = np.ones(N), [0.1, 0.2, 0.3]
    one = CircularRails(radius, normal, zero, shared)
    each = CircularRails(radius, normal, zero, np.tile(shared, (N, 1)))
    assert one.centre.shape == (N, 3)
    np.testing.assert_array_equal(one(jnp.asarray(theta)), each(jnp.asarray(theta)))


def test_no_rails_at_all():
    rails = CircularRails([], np.zeros((0, 3)), np.zeros((0, 3)))
    assert rails(jnp.zeros(0)).shape == (0, 3)


def test_every_parameter_is_a_leaf_and_new_values_compile_nothing(parts):
    normal, zero, centre, theta = parts
    traces = []

    @jax.jit
    def height(rails, theta):
        traces.append(1)
        return jnp.sum(rails(theta)[:, 2])

    first = CircularRails(np.full(N, 0.5), normal, zero, centre)
    second = CircularRails([1, 2, 3, 4], -normal, zero)  # integers, lists, a scalar centre
    for rails in (first, second):
        gradient = jax.grad(height)(rails, jnp.asarray(theta))
        assert all(np.any(leaf != 0) for leaf in jax.tree.leaves(gradient))
        assert len(jax.tree.leaves(gradient)) == 4
    assert len(traces) == 1


def test_made_inside_vmap_and_jit():
    """Traced parameters pass the checks, since their values are unknown."""
    make = lambda radius: CircularRails(radius, [[0.0, 0, 1]], [[1.0, 0, 0]])(jnp.zeros(1))
    np.testing.assert_allclose(jax.jit(jax.vmap(make))(jnp.array([[1.0], [2.0]]))[:, 0, 0], [1, 2])


def test_rails_are_pytrees_of_anything():
    rails = CircularRails([1.0], [[0.0, 0, 1]], [[1.0, 0, 0]])
    assert jax.tree.map(lambda _: None, rails).radius is None


def test_single_precision(float32):
    rails = CircularRails([1.0], [[0.0, 0, 1]], [[1.0, 0, 0]])
    assert rails(jnp.zeros(1)).dtype == jnp.float32


def test_the_default_centre_has_the_precision_of_the_rest():
    given = (jnp.asarray(x, jnp.float32) for x in ([1.0], [[0.0, 0, 1]], [[1.0, 0, 0]]))
    assert CircularRails(*given).centre.dtype == jnp.float32


UP, EAST = [[0.0, 0, 1]], [[1.0, 0, 0]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: CircularRails([1.0, 2], UP, EAST), r"`normal` has shape \(1, 3\).*\(2, 3\)"),
        (lambda: CircularRails(1.0, UP, EAST), r"`radius` has shape \(\).*\(n,\)"),
        (lambda: CircularRails([-1.0], UP, EAST), r"`radius` is \[-1.\]; it must be positive"),
        (lambda: CircularRails([np.nan], UP, EAST), r"`radius` is \[nan\].*finite"),
        (lambda: CircularRails([1.0], [[0.0, 0, 2]], EAST), r"`normal` .*length \[2.\].*unit"),
        (lambda: CircularRails([1.0], UP, [[0.0, 0, 1]]), r"`zero` must be perpendicular"),
        (lambda: CircularRails([1.0], UP, EAST, [1.0, 2]), r"`centre` has shape \(2,\)"),
        (lambda: CircularRails([1.0], UP, EAST, np.inf), r"`centre` is inf.*finite"),
        (lambda: EllipticRails([[1.0, 0]], UP, EAST), r"`semi_axes` .*positive"),
        (lambda: EllipticRails([1.0], UP, EAST), r"`semi_axes` has shape \(1,\).*\(n, 2\)"),
        (lambda: FigureEightRails([0.0], UP, EAST), r"`size` is \[0.\].*positive"),
        (lambda: StraightRails(UP, [[1.0, 1, 0]]), r"`direction` .*unit vector"),
        (lambda: StraightRails(np.zeros((2, 3)), EAST), r"`origin` has shape \(2, 3\).*\(1, 3\)"),
    ],
)
def test_messages(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_mixed_rails_need_to_know_how_many():
    with pytest.raises(TypeError, match=r"`groups\[0\]` .*`n_masses`"):
        MixedRails(lambda theta: theta)


def test_unit_of_the_rail_parameter():
    """θ is an angle on closed rails and a length on straight ones; of a function without a unit it may be either. Rates
    and accelerations of the masses follow."""
    n, z = [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]
    circles, lines = CircularRails([0.1], n, z), StraightRails(0.0, z)
    for rails, unit, second in (
        (circles, "rad", "rad/s²"),
        (lines, "m", "m/s²"),
        (MixedRails(circles, circles), "rad", "rad/s²"),
        (MixedRails(circles, lines), "rad, m", "rad/s², m/s²"),
        (lambda theta: circles(theta), "rad or m", "rad/s² or m/s²"),
    ):
        masses = [0.1] * getattr(rails, "n_masses", 1)
        ball = RollingBall(0.2, 1.0, [0.01] * 3, [0.0] * 3, masses, rails)
        (angles,) = rail_parameters(ball, 0.0, Constant(np.zeros(len(masses))))
        assert angles.unit == unit
        (control,) = MovingParts(ball).state_names.control
        assert control.unit == second
