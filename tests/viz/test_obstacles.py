"""Outlines of path limits in the scene and in the path's view from above."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest

from jaxhamel.control import PathLimit, problems
from jaxhamel.systems import ChaplyginSleigh
from jaxhamel.viz import Curve
from jaxhamel.viz._motion._charts_of import edges_of
from jaxhamel.viz._motion._plan_page import obstacles_along
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import scene_of

TS = np.linspace(0.0, 2.0, 3)


def place(t, q, u, control):
    return q[1]


def wall(t):
    return jnp.stack([jnp.array([1.0 + t, -1.0]), jnp.array([1.0 + t, 1.0])])


def test_a_moving_wall_on_the_ground():
    limits = (
        PathLimit(place, upper=1.0, name="distance to wall", outline=wall),
        PathLimit(place, upper=3.0, name="other"),
    )
    planned = SimpleNamespace(problem=SimpleNamespace(constraints=limits))
    ((name, line),) = found = obstacles_along(planned, TS)
    assert name == "wall"
    np.testing.assert_array_equal(line[:, :, 0], 1.0 + TS[:, None] + np.zeros(2))
    np.testing.assert_array_equal(line[:, :, 1:], np.tile([[-1.0, 0.0], [1.0, 0.0]], (3, 1, 1)))
    sleigh = ChaplyginSleigh(1.0, 1.0, 0.5)
    q = np.stack([0.0 * TS, 0.3 * TS, 0.0 * TS], axis=1)
    run = ShownMotion(sleigh, None, TS, q, np.zeros((3, 2)), obstacles=found)
    assert [name for name, _ in edges_of(run)] == ["wall", "wall at the end"]
    scene = scene_of(run)
    assert scene is not None
    (drawn,) = (x for x in scene.things if isinstance(x, Curve) and x.label == "wall")
    np.testing.assert_array_equal(drawn.points, line)


@pytest.mark.parametrize("make", [problems.ball_obstacle, problems.disk_obstacle])
def test_outlines_of_built_in_obstacles_lie_where_the_limit_is(make):
    """The ball touches the obstacle, and the post stands where the limit is zero."""
    problem = make()
    (limit,) = (x for x in problem.constraints if getattr(x, "outline", None) is not None)
    t = jnp.asarray(1.3)
    points = limit.outline(t)
    if make is problems.disk_obstacle:
        np.testing.assert_allclose(
            limit.function(t, (0, points[0, 0]), None, None), 0.0, atol=1e-15
        )
        return
    q = problem.q0
    for point in points[::10, :2]:
        away = point - limit.function.centre
        touching = point + 0.15 * away / jnp.linalg.norm(away)  # the ball's radius is 0.15 m
        value = limit.function(t, (q[0], touching), None, None)
        np.testing.assert_allclose(value, 0.0, atol=1e-15)
