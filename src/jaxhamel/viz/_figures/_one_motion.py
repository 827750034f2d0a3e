"""Figures of one motion: its path on the ground, and quantities over time or over the iterations of a search.

Axes whose abscissa is time have the label `time`, by which the report finds them to add a moving cursor.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from numpy import ndarray

from jaxhamel.viz._figures._canvas import (
    canvas,
    ground_axes,
    legend_above,
    one_plot,
    styled,
    time_axis,
)
from jaxhamel.viz._style import DASHES, LIGHT, SERIES, in_label, roles


@styled
def path_figure(
    path: Float[ndarray, "T 2"],
    reference: Float[ndarray, "S 2"] | None = None,
    *,
    title: str = "Path on the ground",
    unit: str = "m",
    labels: tuple[str, str] = ("x", "y"),
    obstacles: Sequence[tuple[str, Float[ndarray, "P 2"]]] = (),
    heights: tuple[ndarray, ndarray, ndarray] | None = None,
) -> Figure:
    """The path (x(t), y(t)) of a point, with the reference path dashed; both axes have the same scale.

    **Arguments:**

    - `path`: points of the path [m], `(T, 2)`.
    - `reference`: points of the reference path [m], `(S, 2)`; None without one.
    - `obstacles`: (name, edge) of each obstacle; the edge is a polyline `(P, 2)` [m], whose inside is filled.
    - `heights`: (x, y, height) of uneven ground [m], `(X,)`, `(Y,)` and `(Y, X)`, for contour lines; None for a plane.
    """
    figure, axes = one_plot()
    if heights is not None:
        lines = axes.contour(*heights, levels=6, colors=LIGHT["muted"], linewidths=0.7, alpha=0.6)
        axes.clabel(lines, fontsize=7, fmt="%.3g m")
    for name, edge in obstacles:
        look = {"facecolor": LIGHT["reference"], "edgecolor": LIGHT["limit"], "alpha": 0.35}
        axes.add_patch(Polygon(edge, label=name, **look))
    if reference is not None:
        axes.plot(
            *reference.T,
            "--",
            color=LIGHT["reference"],
            label="reference",
            linewidth=2.6,
            dashes=(3, 2),
        )
    axes.plot(*path.T, color=LIGHT["path"], label="path")
    axes.plot(*path[0], "o", color=LIGHT["series3"], markersize=6, label="start")
    axes.plot(*path[-1], "s", color=LIGHT["series2"], markersize=5.5, label="end")
    ground_axes(axes, title, unit, labels)
    legend_above(axes)
    axes.set_label("path")
    return figure


@styled
def angles_figure(
    ts: Float[ndarray, " T"],
    angles: Float[ndarray, "T n"],
    *,
    title: str = "Position of the masses on their rails",
    ylabel: str = "rail parameter θ / rad",
    names: Sequence[str] = (),
) -> Figure:
    """The rail parameter θᵢ(t) of every mass over time, in the colours of the animation.

    **Arguments:** `ts`: the times [s], `(T,)`; `angles`: the rail parameters [rad], `(T, n)`; `names`: one for each mass.
    """
    names = names or [f"mass {i + 1}" for i in range(angles.shape[1])]
    return quantities_figure(ts, angles, names, title=title, ylabel=ylabel)


@styled
def quantities_figure(
    ts: Float[ndarray, " T"],
    values: Float[ndarray, "T n"],
    names: Sequence[str],
    *,
    title: str,
    ylabel: str,
) -> Figure:
    """Several quantities over time in one plot. The lines after the first six have the same colours and are dashed.

    **Arguments:** `ts`: the times [s], `(T,)`; `values`: the quantities, `(T, n)`; `names`: one for each column.
    """
    figure, axes = one_plot()
    dashes = (DASHES[i // len(SERIES) % len(DASHES)] for i in range(len(names)))
    for column, name, role, dash in zip(values.T, names, roles(len(names)), dashes, strict=True):
        axes.plot(ts, column, color=LIGHT[role], linestyle=dash, label=name)
    time_axis(axes, ts, title, ylabel)
    if len(names) > 1:
        legend_above(axes)
    return figure


@styled
def forces_figure(
    ts: Float[ndarray, " T"],
    force: Float[ndarray, "T 3"],
    *,
    weight: float | None = None,
    friction_limit: float | None = None,
    title: str = "Force of the ground",
) -> Figure:
    """The normal force N = F·e₃ and the friction coefficient |F − N e₃| / N that a motion needs, over time.

    **Arguments:**

    - `ts`: the times [s], `(T,)`.
    - `force`: the force F of the ground on the body in the space frame [N], `(T, 3)`.
    - `weight`: the weight of the body [N], drawn as a line for comparison.
    - `friction_limit`: the friction coefficient of the ground, drawn as a line.
    """
    normal, ratio = friction_needed(force)
    figure = canvas()
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(ts, normal, color=LIGHT["series1"], label="normal force")
    if weight is not None:
        above.axhline(weight, color=LIGHT["muted"], linestyle=":", linewidth=1.2, label="weight")
    _room_for_zero(above, normal)
    time_axis(above, ts, title, "normal force / N", last=False)
    below.plot(ts, ratio, color=LIGHT["force"], label="friction needed")
    if friction_limit is not None:
        below.axhline(
            friction_limit, color=LIGHT["limit"], linestyle="--", linewidth=1.2, label="limit"
        )
    below.set_ylim(bottom=0.0)
    time_axis(below, ts, "", "friction needed")
    legend_above(above)
    if friction_limit is not None:
        legend_above(below)
    return figure


@styled
def error_figure(
    ts: Float[ndarray, " T"],
    error: Float[ndarray, " T"],
    *,
    title: str = "Distance from the reference path",
    unit: str = "m",
) -> Figure:
    """The tracking error |z(t) − z_d(t)| over time, with a line at its root mean square.

    **Arguments:** `ts`: the times [s], `(T,)`; `error`: the tracking error in `unit`, `(T,)`; errors below 0.1 m are drawn
    in mm.
    """
    factor, unit = (1e3, "mm") if unit == "m" and np.max(error) < 0.1 else (1.0, unit)
    figure, axes = one_plot()
    rms = factor * root_mean_square(ts, error)
    axes.plot(ts, factor * error, color=LIGHT["series2"], label="error")
    axes.axhline(
        rms, color=LIGHT["muted"], linestyle=":", linewidth=1.2, label=f"RMS {rms:.3g} {unit}"
    )
    axes.set_ylim(bottom=0.0)
    time_axis(axes, ts, title, f"tracking error / {in_label(unit)}")
    legend_above(axes)
    return figure


@styled
def cost_figure(
    costs: Float[ndarray, " K"],
    *,
    title: str = "Cost at every iteration",
    ylabel: str = "cost",
    horizon: Float[ndarray, " K"] | None = None,
    averaged: int = 1,
) -> Figure:
    """The cost over the iterations of a search, on a logarithmic scale if they are positive and differ by a factor of 5.

    **Arguments:**

    - `costs`: the cost after each iteration, `(K,)`; entries that are not finite are left out.
    - `horizon`: the horizon on which each cost was computed [s], `(K,)`, for methods that extend it step by step.
    - `averaged`: the number of iterations over which a line averages costs that contain noise, such as those of a training;
      the costs themselves are dots then.
    """
    figure, axes = one_plot()
    iterations = np.arange(1, len(costs) + 1)
    good = np.isfinite(costs)
    if averaged > 1 and np.count_nonzero(good) >= 2 * averaged:
        _draw_average(axes, iterations[good], costs[good], averaged)
    else:
        axes.plot(
            iterations[good], costs[good], color=LIGHT["series1"], label="cost", linewidth=1.4
        )
    if good.any() and 0 < 5 * np.min(costs[good]) < np.max(costs[good]):
        axes.set_yscale("log")
    axes.set(title=title, xlabel="iteration", ylabel=ylabel)
    if axes.get_legend_handles_labels()[0][1:]:
        legend_above(axes)
    axes.locator_params(axis="x", integer=True)
    axes.margins(x=0.01)
    if horizon is not None:
        _second_axis(axes, iterations, horizon)
    axes.set_label("cost")
    return figure


def _draw_average(axes: Axes, iterations: ndarray, costs: ndarray, count: int) -> None:
    """Draws costs as dots, and a line through the means of the last `count` of them at each iteration."""
    look = {"color": LIGHT["series1"], "alpha": 0.35, "linewidth": 0}
    axes.plot(
        iterations, costs, "o", markersize=3.0, markeredgewidth=0, label="one iteration", **look
    )
    means = np.convolve(costs, np.full(count, 1.0 / count), mode="valid")
    label = f"mean of the last {count}"
    axes.plot(iterations[count - 1 :], means, color=LIGHT["ink"], linewidth=1.6, label=label)


def root_mean_square(ts: Float[ndarray, " T"], values: Float[ndarray, " T"]) -> float:
    """The root mean square √(∫ x² dt / ∫ dt) over time of a quantity x with `values` at the times `ts`, by the trapezoidal
    rule.
    """
    span = ts[-1] - ts[0]
    mean = np.trapezoid(values**2, ts) / span if span > 0 else np.mean(values**2)
    return float(np.sqrt(mean))


def friction_needed(
    force: Float[ndarray, "T 3"],
) -> tuple[Float[ndarray, " T"], Float[ndarray, " T"]]:
    """The normal force N = F·e₃ and the friction coefficient |F − N e₃| / N that a contact force F on level ground needs.

    **Arguments:** `force`: F [N], `(T, 3)`. **Returns:** N [N] and the coefficient, `(T,)` each; the coefficient is NaN
    where N ≤ 0.
    """
    normal = force[:, 2]
    tangential = np.hypot(force[:, 0], force[:, 1])
    return normal, np.where(normal > 0, tangential / np.where(normal > 0, normal, 1.0), np.nan)


def _room_for_zero(axes: Axes, values: np.ndarray) -> None:
    """Extends the ordinate to zero if the smallest normal force is below half of the largest: at zero the body leaves the
    ground.
    """
    low, high = float(np.min(values)), float(np.max(values))
    if low < 0.5 * high:
        axes.set_ylim(bottom=min(0.0, low - 0.05 * (high - low)))


def _second_axis(axes: Axes, iterations: np.ndarray, horizon: np.ndarray) -> None:
    """Adds an ordinate on the right with the horizon over the iterations."""
    other = axes.twinx()
    other.step(iterations, horizon, color=LIGHT["series2"], linewidth=1.2, where="mid")
    other.set_ylabel("horizon / s", color=LIGHT["series2"])
    other.grid(False)
