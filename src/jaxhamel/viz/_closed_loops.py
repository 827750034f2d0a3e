"""Figures of closed loops: paths and errors of many robots, with feedback and without."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy import ndarray

from jaxhamel.viz._figures import _figure, _ground, _legend, _styled, _time_axis
from jaxhamel.viz._style import LIGHT

MARGIN = 0.35  # around the reference path, relative to its size; open loops leave the picture


@_styled
def held_paths_figure(
    closed: Float[ndarray, "B T 2"],
    open_loop: Float[ndarray, "C T 2"],
    reference: Float[ndarray, "S 2"],
    *,
    title: str = "Paths with feedback, and of the same robots without",
    unit: str = "m",
) -> Figure:
    """Paths of closed loops over those of the same robots in open loop, with the reference dashed; equal scales.

    **Arguments:** `closed`, `open_loop`: `(B, T, 2)` and `(C, T, 2)` m, NaN after a path has ended early; `reference`:
    `(S, 2)` m. The picture shows the neighbourhood of the reference.
    """
    figure, axes = _figure()
    low, high = reference.min(axis=0), reference.max(axis=0)
    room = MARGIN * float(np.max(high - low))
    for paths, role, label in (
        (open_loop, "series2", "open loop"),
        (closed, "series1", "with feedback"),
    ):
        alpha = float(np.clip(20.0 / max(len(paths), 1), 0.1, 0.6))
        for path in paths:
            axes.plot(
                *_inside(path, low - 2 * room, high + 2 * room).T,
                color=LIGHT[role],
                alpha=alpha,
                linewidth=0.8,
            )
        axes.plot([], [], color=LIGHT[role], label=f"{len(paths)} {label}")
    axes.plot(*reference.T, "--", color=LIGHT["ink"], linewidth=1.2, label="plan")
    _ground(axes, title, unit)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlim(low[0] - room, high[0] + room)
    axes.set_ylim(low[1] - room, high[1] + room)
    _legend(axes)
    return figure


def _inside(path: Float[ndarray, "T 2"], low: ndarray, high: ndarray) -> Float[ndarray, "T 2"]:
    """The path with points far outside of the picture left out: they make the page larger."""
    with np.errstate(invalid="ignore"):
        far = ~np.all((path > low) & (path < high), axis=1, keepdims=True)
    return np.where(far, np.nan, path)


@_styled
def held_errors_figure(
    ts: Float[ndarray, " T"],
    closed: Float[ndarray, "B T"],
    open_loop: Float[ndarray, "C T"],
    *,
    title: str = "Distance from the path asked for",
    unit: str = "m",
) -> Figure:
    """Tracking errors of closed loops and of open loops over time: median and the band of 90 %; logarithmic.

    **Arguments:** `ts`: `(T,)` s; `closed`, `open_loop`: `(B, T)` and `(C, T)`, NaN after a motion has ended early.
    """
    figure, axes = _figure()
    _band(axes, ts, open_loop, "series2", "open loop")
    _band(axes, ts, closed, "series1", "with feedback")
    axes.set_yscale("log")
    _time_axis(axes, ts, title, f"distance / {unit}")
    _legend(axes)
    return figure


def _band(axes: Axes, ts: ndarray, errors: ndarray, role: str, label: str) -> None:
    known = (np.nan_to_num(errors) > 0).any(axis=0)
    if not known.any():
        return
    at, found = ts[known], errors[:, known]
    low, middle, high = np.nanquantile(found, (0.05, 0.5, 0.95), axis=0)
    axes.fill_between(at, low, high, color=LIGHT[role], alpha=0.22, linewidth=0)
    axes.plot(at, middle, color=LIGHT[role], label=f"{label}: median, 90 %")
