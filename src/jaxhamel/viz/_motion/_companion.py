"""A second motion of the same kind of system, drawn in the scene of a motion with rings and with a trail of its own."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import rows_drawn
from jaxhamel.viz._scene import Curve, Pose, Thing, Trail

ROLE = "series2"
RING_POINTS = 49  # number of points on a ring


class Companion(NamedTuple):
    """The motion (`q`, `u`) of another system of the same class, at its own times `ts`."""

    system: Any
    ts: np.ndarray
    q: Any
    u: np.ndarray


def with_companion(things: list[Thing], run: ShownMotion, other: Companion) -> list[Thing]:
    """The objects `things` of a motion's scene, and those of the other motion at the same times; only `things` if the other
    motion ended early.
    """
    shown = ShownMotion(other.system, None, run.ts, *_state_at(other, run.ts))
    if not np.isfinite(other.u).all() or rows_drawn(shown) < len(run.ts):
        return things
    return [*things, *_companion_things(shown)]


def _state_at(other: Companion, ts: np.ndarray) -> tuple[Any, np.ndarray]:
    """(q, u) of the other motion at the times `ts`, by linear interpolation."""
    place = np.clip(np.searchsorted(other.ts, ts, side="right") - 1, 0, len(other.ts) - 2)
    share = np.clip((ts - other.ts[place]) / np.diff(other.ts)[place], 0.0, 1.0)

    def between(x):
        weight = share.reshape(-1, *[1] * (x.ndim - 1))
        return x[place] + weight * (x[place + 1] - x[place])

    q, u = jax.tree.map(between, (other.q, other.u))
    return jax.vmap(other.system.space.normalise)(q), u


def _companion_things(shown: ShownMotion) -> Iterator[Thing]:
    """Yields the objects of the second motion: rings for spheres, the lines of its shapes, and a trail."""
    shapes = list(shown.system.shapes())
    poses = [Pose(np.asarray(q), np.asarray(x)) for q, x in shown.along.places]
    for shape, pose in zip(shapes, poses, strict=False):
        if shape.sphere is not None:
            yield from (Curve(ring, pose, ROLE, width=1.4) for ring in _rings(shape.sphere))
        yield from (Curve(np.asarray(x, float), pose, ROLE, width=1.4) for x in shape.lines)
    if poses:
        below = poses[0].position * np.array([[1.0, 1.0, 0.0 if shown.system.on_ground else 1.0]])
        yield Trail(below, ROLE, "a robot in closed loop")


def _rings(radius: float) -> list[np.ndarray]:
    """Three circles of the given radius about the origin, in the coordinate planes, as polylines."""
    turn = np.linspace(0.0, 2.0 * np.pi, RING_POINTS)
    x, y, zero = radius * np.cos(turn), radius * np.sin(turn), np.zeros(RING_POINTS)
    return [np.stack(axes, axis=1) for axes in ((x, y, zero), (zero, x, y), (y, zero, x))]
