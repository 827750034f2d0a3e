"""Figures of closed loops: paths and errors of many robots, with feedback and without."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from numpy import ndarray

from jaxhamel.viz._figures._canvas import (
    ground_axes,
    legend_above,
    one_plot,
    styled,
    time_axis,
)
from jaxhamel.viz._figures._ensembles import MARGIN_OF_PATH, band, coordinate_panels
from jaxhamel.viz._style import LIGHT, in_label

WIDE = 10.0  # values of which the largest is this many times the smallest are drawn on a logarithmic scale
WIDTH = 1.4  # the least width of the picture of paths, relative to its height


@styled
def held_paths_figure(
    closed: Float[ndarray, "B T 2"],
    open_loop: Float[ndarray, "C T 2"],
    reference: Float[ndarray, "S 2"],
    *,
    title: str = "Paths with feedback and without",
    unit: str = "m",
    labels: tuple[str, str] = ("x", "y"),
) -> Figure:
    """The paths of robots with feedback, drawn over those of the same robots without; the reference path is dashed.

    Both axes have the same scale. The picture shows the neighbourhood of the reference path.

    **Arguments:** `closed`, `open_loop`: the paths with feedback, `(B, T, 2)`, and without, `(C, T, 2)`, in m; NaN after a
    path has ended early. `reference`: points of the reference path [m], `(S, 2)`. `unit`, `labels`: of the two axes.
    """
    figure, axes = one_plot()
    low, high = reference.min(axis=0), reference.max(axis=0)
    room = MARGIN_OF_PATH * float(np.max(high - low))
    for paths, role, label in (
        (open_loop, "series2", "open loop"),
        (closed, "series1", "with feedback"),
    ):
        alpha = float(np.clip(20.0 / max(len(paths), 1), 0.1, 0.6))
        for path in paths:
            axes.plot(
                *_within_picture(path, low - 2 * room, high + 2 * room).T,
                color=LIGHT[role],
                alpha=alpha,
                linewidth=0.8,
            )
        axes.plot([], [], color=LIGHT[role], label=f"{len(paths)} {label}")
    axes.plot(*reference.T, "--", color=LIGHT["ink"], linewidth=1.2, label="plan")
    ground_axes(axes, title, unit, labels)
    axes.set_aspect("equal", adjustable="box")
    wide = max(0.0, WIDTH * float(high[1] - low[1] + 2 * room) - float(high[0] - low[0]))
    axes.set_xlim(low[0] - max(room, 0.5 * wide), high[0] + max(room, 0.5 * wide))
    axes.set_ylim(low[1] - room, high[1] + room)
    legend_above(axes)
    return figure


def _within_picture(
    path: Float[ndarray, "T 2"], low: ndarray, high: ndarray
) -> Float[ndarray, "T 2"]:
    """The path with NaN in place of points far outside of the picture, which would only make the page's file larger."""
    with np.errstate(invalid="ignore"):
        far = ~np.all((path > low) & (path < high), axis=1, keepdims=True)
    return np.where(far, np.nan, path)


@styled
def consistency_figure(
    ts: Float[ndarray, " K"],
    mean: Float[ndarray, " K"],
    band: tuple[float, float],
    title: str = "Errors of the estimates, mean over the robots",
) -> Figure:
    """The mean of the normalised squared errors ε = δ·P⁻¹ δ / d of many estimates over time.

    **Arguments:** `ts`: the times [s], `(K,)`; `mean`: the mean of ε, `(K,)`; `band`: the limits of 95 % of such means if
    the estimator is consistent; `title`.
    """
    figure, axes = one_plot()
    label = "95 % of the means of a consistent estimator"
    axes.axhspan(*band, color=LIGHT["series2"], alpha=0.25, linewidth=0, label=label)
    shown = np.where(np.isfinite(mean) & (mean > 0), mean, np.nan)
    axes.plot(ts, shown, color=LIGHT["series1"], linewidth=1.0, label="estimator of the robots")
    if np.nanmax(shown, initial=band[1]) > WIDE * np.nanmin(shown, initial=band[0]):
        axes.set_yscale("log")
    time_axis(axes, ts, title, "δ·P⁻¹ δ / d")
    legend_above(axes)
    return figure


