"""The scene of a motion: the shapes that the system declares, or else the frames of its bodies. A second motion in the
same scene has rings and a trail of its own.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel.mechanics._description._drawing import FRAME, Shape
from jaxhamel.viz._bodies import rotated
from jaxhamel.viz._motion._relief import is_height, points_on, relief, surface_of
from jaxhamel.viz._motion._run import ShownMotion
from jaxhamel.viz._scene import Arrow, Curve, Points, Pose, Scene, Sphere, Thing, Trail, Triad
from jaxhamel.viz._style import roles

FARTHEST = 1e100  # largest position [m] or force [N] that is drawn
FORCE_LENGTH = 1.15  # length of an arrow for a contact force equal to the weight, relative to the size of the scene


def scene_of(run: ShownMotion) -> Scene | None:
    """The 3-D scene of a motion, up to the first state that cannot be drawn.

    None if the system has no body with a position and orientation, or if not even the first state can be drawn.
    """
    count = rows_drawn(run)
    if count < len(run.ts):
        if not count:
            return None
        q, u = jax.tree.map(lambda x: x[:count], (run.q, run.u))
        run = replace(run, ts=run.ts[:count], q=q, u=u)
    poses = [Pose(np.asarray(q), np.asarray(x)) for q, x in run.along.places]
    if not poses:
        return None
    shapes = list(run.system.shapes()) or [FRAME] * len(poses)
    size = _size(shapes, poses)
    lines = relief(run, size)
    things = [*lines, *_reference_path(run), *_obstacles(run), *_trails(run, shapes, poses)]
    for i, (shape, pose) in enumerate(zip(shapes, poses, strict=True)):
        things += _things_of_shape(shape, pose, size, i)
    things += _masses(run, poses[0], size) + _force(run, size)
    return Scene(
        run.ts,
        things,
        focus=poses[0].position,
        extent=2.0 * size,
        ground=0.0 if run.system.on_ground and not lines else None,
        speed=_speed(run, poses),
        view=_view(poses),
    )


def rows_drawn(run: ShownMotion) -> int:
    """The number of times before the first at which a position or force is too large to be drawn: its square
    might overflow.
    """
    force = run.output("forces")
    drawn = [run.along.places, run.along.contact, run.along.masses, force and force.value]
    good = np.ones(len(run.ts), bool)
    for x in jax.tree.leaves(drawn):
        good &= np.all(np.abs(np.reshape(x, (len(good), -1))) < FARTHEST, axis=1)
    return len(good) if good.all() else int(np.argmin(good))


def _size(shapes: list[Shape], poses: list[Pose]) -> float:
    """The size of the scene [m]: the largest distance of any shape from the first body's origin, or a fifth of its path if
    the shapes have no size.
    """
    reach = [
        _radius(shape) + float(np.max(np.linalg.norm(pose.position - poses[0].position, axis=1)))
        for shape, pose in zip(shapes, poses, strict=True)
    ]
    if max(reach) > 0:
        return max(reach)
    travelled = float(np.max(np.ptp(poses[0].position, axis=0)))
    return 0.2 * travelled or 1.0


def _radius(shape: Shape) -> float:
    """The largest distance of a shape's sphere, lines and points from the origin of its body."""
    found = [shape.sphere or 0.0]
    found += [float(np.max(np.linalg.norm(line, axis=1))) for line in shape.lines]
    if shape.points is not None and len(shape.points):
        found.append(float(np.max(np.linalg.norm(shape.points, axis=1))))
    return max(found)


def _things_of_shape(shape: Shape, pose: Pose, size: float, place: int) -> list[Thing]:
    """The objects that draw the shape of the body with the index `place`; `size`: the size of the scene [m]."""
    things: list[Thing] = []
    if shape.sphere is not None:
        things.append(Sphere(shape.sphere, pose))
    role = "ink" if place == 0 else roles(place)[-1]
    things += [Curve(np.asarray(line, float), pose, role, width=1.8) for line in shape.lines]
    if shape.triad:
        things.append(Triad(size, pose))
    if shape.points is not None and len(shape.points):
        names = ["series2"] * len(shape.points)
        things.append(Points(np.asarray(shape.points, float), 0.05 * size, pose, names))
    return things


