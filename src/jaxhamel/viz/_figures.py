"""Figures from arrays: one function for each kind of figure.

Each returns a `matplotlib.figure.Figure`, made without pyplot and its global state; `save` writes it as PNG. Axes whose
abscissa is time have the label `time`, by which the report finds them and adds a moving cursor.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import IO, Any, Literal, ParamSpec

import numpy as np
from jaxtyping import Float
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from matplotlib.patches import Circle
from numpy import ndarray

from jaxhamel._words import visible
from jaxhamel.viz._style import LIGHT, MATPLOTLIB, roles, share_in_label

P = ParamSpec("P")
LARGEST_DRAWN = 1e290  # of the numbers that are drawn
LayoutName = Literal["constrained"] | None


def _styled(make: Callable[P, Figure]) -> Callable[P, Figure]:
    """Runs `make` with the package's style, without changing the user's rcParams.

    Text arguments are shown literally: dollar signs are no formulas, and control characters are removed. Numbers that
    matplotlib's ticks would overflow with are not drawn, like NaN.
    """

    @wraps(make)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(MATPLOTLIB):
            return make(*map(_drawable, args), **{k: _drawable(x) for k, x in kwargs.items()})  # pyright: ignore

    return styled


def _drawable(value: Any) -> Any:
    """An argument as it can be drawn: literal text, and NaN for numbers beyond `LARGEST_DRAWN`."""
    if isinstance(value, ndarray) and value.dtype.kind == "f":
        return np.where(np.abs(value) <= LARGEST_DRAWN, value, np.nan)
    return _literal(value)


def _literal(value: Any) -> Any:
    """Text, also in lists and dictionaries, with escaped dollar signs."""
    if isinstance(value, str):
        return re.sub(r"(?<!\\)\$", r"\$", visible(value))
    if isinstance(value, Mapping):
        return {_literal(key): _literal(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(entry, str) for entry in value):
        return [_literal(entry) for entry in value]
    return value


@_styled
def path_figure(
    path: Float[ndarray, "T 2"],
    reference: Float[ndarray, "S 2"] | None = None,
    *,
    title: str = "Path on the ground",
    unit: str = "m",
    labels: tuple[str, str] = ("x", "y"),
    kept_clear: Sequence[tuple[float, float, float]] = (),
) -> Figure:
    """The path (x(t), y(t)) of a point, with the reference dashed; equal scales.

    **Arguments:**

    - `path`: `(T, 2)` m.
    - `reference`: `(S, 2)` m, the reference path.
    - `kept_clear`: (x, y, radius) m of circles that the path must not enter.
    """
    figure, axes = _figure()
    for x, y, radius in kept_clear:
        circle = Circle(
            (x, y), radius, facecolor=LIGHT["reference"], alpha=0.25, label="kept clear"
        )
        axes.add_patch(circle)
    if reference is not None:
        axes.plot(
            *reference.T,
            "--",
            color=LIGHT["reference"],
            label="asked",
            linewidth=2.6,
            dashes=(3, 2),
        )
    axes.plot(*path.T, color=LIGHT["path"], label="reached" if reference is not None else "path")
    axes.plot(*path[0], "o", color=LIGHT["series3"], markersize=6, label="start")
    axes.plot(*path[-1], "s", color=LIGHT["series2"], markersize=5.5, label="end")
    _ground(axes, title, unit, labels)
    _legend(axes)
    axes.set_label("path")
    return figure


@_styled
def angles_figure(
    ts: Float[ndarray, " T"],
    angles: Float[ndarray, "T n"],
    *,
    title: str = "Position of the masses on their rails",
    ylabel: str = "rail parameter θ / rad",
    names: Sequence[str] = (),
) -> Figure:
    """θᵢ(t) of every mass; colours as in the animation. `angles` is `(T, n)`, rad."""
    names = names or [f"mass {i + 1}" for i in range(angles.shape[1])]
    return quantities_figure(ts, angles, names, title=title, ylabel=ylabel)


@_styled
def quantities_figure(
    ts: Float[ndarray, " T"],
    values: Float[ndarray, "T n"],
    names: Sequence[str],
    *,
    title: str,
    ylabel: str,
) -> Figure:
    """Any quantities over time in one plot: `values` is `(T, n)`, one name for each column."""
    figure, axes = _figure()
    for column, name, role in zip(values.T, names, roles(len(names)), strict=True):
        axes.plot(ts, column, color=LIGHT[role], label=name)
    _time_axis(axes, ts, title, ylabel)
    if len(names) > 1:
        _legend(axes)
    return figure


@_styled
def forces_figure(
    ts: Float[ndarray, " T"],
    force: Float[ndarray, "T 3"],
    *,
    weight: float | None = None,
    friction_limit: float | None = None,
    title: str = "Force of the ground",
) -> Figure:
    """Normal force N = F·e₃ and the friction coefficient needed |F − N e₃| / N.

    **Arguments:**

    - `force`: `(T, 3)` N, of the ground on the body, space frame.
    - `weight`: N, drawn as a line for comparison.
    - `friction_limit`: the coefficient the ground offers, drawn as a line.
    """
    normal, ratio = friction_needed(force)
    figure = canvas()
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(ts, normal, color=LIGHT["series1"], label="normal force")
    if weight is not None:
        above.axhline(weight, color=LIGHT["muted"], linestyle=":", linewidth=1.2, label="weight")
    _room_for_zero(above, normal)
    _time_axis(above, ts, title, "normal force / N", last=False)
    below.plot(ts, ratio, color=LIGHT["force"], label="friction needed")
    if friction_limit is not None:
        below.axhline(
            friction_limit, color=LIGHT["limit"], linestyle="--", linewidth=1.2, label="limit"
        )
    below.set_ylim(bottom=0.0)
    _time_axis(below, ts, "", "friction needed")
    _legend(above)
    if friction_limit is not None:
        _legend(below)
    return figure


@_styled
def error_figure(
    ts: Float[ndarray, " T"],
    error: Float[ndarray, " T"],
    *,
    title: str = "Distance from the path asked for",
    unit: str = "m",
) -> Figure:
    """Tracking error |z(t) − z_d(t)| and its root mean square."""
    factor, unit = (1e3, "mm") if unit == "m" and np.max(error) < 0.1 else (1.0, unit)
    figure, axes = _figure()
    rms = factor * root_mean_square(ts, error)
    axes.plot(ts, factor * error, color=LIGHT["series2"], label="error")
    axes.axhline(
        rms, color=LIGHT["muted"], linestyle=":", linewidth=1.2, label=f"RMS {rms:.3g} {unit}"
    )
    axes.set_ylim(bottom=0.0)
    _time_axis(axes, ts, title, f"tracking error / {unit}")
    _legend(axes)
    return figure


@_styled
def cost_figure(
    costs: Float[ndarray, " K"],
    *,
    title: str = "Cost at every iteration",
    ylabel: str = "cost",
    horizon: Float[ndarray, " K"] | None = None,
) -> Figure:
    """Cost history, logarithmic where positive.

    **Arguments:**

    - `costs`: `(K,)`, in the order of iterations; entries that are not finite are skipped.
    - `horizon`: `(K,)` s, the horizon on which each cost was computed, for methods that grow it.
    """
    figure, axes = _figure()
    iterations = np.arange(1, len(costs) + 1)
    good = np.isfinite(costs)
    axes.plot(iterations[good], costs[good], color=LIGHT["series1"], label="cost", linewidth=1.4)
    if good.any() and np.all(costs[good] > 0):
        axes.set_yscale("log")
    axes.set(title=title, xlabel="iteration", ylabel=ylabel)
    axes.margins(x=0.01)
    if horizon is not None:
        _second_axis(axes, iterations, horizon)
    axes.set_label("cost")
    return figure


def root_mean_square(ts: Float[ndarray, " T"], values: Float[ndarray, " T"]) -> float:
    """√(∫ x² dt / ∫ dt), by the trapezoidal rule."""
    span = ts[-1] - ts[0]
    mean = np.trapezoid(values**2, ts) / span if span > 0 else np.mean(values**2)
    return float(np.sqrt(mean))


def friction_needed(
    force: Float[ndarray, "T 3"],
) -> tuple[Float[ndarray, " T"], Float[ndarray, " T"]]:
    """N = F·e₃ and |F − N e₃| / N of a contact force on level ground; the ratio is NaN if N ≤ 0."""
    normal = force[:, 2]
    tangential = np.hypot(force[:, 0], force[:, 1])
    return normal, np.where(normal > 0, tangential / np.where(normal > 0, normal, 1.0), np.nan)


def save(figure: Figure, path: Path | IO[bytes], *, dpi: int = 150) -> None:
    """Writes a figure as PNG, to a path or an open file; equal figures give equal bytes."""
    settle(figure)
    figure.savefig(path, dpi=dpi, format="png", facecolor="white", metadata={"Software": None})


def settle(figure: Figure) -> None:
    """Computes the layout once and fixes it, which halves the time for drawing, and again for each file."""
    engine = figure.get_layout_engine()
    if engine is not None and not isinstance(engine, PlaceHolderLayoutEngine):
        engine.execute(figure)
        for axes in figure.axes:
            axes.apply_aspect()  # at its new position, as drawing does
        figure.set_layout_engine("none")


class _DrawnOnce(Figure):
    """A figure whose layout, once fixed by `settle`, is not computed again: matplotlib would draw it twice for each file."""

    def get_layout_engine(self) -> Any:
        engine = super().get_layout_engine()
        return None if isinstance(engine, PlaceHolderLayoutEngine) else engine


def canvas(width: float = 6.4, height: float = 3.7, layout: LayoutName = "constrained") -> Figure:
    """A figure with its own canvas, not managed by pyplot; sizes in inches."""
    figure = _DrawnOnce(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def _figure() -> tuple[Figure, Axes]:
    figure = canvas()
    return figure, figure.subplots()


def _time_axis(axes: Axes, ts: np.ndarray, title: str, ylabel: str, last: bool = True) -> None:
    axes.set(title=title, ylabel=ylabel)
    share_in_label(axes.yaxis)
    if ts[-1] > ts[0]:
        axes.set_xlim(ts[0], ts[-1])
    if last:
        axes.set_xlabel("t / s")
    axes.set_label("time")


def _ground(axes: Axes, title: str, unit: str, labels: tuple[str, str] = ("x", "y")) -> None:
    """A plane with equal scales."""
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(title=title, xlabel=f"{labels[0]} / {unit}", ylabel=f"{labels[1]} / {unit}")
    for axis in (axes.xaxis, axes.yaxis):
        share_in_label(axis)


def _legend(axes: Axes) -> None:
    """A legend between title and axes, where it covers no data."""
    if axes.get_title(loc="left"):
        axes.set_title(axes.get_title(loc="left"), pad=23)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=5,
        borderaxespad=0.3,
        borderpad=0.0,
        handlelength=1.6,
    )


def _room_for_zero(axes: Axes, values: np.ndarray) -> None:
    """Extends the axis to zero if the values come near it, since the body leaves the ground there."""
    low, high = float(np.min(values)), float(np.max(values))
    if low < 0.5 * high:
        axes.set_ylim(bottom=min(0.0, low - 0.05 * (high - low)))


def _second_axis(axes: Axes, iterations: np.ndarray, horizon: np.ndarray) -> None:
    other = axes.twinx()
    other.step(iterations, horizon, color=LIGHT["series2"], linewidth=1.2, where="mid")
    other.set_ylabel("horizon / s", color=LIGHT["series2"])
    other.grid(False)
