"""Figures of a connection on its shape space: vector fields, height functions, and gaits on them.

    ξ = −A(r) ṙ ,      log g ≈ ∫ B^α_12 dr¹ dr²   over the inside of a loop that turns from axis 1 to 2

Each row of −A is a vector field on shape space. A change of shape along its arrows moves the body in the component of ξ that
belongs to the row; a change of shape across the arrows does not. Each component of the curvature B is a height function. The
volume under it inside of a loop is the displacement after a cycle: to first order, and exactly on an abelian group. With
Müller's sign of B (`jaxhamel.geometry.curvature`), counter-clockwise loops around positive values give a positive
displacement.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray

from jaxhamel import _checks
from jaxhamel.geometry import AbstractSpace, curvature
from jaxhamel.viz._checks import check_gait_curve, check_names, check_planar_path, check_shape_plane
from jaxhamel.viz._figures._canvas import canvas, ground_axes, legend_above, styled
from jaxhamel.viz._style import LIGHT, roles, share_in_label

AxisLimits = tuple[tuple[float, float], tuple[float, float]]
Gaits = Mapping[str, Float[ndarray, "T m"]]
DIVERGING = LinearSegmentedColormap.from_list(
    "jaxhamel", [LIGHT["series1"], "#a9c5f2", "#ffffff", "#f0b3ba", LIGHT["force"]]
)
_GAIT_ROLES = ("ink", "series3", "series4", "series2", "series5")


@styled
def connection_figure(
    connection: Callable[..., Any],
    limits: AxisLimits,
    *,
    gaits: Gaits | None = None,
    names: Sequence[str] = ("turn", "forward", "sideways"),
    units: Sequence[str] = ("rad", "m", "m"),
    shapes: tuple[str, str] = ("r₁ / rad", "r₂ / rad"),
    plane: tuple[int, int] = (0, 1),
    at: Float[ndarray, " m"] | None = None,
    arrows: int = 15,
) -> Figure:
    """The rows of −A(r) as vector fields over a plane of shapes, with one panel for each row.

    **Arguments:**

    - `connection`: the function from the shape r `(m,)` to the matrix A `(f, m)` of ξ = −A ṙ.
    - `limits`: ((low, high), (low, high)) of the two shape coordinates.
    - `gaits`: closed curves in shape space that are drawn too, `(T, m)` each, by name.
    - `names`, `units`: name and unit of each of the f components of ξ; `shapes`: the labels of the two axes.
    - `plane`: the indices of the two shape coordinates; `at`: the values of all shape coordinates, `(m,)`, needed for m > 2.
    - `arrows`: the number of arrows along each side.

    **Raises:** `ValueError` for limits, gaits, names or planes that do not fit.
    """
    shape = _plane(limits, plane, at)
    r1, r2 = _grid(limits, arrows)
    A = np.asarray(jax.jit(jax.vmap(connection))(shape(r1, r2)))[:, :, list(plane)]
    _check_drawing(A.shape[1], names, units, gaits)
    figure, panels = _panels(A.shape[1])
    for row, axes in enumerate(panels):
        field = -A[:, row]
        size = float(np.max(np.hypot(*field.T)))
        _shape_axes(axes, limits, shapes, f"−A, {names[row]}", row)
        if size > 0:
            _arrows(axes, r1, r2, field / size, limits, arrows)
            _note(axes, f"longest arrow: {size:.3g} {units[row]} per unit")
        else:
            _note(axes, "zero everywhere")
        _draw_gaits(axes, gaits, plane)
    return _finished(figure, panels, gaits)


@styled
def curvature_figure(
    connection: Callable[..., Any],
    limits: AxisLimits,
    space: AbstractSpace,
    *,
    gaits: Gaits | None = None,
    names: Sequence[str] = ("turn", "forward", "sideways"),
    units: Sequence[str] = ("rad", "m", "m"),
    shapes: tuple[str, str] = ("r₁ / rad", "r₂ / rad"),
    plane: tuple[int, int] = (0, 1),
    at: Float[ndarray, " m"] | None = None,
    samples: int = 81,
) -> Figure:
    """The height functions B^α_12(r) over a plane of shapes, with one panel for each α and a line where the height is zero.

    **Arguments:** those of `connection_figure`; `space`: the group, whose bracket is part of the curvature; `samples`: the
    number of grid points along each side. **Raises:** as `connection_figure`.
    """
    shape = _plane(limits, plane, at)
    r1, r2 = _grid(limits, samples)
    of_shape = jax.jit(jax.vmap(lambda r: curvature(connection, r, space)))
    B = np.asarray(of_shape(shape(r1, r2)))[:, :, plane[0], plane[1]]
    _check_drawing(B.shape[1], names, units, gaits)
    figure, panels = _panels(B.shape[1])
    for row, axes in enumerate(panels):
        height = B[:, row].reshape(samples, samples)
        size = float(np.max(np.abs(height)))
        if size > 1e-12:
            _contours(figure, axes, r1, r2, height, f"{units[row]} per unit area")
        else:
            _note(axes, "zero everywhere")
        _shape_axes(axes, limits, shapes, f"B, {names[row]}", row)
        _draw_gaits(axes, gaits, plane)
    return _finished(figure, panels, gaits)


@styled
def gait_figure(
    path: Float[ndarray, "T 3"],
    cycles: float,
    *,
    length: float | None = None,
    poses: int = 13,
    title: str = "Path of the body",
) -> Figure:
    """The planar motion of a body under a gait: its path with some poses, and (x, y) and the angle over the cycles.

    **Arguments:**

    - `path`: poses (angle, x, y) [rad, m] at equal intervals of time, `(T, 3)`, for example from `control.gait_motion` on
      `SE2`.
    - `cycles`: the number of cycles in the path.
    - `length`: the length of the stick that represents the body [m], by default a tenth of the path's size.
    - `poses`: the number of sticks.

    **Raises:** `ValueError` for a path of another shape, and for `cycles` that is not positive.
    """
    path = np.asarray(path)
    check_planar_path("path", path)
    _checks.check_positive("cycles", cycles, "Give the number of cycles in `path`.")
    figure = canvas(8.2, 3.7)
    plane, position, angle = _gait_axes(figure)
    plane.plot(path[:, 1], path[:, 2], color=LIGHT["path"], label="centre")
    span = float(np.max(np.ptp(path[:, 1:], axis=0)))
    _sticks(plane, path, poses, length or (span / 10 if span > 0 else 1.0))
    ground_axes(plane, title, "m")
    time = np.linspace(0.0, cycles, len(path))
    for column, name, role in zip(path.T[1:], ("x", "y"), roles(2), strict=True):
        position.plot(time, column, color=LIGHT[role], label=name)
    position.set(title="Displacement", ylabel="x, y / m")
    angle.plot(time, path[:, 0], color=LIGHT["series3"])
    angle.set(xlabel="cycles", ylabel="angle / rad")
    for axes in (position, angle):
        axes.set_xlim(0, cycles)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        share_in_label(axes.yaxis)
    position.tick_params(labelbottom=False)
    legend_above(position)
    return figure


def _plane(limits: AxisLimits, plane: tuple[int, int], at) -> Callable[..., Any]:
    """The function from the two drawn shape coordinates r1, r2 `(N,)` to the shapes `(N, m)` in the plane through `at`."""
    check_shape_plane(limits, plane, at)
    base = np.zeros(2) if at is None else np.asarray(at, dtype=float)

    def shapes(r1: np.ndarray, r2: np.ndarray):
        points = np.tile(base, (r1.size, 1))
        points[:, plane[0]], points[:, plane[1]] = r1, r2
        return jnp.asarray(points, dtype=jnp.result_type(float))

    return shapes


def _grid(limits: AxisLimits, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The two coordinates of all points of a grid, flattened; the first coordinate varies fastest."""
    r1, r2 = np.meshgrid(*[np.linspace(*pair, count) for pair in limits])
    return r1.ravel(), r2.ravel()


