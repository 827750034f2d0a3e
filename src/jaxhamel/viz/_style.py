"""One palette for figures and page, so that colours agree in plots and animation."""

import itertools
from collections.abc import Sequence
from typing import Any

# Roles, each with its colour in light and in dark. PNG figures are light; in the page every light
# colour of a figure becomes the variable `--role`, so that charts follow the reader's theme.
LIGHT = {
    "ink": "#1b2431",
    "muted": "#5d6979",
    "line": "#d5dbe3",
    "reference": "#8792a2",
    "path": "#334e7d",
    "force": "#c8374a",
    "limit": "#b9832a",
    "series1": "#2a6fdb",
    "series2": "#e1752b",
    "series3": "#219a6b",
    "series4": "#8757cf",
    "series5": "#c2408f",
    "series6": "#4c97a8",
}
DARK = {
    "ink": "#e8ecf2",
    "muted": "#9ba7b8",
    "line": "#333e4d",
    "reference": "#8592a5",
    "path": "#9db7e8",
    "force": "#ff7d8a",
    "limit": "#e3b564",
    "series1": "#6ea3ff",
    "series2": "#ffa263",
    "series3": "#58cf9f",
    "series4": "#b896f5",
    "series5": "#f08ac6",
    "series6": "#7fc9da",
}
SERIES = tuple(role for role in LIGHT if role.startswith("series"))

MATPLOTLIB: dict[Any, Any] = {
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": LIGHT["line"],
    "axes.labelcolor": LIGHT["ink"],
    "axes.titlecolor": LIGHT["ink"],
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.labelsize": 9.5,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LIGHT["line"],
    "grid.linewidth": 0.6,
    "text.color": LIGHT["ink"],
    "xtick.color": LIGHT["line"],
    "ytick.color": LIGHT["line"],
    "xtick.labelcolor": LIGHT["muted"],
    "ytick.labelcolor": LIGHT["muted"],
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "lines.solid_capstyle": "round",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "svg.fonttype": "none",  # text stays text: smaller, selectable, read by screen readers
    "path.simplify_threshold": 0.3,
}


def roles(count: int) -> Sequence[str]:
    """The first `count` roles of the series, repeating after the last."""
    return list(itertools.islice(itertools.cycle(SERIES), count))


def css_variables(palette: dict[str, str]) -> str:
    """The palette as CSS custom properties, `--ink: #1b2431; ...`."""
    return " ".join(f"--{role}: {colour};" for role, colour in palette.items())
