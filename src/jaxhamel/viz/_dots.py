"""Joins the dots of a plot into one path of the SVG, with a tenth of the bytes and one element instead of thousands."""

import re

# one <use> for each dot, as matplotlib writes them, of the same marker in the same style
_RUN = re.compile(
    r'<use xlink:href="#([\w.:-]+)" x="[\d.-]+" y="[\d.-]+" style="([^"]*)"/>'
    r'(?:\s*<use xlink:href="#\1" x="[\d.-]+" y="[\d.-]+" style="\2"/>)+'
)
_PLACE = re.compile(r'x="([\d.-]+)" y="([\d.-]+)"')
_STROKE = re.compile(r"stroke: [^;]+|stroke-opacity: [^;]+")
_CIRCLE = r'<path id="{}" d="M 0 ([\d.]+) \n(?:C[^"A-Z]*){{8}}z\n?"'
ALL_DRAWN = 50  # runs of at most this many dots stay unchanged


def joined_dots(svg: str) -> str:
    """The SVG with each run of many equal round markers as points of one line, drawn by its round caps."""
    return _RUN.sub(lambda run: _one_path(run, svg), svg)


def _one_path(run: re.Match, svg: str) -> str:
    places, style = _PLACE.findall(run[0]), run[2]
    circle = re.search(_CIRCLE.format(re.escape(run[1])), svg)
    stroke = _STROKE.findall(style)
    if len(places) < ALL_DRAWN or circle is None or not stroke:
        return run[0]
    width = re.search(r"stroke-width: ([\d.]+)", style)
    size = 2 * float(circle[1]) + float(
        width[1] if width else 1.0
    )  # the marker's edge line lies outside of it
    points = "".join(f"M{_short(x)} {_short(y)}h0" for x, y in places)
    look = "; ".join(["fill: none", *stroke, f"stroke-width: {size:.4g}", "stroke-linecap: round"])
    return f'<path class="dots" d="{points}" style="{look}"/>'


def _short(number: str) -> str:
    return f"{float(number):.2f}".rstrip("0").rstrip(".")
