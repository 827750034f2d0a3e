"""The palette of the figures and of the page, so that the colours of plots and animation agree."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

from matplotlib.axis import Axis
from matplotlib.ticker import ScalarFormatter

# The colour of each role in the light and in the dark theme. PNG figures are light. In the page the variable `--role`
# replaces every light colour of a figure, so that charts follow the reader's theme.
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
DASHES = ("-", "--", ":", "-.")  # of the first lines in all colours, of the next ones, and so on

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
    """The palette as CSS variables: `--ink: #1b2431; ...`."""
    return " ".join(f"--{role}: {colour};" for role, colour in palette.items())


def share_in_label(axis: Axis) -> None:
    """Makes an axis show the offset and the power of ten that its tick labels share in its own label: "x / m" becomes, for
    example, "(x − 12 m) / 10⁻⁵ m".

    Matplotlib would write "1e−5 + 1.2e1" above the axis, where the legends are. An axis that is not linear stays unchanged.
    """
    if isinstance(axis.get_major_formatter(), ScalarFormatter):
        axis.set_major_formatter(_Shared())


# the text with power of ten and offset that matplotlib would write above the axis
_ABOVE = re.compile(r"(?:1e([+-]?\d+))?([+-].+)?")


class _Shared(ScalarFormatter):
    """Formats tick labels, and writes their common offset and power of ten into the axis' label."""

    def __init__(self):
        super().__init__(useMathText=False, useLocale=False)
        self.set_powerlimits((-3, 5))
        self._label, self._written = "", None

    def set_locs(self, locs) -> None:
        """Sets the tick positions and writes the axis' label anew, since it may have changed. Matplotlib calls this before
        it measures and draws the axis.
        """
        super().set_locs(locs)
        if not isinstance(self.axis, Axis):
            return
        if self.axis.get_label_text() != self._written:
            self._label = self.axis.get_label_text()
        power, offset = _ABOVE.fullmatch(super().get_offset().replace("−", "-")).groups()  # pyright: ignore
        self._written = labelled(self._label, float(offset or 0), int(power or 0))
        self.axis.set_label_text(self._written)

    def get_offset(self) -> str:
        """An empty text, since offset and power of ten stand in the axis' label."""
        return ""


def in_label(unit: str) -> str:
    """The unit after the "/" of a label: in brackets if it has a "/" itself or is a list ("m, rad", "rad or m")."""
    return f"({unit})" if re.search(r"[/,]| or ", unit) else unit


def labelled(label: str, offset: float, power: int) -> str:
    """The axis' label for tick numbers n that represent offset + n 10^power."""
    quantity, slash, unit = label.rpartition(" / ")
    if not slash:
        quantity, unit = label, ""
    if offset:
        sign = "−" if offset > 0 else "+"
        quantity = f"({quantity} {sign} {abs(offset):.12g}{' ' + unit if unit else ''})"
    if power:
        unit = f"$10^{{{power}}}$ {unit}".rstrip()
    return f"{quantity} / {unit}" if unit else quantity