@styled
def held_errors_figure(
    ts: Float[ndarray, " T"],
    closed: Float[ndarray, "B T"],
    open_loop: Float[ndarray, "C T"],
    *,
    title: str = "Distance from the reference path",
    unit: str = "m",
    names: tuple[str, str] = ("with feedback", "open loop"),
) -> Figure:
    """The tracking errors of many robots over time, with feedback and without, on a logarithmic scale.

    A line is the median over the robots; a band contains 90 % of them.

    **Arguments:** `ts`: the times [s], `(T,)`; `closed`, `open_loop`: the errors with feedback, `(B, T)`, and without,
    `(C, T)`, in `unit`; NaN after a motion has ended early; `names`: those in the legend, for example of two laws.
    """
    figure, axes = one_plot()
    band(axes, ts, _positive_errors(open_loop), "series2", names[1])
    band(axes, ts, _positive_errors(closed), "series1", names[0])
    axes.set_yscale("log")
    time_axis(axes, ts, title, f"distance / {in_label(unit)}" if unit else "distance")
    legend_above(axes)
    return figure


@styled
def held_coordinates_figure(
    ts: Float[ndarray, " T"],
    closed: Float[ndarray, "B T n"],
    open_loop: Float[ndarray, "C T n"],
    plan: Float[ndarray, "T n"],
    names: Sequence[str],
    *,
    title: str = "Coordinates of the robots",
) -> Figure:
    """Each coordinate of many robots over time, with feedback and without; the plan is dashed.

    A line is the median over the robots; a band contains 90 % of them. The picture shows the neighbourhood of the plan,
    which robots without feedback may leave. At most twelve coordinates are drawn.

    **Arguments:** `ts`: the times [s], `(T,)`; `closed`, `open_loop`: the n coordinates with feedback, `(B, T, n)`, and
    without, `(C, T, n)`, NaN after a motion has ended early; `plan`: the coordinates of the plan, `(T, n)`; `names`: the
    name of each coordinate, with its unit.
    """
    bands = ((open_loop, "series2", "open loop"), (closed, "series1", "with feedback"))
    return coordinate_panels(ts, bands, plan, "plan", names, title)


@styled
def region_figure(
    first: Float[ndarray, " A"],
    second: Float[ndarray, " B"],
    held: Bool[ndarray, "A B"],
    *,
    boundary: Float[ndarray, "S 2"] | None = None,
    paths: Sequence[Float[ndarray, "T 2"]] = (),
    title: str = "Where the controller holds",
    labels: tuple[str, str] = ("a", "b"),
) -> Figure:
    """The region of initial states from which a controller holds the system: a cell of the grid is blue if it does, and grey
    if it does not.

    **Arguments:**

    - `first`, `second`: the values on the abscissa and the ordinate, `(A,)` and `(B,)`, and `held`: whether the controller
      holds, `(A, B)`: `values` and `held` of a `jaxhamel.control.Region`.
    - `boundary`: points of the boundary of a known region, `(S, 2)`, which is dashed.
    - `paths`: motions in the plane of the grid, `(T, 2)` each.
    - `labels`: the labels of the two axes, with units.
    """
    figure, axes = one_plot()
    held = np.asarray(held, dtype=bool)
    axes.grid(False)
    for mask, role, label in ((held, "series1", "held"), (~held, "reference", "lost")):
        colours = ListedColormap([LIGHT[role]])
        shown = np.ma.masked_where(~mask.T, np.ones(mask.T.shape))
        axes.pcolormesh(first, second, shown, cmap=colours, alpha=0.45, shading="nearest")
        share = f"{label}: {100 * np.mean(mask):.3g} %"
        axes.fill_between([], [], color=LIGHT[role], alpha=0.45, linewidth=0, label=share)
    low, high = axes.get_xlim(), axes.get_ylim()
    for path in paths:
        axes.plot(*path.T, color=LIGHT["ink"], linewidth=0.9, alpha=0.8)
        axes.plot(*path[0], "o", color=LIGHT["ink"], markersize=3)
    if boundary is not None:
        axes.plot(*boundary.T, "--", color=LIGHT["force"], linewidth=1.8, label="known boundary")
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1], xlim=low, ylim=high)
    legend_above(axes)
    return figure


def _positive_errors(errors: Float[ndarray, "B T"]) -> Float[ndarray, "B T"]:
    """The errors, with NaN at times at which none is positive, since a logarithmic axis cannot show zero."""
    return np.where((np.nan_to_num(errors) > 0).any(axis=0), errors, np.nan)
