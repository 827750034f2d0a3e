"""A second motion that is shown together with a run, as rings and a trail of its own."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._motion._scene_of import rows_drawn
from jaxhamel.viz._scene import Curve, Pose, Thing, Trail

ROLE = "series2"
RING_POINTS = 49  # on the circle by which a ring is drawn


class Companion(NamedTuple):
    """A motion of another system of the same kind, at its own times."""

    system: Any
    ts: np.ndarray
    q: Any
    u: np.ndarray


def with_companion(things: list[Thing], run: ShownMotion, other: Companion) -> list[Thing]:
    """The things of a scene, and those of the other motion at the times of the run; unchanged if it ended early."""
    shown = ShownMotion(other.system, None, run.ts, *_at(other, run.ts))
    if not np.isfinite(other.u).all() or rows_drawn(shown) < len(run.ts):
        return things
    return [*things, *_things(shown)]


def _at(other: Companion, ts: np.ndarray) -> tuple[Any, np.ndarray]:
    """(q, u) at other times, linear between the samples."""
    place = np.clip(np.searchsorted(other.ts, ts, side="right") - 1, 0, len(other.ts) - 2)
    share = np.clip((ts - other.ts[place]) / np.diff(other.ts)[place], 0.0, 1.0)

    def between(x):
        weight = share.reshape(-1, *[1] * (x.ndim - 1))
        return x[place] + weight * (x[place + 1] - x[place])

    q, u = jax.tree.map(between, (other.q, other.u))
    return jax.vmap(other.system.space.normalise)(q), u


def _things(shown: ShownMotion) -> Iterator[Thing]:
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
    """The three great circles of the axes."""
    turn = np.linspace(0.0, 2.0 * np.pi, RING_POINTS)
    x, y, zero = radius * np.cos(turn), radius * np.sin(turn), np.zeros(RING_POINTS)
    return [np.stack(axes, axis=1) for axes in ((x, y, zero), (zero, x, y), (y, zero, x))]
