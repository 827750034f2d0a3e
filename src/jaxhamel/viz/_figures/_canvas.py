"""Matplotlib figures in the package's style: the empty figure, its axes and legend, and its file."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import IO, Any, Literal, ParamSpec

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine
from numpy import ndarray

from jaxhamel._words import visible
from jaxhamel.viz._style import MATPLOTLIB, share_in_label

P = ParamSpec("P")
LARGEST_DRAWN = 1e290  # larger numbers are left out of figures
IN_A_ROW = 5  # the largest number of entries in a row of a legend
CHARACTERS = 98  # about as many characters fit into a row of a legend, `LINE_OF_LEGEND` of which each line sample takes
LINE_OF_LEGEND = 7
ROW = 1.5 * MATPLOTLIB["legend.fontsize"]  # height of such a row, in points
LayoutName = Literal["constrained"] | None


def styled(make: Callable[P, Figure]) -> Callable[P, Figure]:
    """Decorates a function that makes a figure: it then uses the package's style, without a change of the user's rcParams.

    Text arguments are shown literally: dollar signs do not begin formulas, and control characters are made visible. Numbers
    so large that matplotlib's ticks would overflow are left out, as NaN is.
    """

    @wraps(make)
    def styled(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(MATPLOTLIB):
            return make(*map(_drawable, args), **{k: _drawable(x) for k, x in kwargs.items()})  # pyright: ignore

    return styled


def _drawable(value: Any) -> Any:
    """An argument of a figure with literal text, and with NaN in place of numbers beyond `LARGEST_DRAWN`."""
    if isinstance(value, ndarray) and value.dtype.kind == "f":
        return np.where(np.abs(value) <= LARGEST_DRAWN, value, np.nan)
    return _literal(value)


def _literal(value: Any) -> Any:
    """The value with dollar signs escaped in its text, also in lists and dictionaries."""
    if isinstance(value, str):
        return re.sub(r"(?<!\\)\$", r"\$", visible(value))
    if isinstance(value, Mapping):
        return {_literal(key): _literal(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple) and any(isinstance(entry, str) for entry in value):
        return [_literal(entry) for entry in value]
    return value


def save(figure: Figure, path: Path | IO[bytes], *, dpi: int = 150) -> None:
    """Writes a figure as PNG to a path or an open file; equal figures give equal bytes. `dpi`: pixels per inch."""
    settle(figure)
    figure.savefig(path, dpi=dpi, format="png", facecolor="white", metadata={"Software": None})


def settle(figure: Figure) -> None:
    """Computes the layout of a figure and fixes it. Otherwise matplotlib would compute it at each drawing, which takes half
    of the drawing's time.
    """
    engine = figure.get_layout_engine()
    if engine is not None and not isinstance(engine, PlaceHolderLayoutEngine):
        engine.execute(figure)
        for axes in figure.axes:
            axes.apply_aspect()  # at its new position; drawing would do this, too
        figure.set_layout_engine("none")


class _DrawnOnce(Figure):
    """A figure that has no layout engine once `settle` has fixed its layout; with one, matplotlib draws each file twice."""

    def get_layout_engine(self) -> Any:
        engine = super().get_layout_engine()
        return None if isinstance(engine, PlaceHolderLayoutEngine) else engine


def canvas(width: float = 6.4, height: float = 3.7, layout: LayoutName = "constrained") -> Figure:
    """A figure with its own canvas, which pyplot does not manage; width and height in inches."""
    figure = _DrawnOnce(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def one_plot() -> tuple[Figure, Axes]:
    figure = canvas()
    return figure, figure.subplots()


def time_axis(axes: Axes, ts: np.ndarray, title: str, ylabel: str, last: bool = True) -> None:
    """Gives axes whose abscissa is time a title and labels; that of the abscissa only if they are the `last` of a column."""
    axes.set(title=title, ylabel=ylabel)
    share_in_label(axes.yaxis)
    if ts[-1] > ts[0]:
        axes.set_xlim(ts[0], ts[-1])
    if last:
        axes.set_xlabel("t / s")
    axes.set_label("time")


def ground_axes(axes: Axes, title: str, unit: str, labels: tuple[str, str] = ("x", "y")) -> None:
    """Gives axes for a plane equal scales, a title and labels."""
    axes.set_aspect("equal", adjustable="datalim")
    axes.set(title=title, xlabel=f"{labels[0]} / {unit}", ylabel=f"{labels[1]} / {unit}")
    for axis in (axes.xaxis, axes.yaxis):
        share_in_label(axis)


def columns_of_legend(labels: Sequence[str]) -> int:
    """The number of columns in which the labels of a legend fit into the width of a plot."""
    longest = max(map(len, labels), default=0) + LINE_OF_LEGEND
    return min(IN_A_ROW, max(1, CHARACTERS // longest))


def legend_above(axes: Axes) -> None:
    """Adds a legend between title and axes, where it covers no data; its entries are in rows, from left to right."""
    handles, labels = axes.get_legend_handles_labels()
    columns = columns_of_legend(labels)
    rows = -(-len(labels) // columns)
    if axes.get_title(loc="left"):
        axes.set_title(axes.get_title(loc="left"), pad=23 + ROW * (rows - 1))
    order = [i for column in range(columns) for i in range(column, len(labels), columns)]
    axes.legend(
        [handles[i] for i in order],  # matplotlib fills columns
        [labels[i] for i in order],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=columns,
        borderaxespad=0.3,
        borderpad=0.0,
        handlelength=1.6,
    )
