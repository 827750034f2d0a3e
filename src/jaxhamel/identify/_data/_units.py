"""The units of columns in files: their factors to SI, and whether they fit a measurement."""

import math
from collections.abc import Sequence

from jaxhamel.identify._data._measurements import AbstractMeasurement, Coordinate

# The factor of each unit and its SI unit.
_UNITS = {
    "s": (1.0, "s"),
    "ms": (1e-3, "s"),
    "us": (1e-6, "s"),
    "µs": (1e-6, "s"),
    "ns": (1e-9, "s"),
    "min": (60.0, "s"),
    "m": (1.0, "m"),
    "cm": (1e-2, "m"),
    "mm": (1e-3, "m"),
    "rad": (1.0, "rad"),
    "mrad": (1e-3, "rad"),
    "deg": (math.pi / 180, "rad"),
    "turn": (2 * math.pi, "rad"),
    "rad/s": (1.0, "rad/s"),
    "deg/s": (math.pi / 180, "rad/s"),
    "rpm": (math.pi / 30, "rad/s"),
    "m/s": (1.0, "m/s"),
    "m/s²": (1.0, "m/s²"),
    "m/s^2": (1.0, "m/s²"),
    "g": (9.80665, "m/s²"),
    "N": (1.0, "N"),
    "N m": (1.0, "N m"),
    "": (1.0, ""),
}
TO_SI = {unit: factor for unit, (factor, _) in _UNITS.items()}
SI_UNIT = {unit: si for unit, (_, si) in _UNITS.items()}


def unit_problem(
    column: str, unit: str, time: str, measurements: Sequence[AbstractMeasurement]
) -> str | None:
    """The reason why a unit cannot be that of a column, as words for a message; None if it can be."""
    fitting = _fitting(_si_unit_of(column, time, measurements))
    if unit in fitting:
        return None
    names = ", ".join(repr(name) for name in fitting if name)
    return f"the unit of `{column}` is given as {unit!r}; it must be one of {names}."


def _si_unit_of(column: str, time: str, measurements: Sequence[AbstractMeasurement]) -> str:
    """The SI unit of a column; empty if any unit fits it, as for a coordinate with its default unit."""
    if column == time:
        return "s"
    measured = next((m for m in measurements if column in m.columns), None)
    if measured is None or measured.size != measured.error_size:
        return ""
    is_default = isinstance(measured, Coordinate) and measured.unit in ("rad", "rad/s")
    return "" if is_default else SI_UNIT.get(measured.unit, "")


def _fitting(si: str) -> list[str]:
    return [unit for unit, other in SI_UNIT.items() if not si or not unit or other == si]
