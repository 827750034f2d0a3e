"""A scene at one time as a matplotlib figure, with the same camera and the same shell of the ball as in the page."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from jaxhamel.viz._figures._canvas import canvas
from jaxhamel.viz._scene import Arrow, Curve, Points, Pose, Scene, Sphere, Thing, Trail, Triad
from jaxhamel.viz._style import LIGHT, MATPLOTLIB

FOCAL = 1.9
DISTANCE = 2.9  # of the camera from its target with zoom 1, relative to the extent of the scene
SHELL_PIXELS = 700


@dataclass(frozen=True)
class Camera:
    """A pinhole camera at the point `eye`; the rows of `axes` are its directions right, up and forward."""

    eye: np.ndarray
    axes: np.ndarray

    @classmethod
    def looking_at(cls, target: np.ndarray, view: Sequence[float], distance: float) -> "Camera":
        azimuth, elevation = np.radians(view)
        (sa, ca), (se, ce) = (
            (np.sin(azimuth), np.cos(azimuth)),
            (np.sin(elevation), np.cos(elevation)),
        )
        axes = np.array([[-sa, ca, 0.0], [-se * ca, -se * sa, ce], [-ce * ca, -ce * sa, -se]])
        return cls(target - distance * axes[2], axes)

    def see(self, points: np.ndarray) -> np.ndarray:
        """Camera coordinates (right, up, depth) of points `(..., 3)`."""
        return (points - self.eye) @ self.axes.T

    def project(self, points: np.ndarray) -> np.ndarray:
        """Picture coordinates `(..., 2)` of points `(..., 3)`; the picture reaches one unit above and below its centre."""
        seen = self.see(points)
        return FOCAL * 2.0 * seen[..., :2] / seen[..., 2:]


def snapshot(
    scene: Scene,
    time: float | None = None,
    *,
    zoom: float = 1.0,
    size: tuple[float, float] = (9.0, 5.0),
    view: tuple[float, float] | None = None,
    target: Sequence[float] | None = None,
) -> Figure:
    """A figure of the scene at one time.

    **Arguments:**

    - `time`: the time [s]; the scene is drawn at the nearest of its times, by default at its last one.
    - `zoom`: magnification; with 1 the camera is 2.9 times `scene.extent` away.
    - `size`: width and height in inches.
    - `view`: azimuth and elevation of the camera in degrees, by default those of the scene.
    - `target`: the point at the centre of the view [m], `(3,)`, by default the scene's focus at that time.
    """
    with rc_context(MATPLOTLIB):
        figure = canvas(*size, layout=None)
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        draw_scene(axes, scene, time, zoom=zoom, shape=size, view=view, target=target)
    return figure


def draw_scene(
    axes: Axes,
    scene: Scene,
    time: float | None = None,
    *,
    zoom: float = 1.0,
    shape: tuple[float, float] = (1.0, 1.0),
    view: tuple[float, float] | None = None,
    target: Sequence[float] | None = None,
) -> None:
    """Draws the scene at one time into axes whose width and height have the ratio of the two numbers in `shape`.

    The other arguments are those of `snapshot`.
    """
    i = len(scene.ts) - 1 if time is None else int(np.argmin(np.abs(scene.ts - time)))
    distance = DISTANCE * scene.extent / zoom
    aim = scene.focus[i] if target is None else np.asarray(target, dtype=float)
    camera = Camera.looking_at(aim, scene.view if view is None else view, distance)
    axes.axis("off")
    wide = shape[0] / shape[1]
    axes.set(xlim=(-wide, wide), ylim=(-1.0, 1.0))
    if scene.ground is not None:
        _ground(axes, camera, aim, distance, scene)
    for thing in scene.things:
        _draw(axes, camera, thing, i)


def framed(
    scene: Scene, times: Sequence[float], *, margin: float = 0.1
) -> tuple[tuple[float, float, float], float]:
    """The target and the zoom with which the bodies and trails of a scene fill a square picture at all of the given times.

    **Arguments:** `times` [s]; `margin`: the width of the margin, relative to half of the picture's width.
    """
    frames = [int(np.argmin(np.abs(scene.ts - time))) for time in times]
    points = np.concatenate(
        [x for i in frames for thing in scene.things for x in _outline(thing, i)]
    )
    target = 0.5 * (points.min(axis=0) + points.max(axis=0))
    distance = DISTANCE * scene.extent
    for _ in range(20):  # the perspective changes with the distance: a fixed-point iteration
        camera = Camera.looking_at(target, scene.view, distance)
        low, high = camera.project(points).min(axis=0), camera.project(points).max(axis=0)
        aside = 0.5 * (low + high) * distance / (2.0 * FOCAL)
        target = target + aside @ camera.axes[:2]
        distance *= 0.5 * float(np.max(high - low)) / (1.0 - margin)
        distance = max(distance, float(np.max((points - target) @ -camera.axes[2])) * 1.05)
    return (
        float(target[0]),
        float(target[1]),
        float(target[2]),
    ), DISTANCE * scene.extent / distance


def _outline(thing: Thing, i: int) -> Iterator[np.ndarray]:
    """Yields the points `(P, 3)` of an object that must lie in a picture of the i-th time; none of an arrow."""
    match thing:
        case Sphere(radius=radius, pose=pose):
            yield pose.position[i] + 1.2 * radius * np.concatenate([np.eye(3), -np.eye(3)])
        case Points(positions=positions, pose=pose) | Curve(points=positions, pose=pose):
            yield _placed(positions, pose, i)
        case Trail(points=points):
            yield points
        case Triad(length=length, pose=pose):
            yield _placed(length * np.eye(3), pose, i)


def _draw(axes, camera: Camera, thing: Thing, i: int) -> None:
    match thing:
        case Sphere(radius=radius, pose=pose):
            _shell(axes, camera, radius, pose, i)
        case Points():
            _balls(axes, camera, thing, i)
        case Curve():
            _curve(axes, camera, thing, i)
        case Trail(points=points, role=role):
            _draw_line(axes, camera, points, role, 1.0, 0, alpha=0.3)
            _draw_line(axes, camera, points[: i + 1], role, 2.4, 0)
        case Arrow():
            tip = thing.origin[i] + thing.scale * thing.vector[i]
            _arrow(axes, camera, thing.origin[i], tip, thing.role)
        case Triad(length=length, pose=pose):
            for k, role in enumerate(("series1", "series2", "series3")):
                ends = _placed(np.stack([np.zeros(3), length * np.eye(3)[k]]), pose, i)
                _arrow(axes, camera, ends[0], ends[1], role)


def _curve(axes, camera: Camera, curve: Curve, i: int) -> None:
    points = _placed(curve.points, curve.pose, i)
    depth = 0 if curve.pose is None else camera.see(points).mean(0)[2]
    dashes = (4, 3) if curve.dashed else (None, None)
    _draw_line(axes, camera, points, curve.role, curve.width, depth, dashes=dashes)


def _placed(points: np.ndarray, pose: Pose | None, i: int) -> np.ndarray:
    """The points in the space frame at the i-th time."""
    now = points[i] if points.ndim == 3 else points
    return now if pose is None else now @ _matrix(pose.quaternion[i]).T + pose.position[i]


def _matrix(q: np.ndarray) -> np.ndarray:
    w, x, y, z = q / np.linalg.norm(q)
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def _draw_line(axes, camera, points, role, width, depth, **look) -> None:
    """Draws the part of a polyline in front of the camera. It covers all objects with a larger `depth`; with depth 0 it is
    covered by all.
    """
    seen = camera.see(points)
    flat = np.where(seen[:, 2:] > 0.02 * np.abs(seen).max(), camera.project(points), np.nan)
    axes.plot(*flat.T, color=LIGHT[role], linewidth=width, zorder=-depth if depth else -1e6, **look)


def _balls(axes, camera: Camera, thing: Points, i: int) -> None:
    places = _placed(thing.positions, thing.pose, i)
    for k, place in enumerate(places):
        role = thing.roles[k] if thing.roles else f"series{k % 6 + 1}"
        depth = camera.see(place)[2]
        _sphere_image(axes, camera, place, thing.radius, np.eye(3), _solid(LIGHT[role]), -depth, 80)


def _arrow(axes, camera: Camera, start, end, role: str) -> None:
    a, b = camera.project(start), camera.project(end)
    look = {"arrowstyle": "-|>", "color": LIGHT[role], "lw": 2.2, "shrinkA": 0, "shrinkB": 0}
    place = {"xytext": a, "arrowprops": {**look, "mutation_scale": 16}, "annotation_clip": False}
    axes.annotate("", b, zorder=-camera.see(end)[2], **place)


def _ground(axes, camera: Camera, aim, distance: float, scene: Scene) -> None:
    """Draws the grid on the ground as in the page: its spacing is 1, 2 or 5 times a power of ten, and it fades with the
    distance from the point `aim`.
    """
    raw = 1.6 * distance / 15
    power = 10.0 ** np.floor(np.log10(raw))
    step = power * next(k for k in (1, 2, 5, 10) if k * power >= raw)
    middle = np.round(aim[:2] / step)
    for i in range(-15, 16):
        for k in range(-15, 15, 3):
            fade = 1.0 - np.hypot(i, k + 1.5) / 15
            if fade > 0:
                for swap in (False, True):
                    cell = np.array([[i, k], [i, k + 3]])[:, :: -1 if swap else 1] + middle
                    ends = np.column_stack([step * cell, np.full(2, scene.ground)])
                    _draw_line(axes, camera, ends, "line", 0.8, 0, alpha=fade)


def _shell(axes, camera: Camera, radius: float, pose: Pose, i: int) -> None:
    centre, matrix = pose.position[i], _matrix(pose.quaternion[i])
    depth = camera.see(centre)[2]
    _shadow(axes, camera, centre, radius)
    for side, order in (("back", -depth - radius), ("front", -depth + radius)):
        _sphere_image(
            axes, camera, centre, radius, matrix, _octants(side), order, SHELL_PIXELS, side
        )


def _shadow(axes, camera: Camera, centre, radius: float) -> None:
    angle = np.linspace(0, 2 * np.pi, 60)
    ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
    low = centre - np.array([0.0, 0.0, radius])
    for share in np.arange(1.0, 0.2, -0.06):
        flat = camera.project(low + share * radius * ring)
        axes.fill(*flat.T, color="black", alpha=0.022, linewidth=0, zorder=-1e5)


def _sphere_image(axes, camera, centre, radius, matrix, paint, order, pixels, side="front") -> None:
    """Draws a sphere: a ray through every pixel of a square around it hits its front or back side at a point, whose colour
    `paint` gives.
    """
    c = camera.see(centre)
    squared = c @ c - radius**2
    half = 1.08 * 2.0 * FOCAL * radius / np.sqrt(c[2] ** 2 - radius**2)
    x0, y0 = camera.project(centre)
    grid = np.linspace(-half, half, pixels)
    rays = np.stack(
        [*np.meshgrid(x0 + grid, y0 + grid), np.full((pixels, pixels), 2.0 * FOCAL)], -1
    )
    rays = rays / (2.0 * FOCAL)
    a, b = np.sum(rays**2, -1), rays @ c
    inside = b**2 - a * squared
    root = np.sqrt(np.maximum(inside, 0.0)) * (1.0 if side == "back" else -1.0)
    normal = (((b + root) / a)[..., None] * rays - c) / radius
    coverage = np.clip(0.46 * pixels * inside / (2 * a * radius**2), 0.0, 1.0)
    facing = np.abs(root) / (np.sqrt(a) * radius)
    colour = paint(normal, normal @ (camera.axes @ matrix), facing, pixels)
    colour[..., 3] *= coverage
    box = (x0 - half, x0 + half, y0 - half, y0 + half)
    axes.imshow(
        np.clip(colour, 0, 1),
        extent=box,
        origin="lower",
        zorder=order,
        interpolation="bilinear",
        aspect="auto",
    )


def _lit(normal: np.ndarray) -> np.ndarray:
    """The brightness of a surface with the given normals, in camera coordinates, under a light from the upper left."""
    return np.maximum(0.0, normal @ np.array([-0.42, 0.68, -0.6]))


def _solid(colour: str):
    """The paint of a small ball: one colour, shaded, with a highlight."""

    def paint(normal, body, facing, pixels):
        lit = _lit(normal)[..., None]
        shaded = np.asarray(to_rgb(colour)) * (0.55 + 0.5 * lit)
        shaded = shaded + (1 - shaded) * 0.8 * lit**20
        return np.concatenate([shaded, np.ones_like(lit)], axis=-1)

    return paint


def _octants(side: str):
    """The paint of a sphere, as in the page: octants in two tints, three great circles, a rim and a highlight."""
    front = side == "front"

    def paint(normal, body, facing, pixels):
        odd = np.logical_xor.reduce(body > 0, axis=-1)
        line = np.clip(pixels / 260 + 0.5 - np.abs(body).min(-1) * 0.46 * pixels, 0, 1) * (
            0.9 if front else 0.28
        )
        lit = _lit(normal) * (1.0 if front else 0.3)
        shine = lit**24 if front else 0.0 * lit
        alpha = (
            np.where(odd, 0.34, 0.12) + 0.45 * (1 - facing) ** 2
            if front
            else np.where(odd, 0.16, 0.05)
        )
        alpha = alpha + line * (1 - alpha)
        share = (line / alpha)[..., None]
        tint = np.where(odd[..., None], to_rgb(LIGHT["series1"]), (1.0, 1.0, 1.0))
        base = (
            tint * (0.66 + 0.42 * lit[..., None]) * (1 - share)
            + np.asarray(to_rgb(LIGHT["path"])) * share
        )
        base = base + (1 - base) * 0.85 * shine[..., None]
        return np.concatenate([base, np.minimum(1, alpha + 0.7 * shine)[..., None]], axis=-1)

    return paint
