"""The content of an animation as plain arrays: objects, each of which may move with a body.

A point X of an object with the pose (R, p) is drawn at x(t) = R(t) X + p(t); the points of an object without a pose are
given in the space frame. If its array has a leading time axis, an object also moves relative to its pose, as masses do along
their rails.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from jaxhamel.viz._checks import check_frames


@dataclass(frozen=True, eq=False)
class Pose:
    """The motion of a rigid body, x(t) = R(quaternion) X + position.

    **Arguments:**

    - `quaternion`: unit quaternion of the rotation from the body to the space frame, scalar first, `(T, 4)`.
    - `position`: position of the body frame's origin [m], `(T, 3)`.
    """

    quaternion: Float[ndarray, "T 4"]
    position: Float[ndarray, "T 3"]


@dataclass(frozen=True, eq=False)
class Sphere:
    """A translucent sphere with coloured octants; its centre is the origin of its pose, its `radius` is in m."""

    radius: float
    pose: Pose


@dataclass(frozen=True, eq=False)
class Points:
    """Small balls, such as masses.

    **Arguments:**

    - `positions`: the centres of the balls [m], `(n, 3)` or `(T, n, 3)`.
    - `radius`: the radius with which they are drawn [m].
    - `roles`: the colour of each ball, by its name in the palette; by default the colours of the series.
    - `label`: the text in the legend.
    """

    positions: Float[ndarray, "*T n 3"]
    radius: float
    pose: Pose | None = None
    roles: Sequence[str] = ()
    label: str = ""


@dataclass(frozen=True, eq=False)
class Curve:
    """A polyline through `points` [m], `(P, 3)` or `(T, P, 3)`; `role` is the name of its colour in the palette, `width` its
    width in pixels.
    """

    points: Float[ndarray, "*T P 3"]
    pose: Pose | None = None
    role: str = "muted"
    dashed: bool = False
    width: float = 1.5
    label: str = ""


@dataclass(frozen=True, eq=False)
class Trail:
    """The path of a point in the space frame [m], `(T, 3)`, which the animation draws up to the displayed time."""

    points: Float[ndarray, "T 3"]
    role: str = "path"
    label: str = "path"


@dataclass(frozen=True, eq=False)
class Arrow:
    """An arrow that represents a vector `(T, 3)` at its `origin` `(T, 3)` [m], both in the space frame; `scale`: its length
    in m per unit of the vector.
    """

    origin: Float[ndarray, "T 3"]
    vector: Float[ndarray, "T 3"]
    scale: float
    role: str = "force"
    label: str = "force"


@dataclass(frozen=True, eq=False)
class Triad:
    """The axes x, y and z of a pose as arrows of a given `length` [m], in the first three colours of the series."""

    length: float
    pose: Pose


Thing = Sphere | Points | Curve | Trail | Arrow | Triad


@dataclass(frozen=True, eq=False)
class Scene:
    """An animated motion.

    **Arguments:**

    - `ts`: the times in increasing order [s], `(T,)`.
    - `things`: the objects to draw.
    - `focus`: the point that the camera follows [m], `(T, 3)`.
    - `extent`: the size of the region that fills the view [m].
    - `ground`: the height of the ground plane [m]; None for no ground.
    - `speed`: the playback speed with which the page starts.
    - `view`: azimuth and elevation of the camera in degrees.
    - `frames`: the largest number of times that the page keeps.

    **Raises:** `ValueError` if an array with a time axis does not have the T rows of `ts` or is not finite.
    """

    ts: Float[ndarray, " T"]
    things: Sequence[Thing]
    focus: Float[ndarray, "T 3"]
    extent: float
    ground: float | None = 0.0
    speed: float = 1.0
    view: tuple[float, float] = (-60.0, 24.0)
    frames: int = field(default=1500, kw_only=True)

    def __post_init__(self) -> None:
        check_frames("focus", self.focus, len(self.ts))
        for thing in self.things:
            for name, array in _moving_arrays(thing):
                check_frames(f"{type(thing).__name__}.{name}", array, len(self.ts))

    def payload(self) -> dict[str, Any]:
        """The scene as data for JSON: at most `frames` of its times, with numbers rounded to the visible precision."""
        keep = _rows_kept(len(self.ts), self.frames)
        poses = list({id(p): p for p in map(_pose, self.things) if p is not None}.values())
        number = {id(p): i for i, p in enumerate(poses)}
        digits = max(2, 5 - int(np.floor(np.log10(self.extent))))
        return {
            "ts": _rounded_list(self.ts[keep], 6),
            "focus": _rounded_list(self.focus[keep], digits),
            "extent": self.extent,
            "ground": self.ground,
            "speed": self.speed,
            "view": list(self.view),
            "poses": [
                {
                    "q": _rounded_list(p.quaternion[keep], 5),
                    "p": _rounded_list(p.position[keep], digits),
                }
                for p in poses
            ],
            "things": [
                _thing_payload(thing, number.get(id(_pose(thing)), -1), keep, digits)
                for thing in self.things
            ],
        }


def _pose(thing: Thing) -> Pose | None:
    return getattr(thing, "pose", None)


def _moving_arrays(thing: Thing):
    """Yields the name and the array of each array of an object that has a time axis."""
    if (pose := _pose(thing)) is not None:
        yield "pose.quaternion", pose.quaternion
        yield "pose.position", pose.position
    match thing:
        case Points(positions=array) if array.ndim == 3:
            yield "positions", array
        case Curve(points=array) if array.ndim == 3:
            yield "points", array
        case Trail(points=array):
            yield "points", array
        case Arrow(origin=origin, vector=vector):
            yield "origin", origin
            yield "vector", vector


def _rows_kept(count: int, most: int) -> np.ndarray:
    """The indices of at most `most` of `count` times, at equal distances, with the first and the last."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int))


def _rounded_list(array: np.ndarray, digits: int) -> list[Any]:
    rounded = np.round(np.asarray(array, dtype=float).ravel(), digits) + 0.0  # −0 becomes 0
    return [int(x) if x == int(x) else x for x in rounded.tolist()]


def _in_time(array: np.ndarray, keep: np.ndarray, digits: int) -> dict[str, Any]:
    """The data of points for JSON, at the times `keep` if they move; `moving` tells whether they do."""
    moving = array.ndim == 3
    values = array[keep] if moving else array
    return {"moving": moving, "count": int(array.shape[-2]), "data": _rounded_list(values, digits)}


def _thing_payload(thing: Thing, pose: int, keep: np.ndarray, digits: int) -> dict[str, Any]:
    common = {"kind": type(thing).__name__.lower(), "pose": pose}
    match thing:
        case Sphere(radius=radius):
            return common | {"radius": radius}
        case Triad(length=length):
            return common | {"length": length}
        case Points():
            shape = {"radius": thing.radius, "roles": list(thing.roles), "label": thing.label}
            return common | shape | _in_time(thing.positions, keep, digits)
        case Curve():
            look = {"role": thing.role, "dashed": thing.dashed, "width": thing.width}
            return common | look | {"label": thing.label} | _in_time(thing.points, keep, digits)
        case Trail():
            look = {"role": thing.role, "label": thing.label}
            return common | look | {"data": _rounded_list(thing.points[keep], digits)}
        case Arrow():
            arrow = thing.vector[keep] * thing.scale
            return common | {
                "role": thing.role,
                "label": thing.label,
                "origin": _rounded_list(thing.origin[keep], digits),
                "vector": _rounded_list(arrow, digits),
            }
