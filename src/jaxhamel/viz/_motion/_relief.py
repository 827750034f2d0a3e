"""Uneven ground in pictures: lines on the surface around a motion, and contours of its height."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from numpy import ndarray

from jaxhamel.geometry import surface_point
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._scene import Curve, Thing

LINES = 17  # in each direction
POINTS = 65  # on a line


def surface_of(system: Any) -> Callable | None:
    """The surface on which the system moves: `ground` of the system, or of the one inside of it; None for a plane."""
    ground = getattr(system, "ground", None)
    if callable(ground):
        return ground
    inner = getattr(system, "system", None)
    return None if inner is None else surface_of(inner)


def relief(run: ShownMotion, size: float) -> list[Thing]:
    """Lines of constant coordinates on the ground around a motion; `size`: the size of the body [m]."""
    ground = surface_of(run.system)
    if ground is None or (x := coordinates(run)) is None:
        return []
    low, high = _region(x, size if is_height(ground) else 0.0)
    lines: list[Thing] = []
    for axis in (0, 1):
        for fixed in np.linspace(low[axis], high[axis], LINES):
            along = np.linspace(low, high, POINTS)
            along[:, axis] = fixed
            lines.append(Curve(points_on(ground, along), role="line", width=0.9))
    return lines


def coordinates(run: ShownMotion) -> Float[ndarray, "T 2"] | None:
    """The coordinates of the motion on its ground: `(T, 2)` among the parts of its configuration named x and y."""
    for part, values in run.parts:
        if tuple(part.names(values.shape[1])) == ("x", "y"):
            return values
    return None


def points_on(ground: Callable, x: Float[ndarray, "P 2"]) -> Float[ndarray, "P 3"]:
    """The points p(x) of the ground."""
    return np.asarray(jax.vmap(lambda x: surface_point(ground, x))(jnp.asarray(x)))


def is_height(ground: Callable) -> bool:
    """Whether the ground is given by its height, so that its coordinates are x and y."""
    return jax.eval_shape(ground, jax.ShapeDtypeStruct((2,), jnp.result_type(float))).shape == ()


def contours(run: ShownMotion) -> tuple[ndarray, ndarray, ndarray] | None:
    """(x, y, height) of the ground around a motion, on a grid; None if the ground is a plane or has no height."""
    ground = surface_of(run.system)
    if ground is None or not is_height(ground) or (x := coordinates(run)) is None:
        return None
    low, high = _region(x, 0.0)
    first, second = (np.linspace(a, b, POINTS) for a, b in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(first, second), axis=-1)
    return first, second, points_on(ground, grid.reshape(-1, 2))[:, 2].reshape(POINTS, POINTS)


def _region(x: Float[ndarray, "T 2"], size: float) -> tuple[ndarray, ndarray]:
    """The corners of a rectangle around the coordinates, a quarter of their extent and 1.5 sizes wider on each side."""
    low, high = x.min(axis=0), x.max(axis=0)
    wider = 0.25 * float(np.max(high - low)) + 1.5 * size
    return low - wider, high + wider