def _check_drawing(
    rows: int, names: Sequence[str], units: Sequence[str], gaits: Gaits | None
) -> None:
    """Checks that there are a name and a unit for each row of the connection, and that the gaits can be drawn."""
    check_names("names", names, rows)
    check_names("units", units, rows)
    for name, gait in (gaits or {}).items():
        check_gait_curve(name, gait)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    figure = canvas(1.1 + 3.5 * count, 3.7)
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def _arrows(axes: Axes, r1, r2, field, limits: AxisLimits, count: int) -> None:
    """Draws a vector field `(N, 2)` of lengths up to 1; an arrow of length 1 is nearly as long as the grid's spacing."""
    steps = np.array([high - low for low, high in limits]) / (count - 1)
    drawn = field * 0.9 * np.min(steps)
    axes.quiver(
        r1,
        r2,
        *drawn.T,
        np.hypot(*field.T),
        angles="xy",
        scale_units="xy",
        scale=1.0,
        pivot="mid",
        width=0.0045,
        cmap=LinearSegmentedColormap.from_list("", [LIGHT["line"], LIGHT["series1"]]),
        clim=(0.0, 1.0),
    )
    axes.grid(False)


def _contours(figure: Figure, axes: Axes, r1, r2, height, unit: str) -> None:
    """Draws the filled contours of a height function, white at zero, the line where it is zero, and a colour bar."""
    size = float(np.max(np.abs(height)))
    shape = height.shape
    grid = r1.reshape(shape), r2.reshape(shape)
    levels = np.linspace(-size, size, 22)
    filled = axes.contourf(*grid, height, levels=levels, cmap=DIVERGING, vmin=-size, vmax=size)
    if height.min() < 0 < height.max():
        axes.contour(*grid, height, levels=[0.0], colors=LIGHT["muted"], linewidths=0.9)
    bar = figure.colorbar(filled, ax=axes, label=unit, fraction=0.05, pad=0.02, aspect=24)
    bar.locator = MaxNLocator(5, symmetric=True)
    bar.update_ticks()
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]
    axes.grid(False)


