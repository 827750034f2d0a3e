"""Figures of many motions: fans of paths, end points, coordinates over time, histograms."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse
from numpy import ndarray

from jaxhamel._words import counted
from jaxhamel.viz._figures._canvas import (
    canvas,
    ground_axes,
    legend_above,
    one_plot,
    styled,
    time_axis,
)
from jaxhamel.viz._style import LIGHT, MATPLOTLIB, in_label, roles

MARGIN_OF_PATH = 0.35  # width of the margin around a reference, relative to its size
HEADING = {"size": MATPLOTLIB["axes.titlesize"], "weight": MATPLOTLIB["axes.titleweight"]}
MOST_COORDINATES = 12  # the largest number of coordinates that are drawn
MOST_BINS = 70  # the largest number of bins in a histogram

# of the points x of a two-dimensional standard normal distribution, 50 % and 95 % have |x|² below these values
SHARES = {"50 %": 2.0 * np.log(2.0), "95 %": 2.0 * np.log(20.0)}
LONG = 18  # number of characters that fit under a histogram
DOTS = 10_000  # the largest number of dots drawn; a million would take a gigabyte of memory


@styled
def fan_figure(
    paths: Float[ndarray, "B T 2"],
    nominal: Float[ndarray, "T 2"] | None = None,
    *,
    title: str = "Paths",
    unit: str = "m",
    labels: tuple[str, str] = ("x", "y"),
) -> Figure:
    """Many paths in a plane as thin lines, and the nominal one; both axes have the same scale.

    **Arguments:** `paths`: the paths [m], `(B, T, 2)`, NaN after a path has ended early; `nominal`: the nominal path [m],
    `(T, 2)`.
    """
    figure, axes = one_plot()
    alpha = float(np.clip(20.0 / max(len(paths), 1), 0.12, 0.6))
    for path in paths:
        axes.plot(*path.T, color=LIGHT["series1"], alpha=alpha, linewidth=0.9)
    axes.plot([], [], color=LIGHT["series1"], label=f"{counted(len(paths), 'trajectory')}")
    if nominal is not None:
        axes.plot(*nominal.T, color=LIGHT["ink"], label="nominal")
    ground_axes(axes, title, unit, labels)
    legend_above(axes)
    return figure


@styled
def landing_figure(
    ends: Float[ndarray, "N 2"],
    nominal: Float[ndarray, " 2"] | None = None,
    *,
    title: str = "Where they end",
    unit: str = "m",
    labels: tuple[str, str] = ("x", "y"),
) -> Figure:
    """The end points of many paths, with the ellipses that contain 50 % and 95 % of the normal distribution with the mean
    and covariance of these points.

    The legend names the fractions of the points inside of the ellipses, which differ from 50 % and 95 % if the points are
    not normally distributed. Of more than ten thousand points only the first ten thousand are drawn; the ellipses and
    fractions refer to all of them.

    **Arguments:** `ends`: the end points of the paths that reached the end [m], `(N, 2)`; `nominal`: the end point of the
    nominal path [m], `(2,)`.
    """
    figure, axes = one_plot()
    size = float(np.clip(2000.0 / max(len(ends), 1), 1.5, 14.0))
    axes.scatter(*ends[:DOTS].T, s=size, color=LIGHT["series1"], alpha=0.5, linewidths=0)
    if len(ends) > 2:
        for (label, level), role in zip(SHARES.items(), ("series2", "force"), strict=True):
            inside = f"{label} if normal, here {100 * _share_inside(ends, level):.0f} %"
            axes.add_patch(_ellipse(ends, level, edgecolor=LIGHT[role], label=inside))
    if nominal is not None:
        axes.plot(*nominal, "+", color=LIGHT["ink"], markersize=10, label="nominal")
    ground_axes(axes, title, unit, labels)
    legend_above(axes)
    return figure


def _ellipse(points: Float[ndarray, "N 2"], level: float, **look) -> Ellipse:
    """The ellipse (x − x̄)ᵀ C⁻¹ (x − x̄) = level, with the mean x̄ and covariance C of the points."""
    values, vectors = np.linalg.eigh(np.cov(points.T))
    width, height = 2.0 * np.sqrt(np.maximum(values, 0.0) * level)
    angle = np.degrees(np.arctan2(vectors[1, 0], vectors[0, 0]))
    middle = points.mean(axis=0)
    return Ellipse(tuple(middle), width, height, angle=angle, fill=False, linewidth=1.6, **look)


def _share_inside(points: Float[ndarray, "N 2"], level: float) -> float:
    """The fraction of the points inside of the ellipse with this level, see `_ellipse`."""
    away = points - points.mean(axis=0)
    squares = np.sum(away * (away @ np.linalg.pinv(np.cov(points.T))), axis=1)
    return float(np.mean(squares <= level))


@styled
def growth_figure(
    ts: Float[ndarray, " T"],
    distances: Float[ndarray, "B T"],
    *,
    title: str = "Distance from the nominal path",
    unit: str = "m",
) -> Figure:
    """The distances of many trajectories from the nominal one over time, on a logarithmic scale: their median, and the bands
    that contain 50 % and 90 % of them.

    A straight line means exponential growth: the motion is unstable, and even small disturbances grow quickly.

    **Arguments:** `ts`: the times [s], `(T,)`; `distances`: the distances [m], `(B, T)`, NaN after a path has ended early.
    """
    figure, axes = one_plot()
    # without times at which all distances are zero, such as the start
    known = (np.nan_to_num(distances) > 0).any(axis=0)
    at, found = ts[known], distances[:, known]
    for low, high, alpha in ((0.05, 0.95, 0.18), (0.25, 0.75, 0.3)):
        below, above = (np.nanquantile(found, share, axis=0) for share in (low, high))
        label = f"{100 * (high - low):.0f} % of them"
        axes.fill_between(
            at, below, above, color=LIGHT["series1"], alpha=alpha, linewidth=0, label=label
        )
    axes.plot(at, np.nanmedian(found, axis=0), color=LIGHT["series1"], label="median")
    axes.set_yscale("log")
    time_axis(axes, ts, title, f"distance / {in_label(unit)}")
    legend_above(axes)
    return figure


@styled
def coordinates_figure(
    ts: Float[ndarray, " T"],
    values: Float[ndarray, "B T n"],
    nominal: Float[ndarray, "T n"],
    names: Sequence[str],
    *,
    title: str = "Coordinates of the trajectories",
) -> Figure:
    """Each coordinate of many trajectories over time; that of the nominal one is dashed.

    A line is the median over the trajectories; a band contains 90 % of them. At most twelve coordinates are drawn.

    **Arguments:** `ts`: the times [s], `(T,)`; `values`: the n coordinates, `(B, T, n)`, NaN after a trajectory has ended
    early; `nominal`: the coordinates of the nominal trajectory, `(T, n)`; `names`: the name of each coordinate, with its
    unit.
    """
    one = ((values, "series1", ""),)
    return coordinate_panels(ts, one, nominal, "nominal", names, title, around=False)


def coordinate_panels(
    ts: Float[ndarray, " T"],
    bands: Sequence[tuple[Float[ndarray, "B T n"], str, str]],
    reference: Float[ndarray, "T n"],
    reference_name: str,
    names: Sequence[str],
    title: str,
    around: bool = True,
) -> Figure:
    """A figure with a panel for each of at most `MOST_COORDINATES` coordinates: bands over time, and the reference, dashed.

    **Arguments:** `bands`: the values, the colour's role and the label of each band; `around`: whether the panels show the
    neighbourhood of the reference only.
    """
    count = min(len(names), MOST_COORDINATES)
    columns = 1 if count < 3 else 2
    rows = -(-count // columns)
    figure = canvas(height=max(3.7, 1.0 + 1.6 * rows))
    for i, name in enumerate(names[:count]):
        axes = figure.add_subplot(rows, columns, i + 1)
        for values, role, label in bands:
            band(axes, ts, values[..., i], role, label)
        axes.plot(
            ts, reference[:, i], "--", color=LIGHT["ink"], linewidth=1.2, label=reference_name
        )
        if around:
            _limit_ordinate(axes, reference[:, i])
        time_axis(axes, ts, "", name, last=i + columns >= count)
    lines, labels = figure.axes[0].get_legend_handles_labels()
    heading = {"title": title, "title_fontproperties": HEADING, "alignment": "left"}
    figure.legend(lines, labels, loc="outside upper left", ncols=3, **heading)
    return figure


def _limit_ordinate(axes: Axes, plan: Float[ndarray, " T"]) -> None:
    """Limits the ordinate to the neighbourhood of the plan, unless the plan is constant."""
    low, high = float(np.min(plan)), float(np.max(plan))
    if high - low > 1e-6 * max(abs(low), abs(high)):
        room = MARGIN_OF_PATH * (high - low)
        axes.set_ylim(low - room, high + room)


def band(axes: Axes, ts: ndarray, values: ndarray, role: str, label: str) -> None:
    """Draws the median of values `(B, T)` over time, and the band that contains 90 % of them, in the colour of the role."""
    known = np.isfinite(values).any(axis=0)
    if not known.any():
        return
    at, found = ts[known], values[:, known]
    low, middle, high = np.nanquantile(found, (0.05, 0.5, 0.95), axis=0)
    axes.fill_between(at, low, high, color=LIGHT[role], alpha=0.22, linewidth=0)
    axes.plot(at, middle, color=LIGHT[role], label=": ".join(filter(None, (label, "median, 90 %"))))


def _histogram_range(x: Float[ndarray, " N"]) -> tuple[float, float]:
    """The range of a histogram: that of the middle 90 % of the values, widened fourfold, but not beyond all values. So a few
    outliers do not compress the histogram.

    For a normal distribution the widened range reaches 6.6 standard deviations to either side.
    """
    low, high = np.quantile(x, (0.05, 0.95))
    if high == low:  # nearly all values are equal: show the full range
        low, high = x.min(), x.max()
    room = 1.5 * (high - low)
    return max(float(x.min()), low - room), min(float(x.max()), high + room)


def _bins(x: Float[ndarray, " N"], shown: tuple[float, float]) -> int:
    """The number of bins by the rule of Freedman and Diaconis or by that of Sturges, whichever is larger; at most
    `MOST_BINS`.
    """
    span, width = shown[1] - shown[0], 2 * np.ptp(np.quantile(x, (0.25, 0.75))) / np.cbrt(len(x))
    if span >= MOST_BINS * width:
        return MOST_BINS
    return min(int(np.ceil(max(span / width, np.log2(len(x)) + 1))), MOST_BINS)


def _without_overlap(cell: Axes) -> None:
    """Labels only the first and the last tick if the numbers are long, so that they do not overlap."""
    low, high = cell.get_xlim()
    ticks = [tick for tick in cell.get_xticks() if low <= tick <= high]
    texts = cell.xaxis.get_major_formatter().format_ticks(ticks)
    if sum(map(len, texts)) > LONG:
        cell.set_xticks(ticks[:: max(len(ticks) - 1, 1)])


@styled
def histograms_figure(
    values: Mapping[str, Float[ndarray, " N"]], *, title: str = "Distribution of the results"
) -> Figure:
    """A histogram of each quantity, with lines at its median and at its quantiles of 5 % and 95 %.

    **Arguments:** `values`: finite values of each quantity, `(N,)`, by the label of the axis.
    """
    columns = min(len(values), 3)
    rows = -(-len(values) // columns)
    figure = canvas(height=1.9 * rows + 0.5)
    cells = np.ravel(figure.subplots(rows, columns, squeeze=False))
    for cell, (label, x), role in zip(cells, values.items(), roles(len(values)), strict=False):
        shown = _histogram_range(x)
        cell.hist(x, bins=_bins(x, shown), range=shown, color=LIGHT[role], alpha=0.75)
        for p in (0.05, 0.5, 0.95):
            look = "-" if p == 0.5 else ":"
            cell.axvline(np.quantile(x, p), color=LIGHT["ink"], linestyle=look, linewidth=1.1)
        beyond = np.count_nonzero((x < shown[0]) | (x > shown[1]))
        cell.set(xlabel=f"{label}\n({beyond} not shown)" if beyond else label, yticks=[])
        # matplotlib's offset text ("1e-6+2.04e-2") would overlap with the label
        cell.ticklabel_format(axis="x", useOffset=False)
        cell.locator_params(axis="x", nbins=2)
        _without_overlap(cell)
    for cell in cells[len(values) :]:
        cell.set_visible(False)
    figure.suptitle(title, x=0.01, ha="left", fontsize=11, fontweight="bold")
    return figure
