"""Figures of an identification: measured and fitted values, residuals, and correlations of the parameters."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from jaxhamel.viz._figures._canvas import canvas, legend_above, styled, time_axis
from jaxhamel.viz._style import LIGHT, roles


@styled
def fit_figure(
    ts: ndarray,
    measured: ndarray,
    shown: ndarray,
    names: Sequence[str],
    *,
    title: str,
    ylabel: str,
    start: float | None = None,
) -> Figure:
    """Measured values as dots, and the values of the model as lines.

    **Arguments:** `measured`, `shown`: the measured values and those of the model, `(T, d)`, NaN for missing ones; `names`:
    one for each column; `start`: the end of the part that the fit used [s], which a vertical line marks.
    """
    figure = canvas()
    axes = figure.subplots()
    for data, line, name, role in zip(measured.T, shown.T, names, roles(len(names)), strict=True):
        axes.plot(ts, data, ".", color=LIGHT[role], markersize=2.5, alpha=0.45)
        axes.plot(ts, line, color=LIGHT[role], label=name, linewidth=1.2)
    time_axis(axes, ts, title, ylabel)
    if start is not None:
        axes.axvline(start, color=LIGHT["limit"], linewidth=1.2, linestyle="--")
    legend_above(axes)
    return figure


@styled
def residuals_figure(
    ts: ndarray, errors: Mapping[str, ndarray], noise: Mapping[str, float], *, title: str
) -> Figure:
    """Each error over time, divided by the standard deviation of its noise, in a panel of its own.

    If the model is right, the errors have no pattern, and 95 % of them lie in the grey band between −2 and 2.

    **Arguments:** `errors`: the errors by name, `(T,)` each; `noise`: the standard deviation of each.
    """
    figure = canvas(6.4, 0.9 + 0.75 * max(len(errors), 2))
    rows = figure.subplots(len(errors), 1, sharex=True, squeeze=False)[:, 0]
    for k, (axes, (name, error)) in enumerate(zip(rows, errors.items(), strict=True)):
        axes.plot(ts, error / noise[name], ".", color=LIGHT["series1"], markersize=2)
        axes.axhspan(-2, 2, color=LIGHT["line"], alpha=0.35, linewidth=0)
        size = max(4.0, float(np.nanmax(np.abs(error / noise[name]), initial=0.0)) * 1.05)
        time_axis(axes, ts, title if k == 0 else "", "", last=k == len(rows) - 1)
        axes.set_ylim(-size, size)
        axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=8)
    return figure


@styled
def correlation_figure(correlation: ndarray, names: Sequence[str], *, title: str) -> Figure:
    """The correlation matrix of the estimates as coloured squares.

    A correlation near ±1 means that the data determine only a combination of the two parameters.
    """
    size = max(3.7, 2.2 + 0.32 * len(names))
    figure = canvas(max(6.4, size + 0.8), size)
    axes = figure.subplots()
    image = axes.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7.5)
    axes.set_yticks(range(len(names)), names, fontsize=7.5)
    axes.grid(False)
    axes.set_title(title)
    for i, j in np.argwhere(np.abs(correlation) > 0.3):
        if i != j:
            ink = "white" if abs(correlation[i, j]) > 0.7 else LIGHT["ink"]
            text = f"{correlation[i, j]:.1f}".replace("-", "−")
            axes.text(j, i, text, ha="center", va="center", fontsize=6.5, color=ink)
    figure.colorbar(image, ax=axes, shrink=0.8, ticks=[-1, -0.5, 0, 0.5, 1])
    return figure