def _note(axes: Axes, text: str) -> None:
    """Writes a line of text above the right end of the axes, opposite the title."""
    axes.set_title(text, loc="right", fontsize=7.5, fontweight="normal", color=LIGHT["muted"])


def _shape_axes(
    axes: Axes, limits: AxisLimits, shapes: tuple[str, str], title: str, row: int
) -> None:
    axes.set(xlim=limits[0], ylim=limits[1], xlabel=shapes[0])
    if row == 0:
        axes.set_ylabel(shapes[1])
    axes.set_title(title, fontsize=10)


def _draw_gaits(axes: Axes, gaits: Gaits | None, plane: tuple[int, int]) -> None:
    """Draws each gait, with an arrow head that shows its direction."""
    for (name, gait), role in zip((gaits or {}).items(), _cycled(len(gaits or {})), strict=True):
        x, y = np.asarray(gait)[:, plane[0]], np.asarray(gait)[:, plane[1]]
        axes.plot(x, y, color=LIGHT[role], label=name, linewidth=1.8)
        k = len(x) // 8
        tail, head = (x[k], y[k]), (x[k + 1], y[k + 1])
        style = {"arrowstyle": "-|>,head_length=0.55,head_width=0.28", "color": LIGHT[role]}
        axes.annotate("", xy=head, xytext=tail, arrowprops={**style, "shrinkA": 0, "shrinkB": 0})


def _cycled(count: int) -> list[str]:
    return [_GAIT_ROLES[i % len(_GAIT_ROLES)] for i in range(count)]


def _finished(figure: Figure, panels: list[Axes], gaits: Gaits | None) -> Figure:
    """The figure with a legend of the gaits below all panels, if there are gaits."""
    if gaits:
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, handlelength=1.6)
    return figure


def _gait_axes(figure: Figure) -> tuple[Axes, Axes, Axes]:
    """The axes of the path, of the position and of the angle."""
    grid = figure.add_gridspec(2, 2, width_ratios=(1.35, 1))
    plane = figure.add_subplot(grid[:, 0])
    position = figure.add_subplot(grid[0, 1])
    return plane, position, figure.add_subplot(grid[1, 1])


def _sticks(axes: Axes, path: np.ndarray, poses: int, length: float) -> None:
    """Draws the body at some times as a stick with a dot at its front; later sticks are darker."""
    rows = np.unique(np.linspace(0, len(path) - 1, poses).round().astype(int))
    for k, (angle, x, y) in enumerate(path[rows]):
        dx, dy = length / 2 * np.cos(angle), length / 2 * np.sin(angle)
        alpha = 0.35 + 0.65 * k / max(len(rows) - 1, 1)
        axes.plot(
            [x - dx, x + dx], [y - dy, y + dy], color=LIGHT["series2"], alpha=alpha, linewidth=2.4
        )
        axes.plot(x + dx, y + dy, "o", color=LIGHT["series2"], alpha=alpha, markersize=3.6)
