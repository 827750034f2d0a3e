"""The units of columns in files: their factors to SI, and whether they fit a measurement and the system's class."""

import math
from collections.abc import Sequence
from dataclasses import replace

import jax

from jaxhamel.identify._data._measurements import (
    AbstractMeasurement,
    Coordinate,
    usual_limit,
)
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._declarations import state_of

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


def with_declared_units(
    system: System, measurements: Sequence[AbstractMeasurement]
) -> tuple[AbstractMeasurement, ...]:
    """The measurements, in which each `Coordinate` without a unit has the unit of the system's class, if it declares one.

    **Raises:** `ValueError` for a `Coordinate` with a unit of another kind than the declared one, such as m for an angle.
    """
    return tuple(_with_declared_unit(system, m) for m in measurements)


def _with_declared_unit(system: System, m: AbstractMeasurement) -> AbstractMeasurement:
    declared = declared_unit(system, m) if isinstance(m, Coordinate) else ""
    given = SI_UNIT.get(m.unit, m.unit)
    if not isinstance(m, Coordinate) or not declared or given in ("", declared):
        return m
    if m.unit_given:
        raise ValueError(
            f"measurement {m.name!r} has the unit {m.unit!r}, but {type(system).__name__} declares {declared!r} for "
            f"{'the rate of ' if m.rate else ''}this coordinate (index {m.index}"
            f"{'' if m.part is None else f', part {m.part}'}). Measure another index, give values in {declared!r}, or "
            "correct `state_names` of the class."
        )
    limit = m.limit if m.limit != usual_limit(m.unit) else usual_limit(declared)
    return replace(m, unit=declared, limit=limit)


def declared_unit(system: System, coordinate: Coordinate) -> str:
    """The SI unit that the system's class declares for a measured coordinate, or that its space implies; empty if neither
    does.
    """
    k, i = coordinate.part or 0, coordinate.index
    parts, sizes = state_of(system).q, [x.shape[-1] for x in jax.tree.leaves(system.space.stored)]
    if len(parts) != len(sizes) or not 0 <= k < len(sizes) or not -sizes[k] <= i < sizes[k]:
        return ""
    unit = parts[k].units(sizes[k])[i]
    if unit not in ("m", "rad"):  # several units for one number, or one that is not known
        return ""
    return f"{unit}/s" if coordinate.rate else unit


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
    is_default = isinstance(measured, Coordinate) and not measured.unit_given
    return "" if is_default else SI_UNIT.get(measured.unit, "")


def _fitting(si: str) -> list[str]:
    return [unit for unit, other in SI_UNIT.items() if not si or not unit or other == si]