def _reference_path(run: ShownMotion) -> list[Thing]:
    if run.reference is None or run.reference.shape[1] > 3:
        return []
    drawn = run.reference[:: max(1, len(run.reference) // 400)]
    line = _on_the_ground(run, drawn) if drawn.shape[1] == 2 else drawn
    line = np.pad(line, ((0, 0), (0, 3 - line.shape[1])))
    return [Curve(line, role="reference", dashed=True, width=2.0, label="reference path")]


def _obstacles(run: ShownMotion) -> list[Thing]:
    return [
        Curve(line[: len(run.ts)], role="limit", width=2.4, label=name)
        for name, line in run.obstacles
    ]


def _trails(run: ShownMotion, shapes: list[Shape], poses: list[Pose]) -> list[Thing]:
    """The trail of the contact point if there is one; else of a system on the ground that of the point below the first body;
    else those of the points that the shapes declare.
    """
    if run.along.contact is not None:
        return [Trail(np.asarray(run.along.contact), label="path of the contact point")]
    if run.system.on_ground:
        below = _on_the_ground(run, poses[0].position[:, :2])
        return [Trail(below, label="path on the ground")]
    found = []
    for shape, pose in zip(shapes, poses, strict=True):
        if shape.trail is not None:
            points = rotated(pose.quaternion, np.asarray(shape.trail, float)) + pose.position
            if np.ptp(points, axis=0).max() > 0:
                found.append(Trail(points, label=f"path of the {shape.trail_name}"))
    return found


def _on_the_ground(run: ShownMotion, x: np.ndarray) -> np.ndarray:
    """The points of the ground with the given x and y, `(P, 3)`; they have z = 0 for a plane or a surface without height."""
    ground = surface_of(run.system)
    if ground is None or not is_height(ground):
        return np.pad(x, ((0, 0), (0, 1)))
    return points_on(ground, x)


def _masses(run: ShownMotion, pose: Pose, size: float) -> list[Thing]:
    """The masses and their rails as objects of the scene; the rails are fixed to the first body."""
    masses = run.along.masses
    if masses is None or not masses.shape[1]:
        return []
    names = roles(masses.shape[1])
    rails: list[Thing] = [
        Curve(line, pose, role, width=2.2) for line, role in zip(run.rails, names, strict=True)
    ]
    return [*rails, Points(np.asarray(masses), 0.085 * size, pose, names, "masses on rails")]


def _force(run: ShownMotion, size: float) -> list[Thing]:
    output, contact = run.output("forces"), run.along.contact
    if output is None or contact is None:
        return []
    force = np.asarray(output.value)
    if run.along.ground is not None:  # from the axes of the ground to those of space
        force = np.einsum("ta,tai->ti", force, run.along.ground)
    usual = np.median(np.abs(force[:, 2])) if output.level is None else np.max(output.level)
    scale = 2.0 * FORCE_LENGTH * size / max(float(usual), 1e-12)
    return [Arrow(np.asarray(contact), force, scale, label="contact force")]


def _speed(run: ShownMotion, poses: list[Pose]) -> float:
    """The playback speed, at most 1, at which the first body makes no more than about 1.5 turns per second."""
    return min(1.0, 10.0 / max(fastest_turn(run.ts, poses[0].quaternion), 1e-9))


def fastest_turn(ts: np.ndarray, quaternion: np.ndarray) -> float:
    """The largest angular speed [rad/s], from the rotations between neighbouring times."""
    if len(ts) < 2:
        return 0.0
    cosine = np.abs(np.sum(quaternion[1:] * quaternion[:-1], axis=1))
    return float(np.max(2.0 * np.arccos(np.minimum(cosine, 1.0)) / np.diff(ts)))


def _view(poses: list[Pose]) -> tuple[float, float]:
    """The azimuth and elevation of the camera in degrees: from above for a motion in the plane of x and y, from the side for
    one in the plane of x and z, obliquely for any other.
    """
    flat = all(
        np.ptp(p.position[:, 2]) == 0.0
        and not p.position[:, 2].any()
        and not p.quaternion[:, 1:3].any()
        for p in poses
    )
    across = all(
        np.ptp(p.position[:, 1]) == 0.0 and not p.quaternion[:, [1, 3]].any() for p in poses
    )
    return (-90.0, 62.0) if flat else (-80.0, 10.0) if across else (-62.0, 22.0)


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
        place = poses[0].position
        below = _on_the_ground(shown, place[:, :2]) if shown.system.on_ground else place
        yield Trail(below, ROLE, "a robot in closed loop")


def _rings(radius: float) -> list[np.ndarray]:
    """Three circles of the given radius about the origin, in the coordinate planes, as polylines."""
    turn = np.linspace(0.0, 2.0 * np.pi, RING_POINTS)
    x, y, zero = radius * np.cos(turn), radius * np.sin(turn), np.zeros(RING_POINTS)
    return [np.stack(axes, axis=1) for axes in ((x, y, zero), (zero, x, y), (y, zero, x))]
