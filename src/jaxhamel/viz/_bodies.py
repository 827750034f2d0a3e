"""Scenes of other bodies: one that turns about a point, and a disk that rolls in a plane."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ._scene import Curve, Points, Pose, Scene, Thing, Trail, Triad
from ._style import roles

CIRCLE = np.linspace(0.0, 2.0 * np.pi, 49)


def body_scene(
    ts: Float[ndarray, " T"],
    quaternion: Float[ndarray, "T 4"],
    edges: Sequence[Float[ndarray, "P 3"]],
    *,
    point: Float[ndarray, " 3"] | None = None,
    point_name: str = "centre of mass",
    speed: float = 1.0,
) -> Scene:
    """A body that turns about the origin: its edges, its axes, and the trail of one of its points.

    **Arguments:**

    - `quaternion`: `(T, 4)`, scalar first, body to space.
    - `edges`: polylines `(P, 3)` m in the body frame, from `box_edges` or `top_edges`.
    - `point`: `(3,)` m, body frame; its path through space is drawn.
    """
    pose = Pose(quaternion, np.zeros((len(ts), 3)))
    size = 2.0 * max(float(np.max(np.linalg.norm(line, axis=1))) for line in edges)
    things: list[Thing] = [Curve(line, pose, "ink", width=1.8) for line in edges]
    things.append(Triad(0.5 * size, pose))
    if point is not None:
        path = rotated(quaternion, point)
        things.append(
            Points(np.asarray(point)[None, :], 0.025 * size, pose, ("series2",), point_name)
        )
        things.append(Trail(path, label=f"path of the {point_name}"))
    return Scene(ts, things, np.zeros((len(ts), 3)), extent=size, ground=None, speed=speed)


def disk_scene(
    ts: Float[ndarray, " T"],
    angle: Float[ndarray, " T"],
    position: Float[ndarray, " T"],
    radius: float,
    masses: Float[ndarray, "T n 3"],
    rails: Float[ndarray, "n P 3"],
    *,
    speed: float = 1.0,
) -> Scene:
    """A disk that rolls along x, in the plane of x and z, with its masses.

    **Arguments:**

    - `angle`: `(T,)` rad, φ with Ω = −φ̇ e₂ (Putkaradze & Rogers 2018, appendix C).
    - `position`: `(T,)` m, of the centre along x.
    - `masses`: `(T, n, 3)` m, body frame; `rails`: `(n, P, 3)` m, body frame.
    """
    centre = np.column_stack([position, 0.0 * position, np.full(len(ts), radius)])
    pose = Pose(planar_quaternion(angle), centre)
    names = roles(masses.shape[1])
    tracks = zip(rails, names, strict=True)
    things: list[Thing] = [
        Trail(centre - np.array([0.0, 0.0, radius]), label="path of the contact point")
    ]
    things += [Curve(line, pose, "path", width=2.4) for line in _wheel(radius)]
    things += [Curve(line, pose, role, width=2.0) for line, role in tracks]
    if names:
        things.append(Points(masses, 0.07 * radius, pose, names, "masses on rails"))
    return Scene(ts, things, centre, 2.0 * radius, speed=speed, view=(-80.0, 10.0))


def box_edges(size: Float[ndarray, " 3"]) -> list[Float[ndarray, "P 3"]]:
    """The twelve edges of a box with sides `size` (m) about the origin, as four polylines."""
    x, y, z = 0.5 * np.asarray(size, dtype=float)
    face = np.array([[x, y, 0], [-x, y, 0], [-x, -y, 0], [x, -y, 0], [x, y, 0]], dtype=float)
    low, high = face - np.array([0, 0, z]), face + np.array([0, 0, z])
    posts = [np.stack([low[k], high[k]]) for k in range(4)]
    return [low, high, *posts]


def inertia_box(inertia: Float[ndarray, " 3"], longest: float = 1.0) -> Float[ndarray, " 3"]:
    """Sides of the homogeneous box with these principal moments; the longest is `longest`.

    I₁ = m (b² + c²) / 12 and so on, hence a² = 6 (I₂ + I₃ − I₁) / m.
    """
    moments = np.asarray(inertia, dtype=float)
    sides = np.sqrt(np.maximum(moments.sum() - 2.0 * moments, 1e-3 * moments.max()))
    return longest * sides / sides.max()


def top_edges(axis: Float[ndarray, " 3"], radius: float) -> list[Float[ndarray, "P 3"]]:
    """A spinning top: the line from the pivot through `axis` (m, body frame), a flywheel there."""
    axis = np.asarray(axis, dtype=float)
    e1, e2 = perpendicular(axis)
    circle = radius * (np.cos(CIRCLE)[:, None] * e1 + np.sin(CIRCLE)[:, None] * e2)
    spokes = [np.stack([axis - radius * e, axis + radius * e]) for e in (e1, e2)]
    return [np.stack([0.0 * axis, 1.25 * axis]), axis + circle, *spokes]


def perpendicular(
    axis: Float[ndarray, " 3"],
) -> tuple[Float[ndarray, " 3"], Float[ndarray, " 3"]]:
    """Two unit vectors that make a right-handed frame with `axis` as its third."""
    unit = axis / np.linalg.norm(axis)
    e1 = np.cross(np.eye(3)[np.argmin(np.abs(unit))], unit)
    e1 = e1 / np.linalg.norm(e1)
    return e1, np.cross(unit, e1)


def rotated(
    quaternion: Float[ndarray, "T 4"], vector: Float[ndarray, " 3"]
) -> Float[ndarray, "T 3"]:
    """R(q) x for every quaternion (w, **v**): x + 2 w **v** × x + 2 **v** × (**v** × x)."""
    w, v = quaternion[:, :1], quaternion[:, 1:]
    once = np.cross(v, np.asarray(vector, dtype=float)[None, :])
    return np.asarray(vector)[None, :] + 2.0 * (w * once + np.cross(v, once))


def planar_quaternion(angle: Float[ndarray, " T"]) -> Float[ndarray, "T 4"]:
    """The rotation by φ about −y, under which a disk with φ̇ > 0 rolls towards −x."""
    zero = np.zeros_like(angle)
    return np.stack([np.cos(angle / 2), zero, -np.sin(angle / 2), zero], axis=1)


def _wheel(radius: float) -> list[np.ndarray]:
    """Rim and two diameters in the body's plane of x and z."""
    rim = radius * np.stack([np.cos(CIRCLE), 0 * CIRCLE, np.sin(CIRCLE)], axis=1)
    spokes = [
        radius * np.array([[-1.0, 0, 0], [1, 0, 0]]),
        radius * np.array([[0, 0, -1.0], [0, 0, 1]]),
    ]
    return [rim, *spokes]
