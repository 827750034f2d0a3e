"""Tick labels: an offset and a power of ten that all of them share are moved into the axis' label."""

import re

from matplotlib.axis import Axis
from matplotlib.ticker import ScalarFormatter


def share_in_label(axis: Axis) -> None:
    """Labels such as "x / m" become "(x − 12 m) / 10⁻⁵ m" if the numbers have many digits.

    Matplotlib writes "1e−5 + 1.2e1" above the axis, where our legends are. Nonlinear axes stay unchanged.
    """
    if isinstance(axis.get_major_formatter(), ScalarFormatter):
        axis.set_major_formatter(_Shared())


_ABOVE = re.compile(
    r"(?:1e([+-]?\d+))?([+-].+)?"
)  # the power of ten and the offset that matplotlib would write


class _Shared(ScalarFormatter):
    def __init__(self):
        super().__init__(useMathText=False, useLocale=False)
        self.set_powerlimits((-3, 5))
        self._label, self._written = "", None

    def set_locs(self, locs) -> None:
        """Called before the axis is measured and drawn; the label may have changed since the last call."""
        super().set_locs(locs)
        if not isinstance(self.axis, Axis):
            return
        if self.axis.get_label_text() != self._written:
            self._label = self.axis.get_label_text()
        power, offset = _ABOVE.fullmatch(super().get_offset().replace("−", "-")).groups()  # pyright: ignore
        self._written = labelled(self._label, float(offset or 0), int(power or 0))
        self.axis.set_label_text(self._written)

    def get_offset(self) -> str:
        """An empty text, since the offset is in the axis' label."""
        return ""


def labelled(label: str, offset: float, power: int) -> str:
    """The axis' label for numbers n that stand for offset + n 10^power."""
    quantity, slash, unit = label.rpartition(" / ")
    if not slash:
        quantity, unit = label, ""
    if offset:
        sign = "−" if offset > 0 else "+"
        quantity = f"({quantity} {sign} {abs(offset):.12g}{' ' + unit if unit else ''})"
    if power:
        unit = f"$10^{{{power}}}$ {unit}".rstrip()
    return f"{quantity} / {unit}" if unit else quantity
