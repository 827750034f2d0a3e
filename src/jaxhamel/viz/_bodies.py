"""3-D scenes of a body that turns about a fixed point, and of a disk that rolls in a vertical plane."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from jaxhamel.mechanics._description._drawing import CIRCLE
from jaxhamel.viz._scene import Curve, Points, Pose, Scene, Thing, Trail, Triad
from jaxhamel.viz._style import roles


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

    - `ts`: the times [s], `(T,)`; `quaternion`: the orientation, scalar first, from the body to the space frame, `(T, 4)`.
    - `edges`: polylines in the body frame [m], `(P, 3)` each, from `box_edges` or `top_edges`.
    - `point`: a point of the body in the body frame [m], `(3,)`, whose path through space is drawn; `point_name`: its name.
    - `speed`: the playback speed with which the page starts.
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

    - `ts`: the times [s], `(T,)`.
    - `angle`: the angle φ with Ω = −φ̇ e₂ (Putkaradze & Rogers 2018, appendix C) [rad], `(T,)`.
    - `position`: the position of the centre along x [m], `(T,)`; `radius`: the radius of the disk [m].
    - `masses`: the positions of the masses in the body frame [m], `(T, n, 3)`; `rails`: every rail as a polyline in the body
      frame [m], `(n, P, 3)`.
    - `speed`: the playback speed with which the page starts.
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


def rotated(
    quaternion: Float[ndarray, "T 4"], vector: Float[ndarray, " 3"]
) -> Float[ndarray, "T 3"]:
    """The vector R(q) x = x + 2 w **v** × x + 2 **v** × (**v** × x) for every unit quaternion q = (w, **v**)."""
    w, v = quaternion[:, :1], quaternion[:, 1:]
    once = np.cross(v, np.asarray(vector, dtype=float)[None, :])
    return np.asarray(vector)[None, :] + 2.0 * (w * once + np.cross(v, once))


def planar_quaternion(angle: Float[ndarray, " T"]) -> Float[ndarray, "T 4"]:
    """The quaternion of the rotation by φ about −y, by which a disk with φ̇ > 0 rolls towards −x."""
    zero = np.zeros_like(angle)
    return np.stack([np.cos(angle / 2), zero, -np.sin(angle / 2), zero], axis=1)


def _wheel(radius: float) -> list[np.ndarray]:
    """The rim of the disk and two diameters, as polylines in the plane of x and z of the body frame."""
    rim = radius * np.stack([np.cos(CIRCLE), 0 * CIRCLE, np.sin(CIRCLE)], axis=1)
    spokes = [
        radius * np.array([[-1.0, 0, 0], [1, 0, 0]]),
        radius * np.array([[0, 0, -1.0], [0, 0, 1]]),
    ]
    return [rim, *spokes]
