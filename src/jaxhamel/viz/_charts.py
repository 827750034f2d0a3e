"""Charts: figures that stand in the page as inline SVG, in the colours of its theme.

The positions of the time axes are noted for the page's script, which moves a cursor along them.
"""

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure

from jaxhamel._words import slug
from jaxhamel.viz._figures._canvas import settle
from jaxhamel.viz._style import LIGHT, MATPLOTLIB


@dataclass(frozen=True)
class Chart:
    """A figure with its `name` and a `description` for screen readers."""

    name: str
    figure: Figure
    description: str

    @property
    def key(self) -> str:
        """The chart's identifier and file name: its name with letters, digits, dots and hyphens only."""
        return slug(self.name)


def distinct(charts: Sequence[Chart]) -> list[Chart]:
    """The charts with names whose keys differ, also if case is ignored; a number is appended to a repeated one."""
    found: dict[str, Chart] = {}
    for chart in charts:
        key, number = chart.key, 1
        while key.lower() in found:
            number += 1
            key = f"{chart.key[:50]}-{number}"
        found[key.lower()] = replace(chart, name=key)
    return list(found.values())


def inline_svg(chart: Chart) -> str:
    """The chart as an SVG element without prologue, with identifiers unique to the chart, and colours as CSS variables."""
    buffer = io.StringIO()
    with rc_context({**MATPLOTLIB, "svg.hashsalt": chart.key}):
        chart.figure.savefig(
            buffer, format="svg", facecolor="none", metadata={"Date": None, "Creator": None}
        )
    svg = buffer.getvalue()
    svg = joined_dots(svg[svg.index("<svg") :])
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    mark = re.compile(r'(?:\bid="|href="#|url\(#)(?=[\w.:-])')
    svg = mark.sub(lambda found: f"{found[0]}{chart.key}-", _coloured(svg))
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', r'\1 role="img"', _without_height(svg), count=1)


def time_boxes(figure: Figure) -> list[dict[str, Any]]:
    """The position of each plot over time, in fractions of the figure from its top left corner, and the times
    at its ends.
    """
    settle(figure)
    return [
        _box(axes) | {"t0": float(axes.get_xlim()[0]), "t1": float(axes.get_xlim()[1])}
        for axes in figure.axes
        if axes.get_label() == "time"
    ]


def path_boxes(figure: Figure) -> list[dict[str, Any]]:
    """The position of each plot of a path and the coordinates at its edges, for the dot that the page moves
    along the path.
    """
    settle(figure)
    return [
        _box(axes)
        | {"xlim": _rounded_limits(axes.get_xlim()), "ylim": _rounded_limits(axes.get_ylim())}
        for axes in figure.axes
        if axes.get_label() == "path"
    ]


def _box(axes) -> dict[str, Any]:
    """The position of a plot in its figure, as fractions of the figure's width and height from the top left corner."""
    place = axes.get_position()
    return {
        "left": round(place.x0, 5),
        "right": round(place.x1, 5),
        "top": round(1 - place.y1, 5),
        "bottom": round(1 - place.y0, 5),
    }


def _rounded_limits(limits) -> list[float]:
    return np.round(limits, 9).tolist()


def _coloured(svg: str) -> str:
    """The SVG with CSS variables in place of the palette's light colours, and with the page's font."""
    for role, colour in LIGHT.items():
        svg = svg.replace(colour, f"var(--{role})")
    return svg.replace("'DejaVu Sans', ", "").replace("sans-serif", "inherit")


def _without_height(svg: str) -> str:
    return re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)


# consecutive dots with the same marker and style; matplotlib writes each as one <use> element
_RUN = re.compile(
    r'<use xlink:href="#([\w.:-]+)" x="[\d.-]+" y="[\d.-]+" style="([^"]*)"/>'
    r'(?:\s*<use xlink:href="#\1" x="[\d.-]+" y="[\d.-]+" style="\2"/>)+'
)
_PLACE = re.compile(r'x="([\d.-]+)" y="([\d.-]+)"')
_STROKE = re.compile(r"stroke: [^;]+|stroke-opacity: [^;]+")
_CIRCLE = r'<path id="{}" d="M 0 ([\d.]+) \n(?:C[^"A-Z]*){{8}}z\n?"'
ALL_DRAWN = 50  # runs of at most this many dots stay unchanged


def joined_dots(svg: str) -> str:
    """The SVG with shorter text: one path replaces many equal round markers in a row; its segments have no length, and their
    round ends are the dots.
    """
    return _RUN.sub(lambda run: _one_path(run, svg), svg)


def _one_path(run: re.Match, svg: str) -> str:
    """The path that replaces a row of equal markers; the row itself if it is short or the marker is no circle
    with a line.
    """
    places, style = _PLACE.findall(run[0]), run[2]
    circle = re.search(_CIRCLE.format(re.escape(run[1])), svg)
    stroke = _STROKE.findall(style)
    if len(places) < ALL_DRAWN or circle is None or not stroke:
        return run[0]
    width = re.search(r"stroke-width: ([\d.]+)", style)
    size = 2 * float(circle[1]) + float(
        width[1] if width else 1.0
    )  # the marker's edge line lies outside of it
    points = "".join(f"M{_number_text(x)} {_number_text(y)}h0" for x, y in places)
    look = "; ".join(["fill: none", *stroke, f"stroke-width: {size:.4g}", "stroke-linecap: round"])
    return f'<path class="dots" d="{points}" style="{look}"/>'


def _number_text(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")
