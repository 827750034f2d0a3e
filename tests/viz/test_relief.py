"""Uneven ground in pictures: lines and trail lie on it, the force points along its normal, contours give its height."""

import jax.numpy as jnp
import numpy as np

from jaxhamel.systems import RollingBall
from jaxhamel.viz._motion._charts_of import from_above
from jaxhamel.viz._motion._relief import contours
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import scene_of
from jaxhamel.viz._scene import Arrow, Curve, Trail


def shown(ground, x):
    """A ball at rest, without a motion between its places x."""
    n = len(x)
    ball = RollingBall(0.1, 2.0, [0.01] * 3, ground=ground)
    q = np.tile([1.0, 0.0, 0.0, 0.0], (n, 1)), np.asarray(x)
    return ShownMotion(ball, None, np.arange(1.0, n + 1), q, np.zeros((n, 3)))


X = np.array([[0.0, 0.0], [0.3, 0.4], [0.5, -0.2]])


def test_the_scene_of_a_slope():
    """On z = x/2 all lines and the trail have this height; the force on a ball at rest is that of the slope."""
    run = shown(lambda x: 0.5 * x[0], X)
    scene = scene_of(run)
    assert scene is not None
    assert scene.ground is None
    drawn = [thing.points for thing in scene.things if isinstance(thing, Curve | Trail)]
    assert len(drawn) == 2 * 17 + 1
    for points in drawn:
        np.testing.assert_allclose(points[:, 2], 0.5 * points[:, 0], atol=1e-12)
    (force,) = [thing for thing in scene.things if isinstance(thing, Arrow)]
    normal = np.array([-0.5, 0.0, 1.0]) / np.sqrt(1.25)
    np.testing.assert_allclose(force.vector @ normal, 2.0 * 9.81 / np.sqrt(1.25), rtol=1e-12)
    # friction along the slope: I/(I + m r²) = 1/3 of the weight along it
    np.testing.assert_allclose(
        force.vector @ np.array([1.0, 0.0, 0.5]) / np.sqrt(1.25),
        2.0 * 9.81 * 0.5 / np.sqrt(1.25) / 3,
    )


def test_contours_and_the_plane():
    run = shown(lambda x: x[0] * x[1], X)
    found = contours(run)
    assert found is not None
    x, y, height = found
    np.testing.assert_allclose(height, x[None, :] * y[:, None], atol=1e-12)
    assert contours(shown(None, X)) is None
    scene = scene_of(shown(None, X))
    assert scene is not None
    assert scene.ground == 0.0


def test_a_cylinder_is_seen_from_above_by_its_points():
    """Coordinates on a cylinder are an angle and a height: the path has x and y of the contact point."""

    def cylinder(x):
        return jnp.stack([0.6 * jnp.cos(x[0]), -0.6 * jnp.sin(x[0]), x[1]])

    found = from_above(shown(cylinder, X))
    assert found is not None
    np.testing.assert_allclose(found[:, 0], 0.6 * np.cos(X[:, 0]), atol=1e-12)
    assert contours(shown(cylinder, X)) is None
