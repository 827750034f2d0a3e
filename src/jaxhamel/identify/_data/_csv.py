"""Reads runs from CSV files, in SI units, and refuses implausible data with a message that names file, line and column."""

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxhamel._words import counted, uncell
from jaxhamel.control import Spline
from jaxhamel.identify._checks._runs import check_own_columns
from jaxhamel.identify._data._control_columns import ControlColumns
from jaxhamel.identify._data._measurements import AbstractMeasurement
from jaxhamel.identify._data._runs import Run
from jaxhamel.identify._data._units import TO_SI, unit_problem
from jaxhamel.mechanics import Recorded

# The unit of time must be wrong if the median time step [s] is outside this range.
LONGEST, SHORTEST = 60.0, 1e-6


class DataError(ValueError):
    """A file of measurements cannot be used; the message is one line with file, line and column."""


def read_csv(
    path: str | Path,
    measurements: Sequence[AbstractMeasurement],
    *,
    time: str = "t",
    units: Mapping[str, str] | None = None,
    control: Any = None,
    required: Sequence[str] = (),
    from_zero: bool = False,
    name: str | None = None,
) -> Run:
    """Reads a `Run` from a CSV file with a header.

    **Arguments:**

    - `path`: the file. `measurements`: the measurements to read, with the names of their `columns`; other columns are
      ignored.
    - `time`: name of the time column. `units`: units of columns that are not in SI, `{"t": "ns", "angle": "deg"}`.
    - `control`: the control during the run, or a `ControlColumns`, which names the columns that hold it.
    - `required`: columns in which no value may be missing; in all others an empty cell or `nan` is a missing value.
    - `from_zero`: whether times are shifted to start at zero. `name`: the run's name, by default the file's.

    **Returns:** the run, in SI units; measurements without any column in the file are left out.

    **Raises:** `DataError` for a file that cannot be read, missing columns, text or infinities among the numbers, missing,
    repeated or unordered times, and values or time steps that are implausible for their unit; `ValueError` for two
    measurements with a column of the same name.
    """
    path, units = Path(path), dict(units or {})
    check_own_columns(measurements)
    header, rows = _header_and_rows(path)
    inputs = tuple(control.columns) if isinstance(control, ControlColumns) else ()
    wanted = _columns_to_read(path, header, measurements, time, units, (*required, *inputs))
    table = _table(path, header, rows, wanted, time, units, required)
    values = {}
    for measurement in measurements:
        if all(column in table for column in measurement.columns):
            values[measurement.name] = np.stack([table[c] for c in measurement.columns], axis=1)
            _check_size(path, measurement, values[measurement.name], rows, units)
    ts = table[time] - (table[time][0] if from_zero else 0.0)
    try:
        control = control.recorded(ts, table) if isinstance(control, ControlColumns) else control
        return Run(ts, values, control, path.stem if name is None else name)
    except ValueError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None


def read_inputs(
    path: str | Path, inputs: ControlColumns, time: str, unit: str
) -> Recorded | Spline:
    """The control in a file without measurements. **Raises:** `DataError`, as `read_csv` does."""
    path = Path(path)
    header, rows = _header_and_rows(path)
    wanted = _columns_to_read(path, header, None, time, {time: unit}, tuple(inputs.columns))
    table = _table(path, header, rows, wanted, time, {time: unit}, ())
    try:
        return inputs.recorded(table[time], table)
    except ValueError as error:
        raise DataError(f"{path}: {' '.join(str(error).split())}") from None


def _table(path, header, rows, wanted, time, units, required) -> dict[str, np.ndarray]:
    """The wanted columns in SI units, after checks of the times and of the columns in which no value may be missing."""
    table = {column: _column_values(path, header, rows, column) for column in wanted}
    for column in (time, *required):
        _check_complete(path, column, table[column], rows)
    _check_times(path, time, table[time], rows)
    for column, values in table.items():
        table[column] = values * TO_SI[units.get(column, "")]
    _check_spacing(path, time, table[time], units.get(time, "s"))
    return table


def _header_and_rows(path: Path) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The header, and each row with its line number; blank lines are skipped."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "it is not a CSV file in UTF-8"
        raise DataError(f"{path}: the file cannot be read ({reason}).") from None
    if len(lines) < 3:
        raise DataError(
            f"{path}: it has {counted(max(len(lines) - 1, 0), 'row')} of values; it needs a header and two rows or more."
        )
    header = [uncell(cell.strip()) for cell in lines[0][1]]
    for line, row in lines[1:]:
        if len(row) != len(header):
            raise DataError(
                f"{path}, line {line}: it has {counted(len(row), 'cell')}; the header has {counted(len(header), 'column')}."
            )
    return header, lines[1:]


def _columns_to_read(path, header, measurements, time, units, required) -> list[str]:
    """The columns to read; raises `DataError` if one is missing or repeated. `measurements`: None for a file of controls."""
    twice = [column for column, count in Counter(header).items() if count > 1]
    if twice:
        raise DataError(
            f"{path}, line 1: the column `{_cut(twice[0])}` is there twice; give each one name."
        )
    is_run, measurements = measurements is not None, measurements or ()
    known = {time, *(c for m in measurements for c in m.columns)}
    missing = [c for c in (time, *required) if c not in header]
    for measurement in measurements:
        there = [c for c in measurement.columns if c in header]
        if there and len(there) < len(measurement.columns):
            missing += [c for c in measurement.columns if c not in header]
    if is_run and not any(c in header for m in measurements for c in m.columns):
        missing += [c for m in measurements for c in m.columns]
    if missing:
        raise DataError(
            f"{path}, line 1: there is no column `{_cut(missing[0])}`; the file has {_few(header)}."
        )
    for column, unit in units.items():
        if problem := unit_problem(column, unit, time, measurements):
            raise DataError(f"{path}: {problem}")
    return [column for column in header if column in known | set(required)]


def _column_values(path, header, rows, column) -> np.ndarray:
    """The numbers in a column; NaN for an empty cell."""
    place, values = header.index(column), np.empty(len(rows))
    for i, (line, row) in enumerate(rows):
        cell = row[place].strip()
        try:
            values[i] = _number_in_cell(cell) if cell else np.nan
        except ValueError:
            raise DataError(
                f"{path}, line {line}, column `{column}`: {_cut(cell)!r} is not a number. "
                "Leave the cell empty where a value is missing."
            ) from None
        if np.isinf(values[i]):
            raise DataError(
                f"{path}, line {line}, column `{column}`: {_cut(cell)!r} is not finite."
            )
    return values


def _cut(text: str, longest: int = 60) -> str:
    """Text for a message, shortened if it is long."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _few(names: Sequence[str], most: int = 30) -> str:
    """The names as text for a message; of more than `most` names only the first ones, and the total number."""
    more = f", ... ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(map(_cut, names[:most])) + more


def _number_in_cell(cell: str) -> float:
    """The number in a cell. **Raises:** `ValueError` also for `1_0` and digits of other scripts, which `float` accepts."""
    if "_" in cell or not cell.isascii():
        raise ValueError
    return float(cell)


def _check_complete(path, column, values, rows) -> None:
    gone = np.flatnonzero(np.isnan(values))
    if len(gone):
        raise DataError(
            f"{path}, line {rows[gone[0]][0]}, column `{column}`: the value is missing; this column needs one in "
            "each row. Leave the row out."
        )


def _check_times(path, column, ts, rows) -> None:
    back = np.flatnonzero(np.diff(ts) <= 0)
    if len(back):
        i = back[0] + 1
        what = "repeated" if ts[i] == ts[i - 1] else "before the one above it"
        raise DataError(
            f"{path}, line {rows[i][0]}, column `{column}`: the time {ts[i]:.12g} is {what} ({ts[i - 1]:.12g}); "
            "times must increase. Sort the rows, and keep one of each time."
        )


def _check_spacing(path, column, ts, unit) -> None:
    middle = float(np.median(np.diff(ts)))
    if not SHORTEST <= middle <= LONGEST:
        raise DataError(
            f"{path}, line 2, column `{column}`: read in {unit}, the times are {middle:.3g} s apart, which cannot be "
            f'right. Give the unit of the column, such as "{_likely(middle, unit)}".'
        )


def _likely(middle: float, unit: str) -> str:
    """The most likely unit of the times, for messages: the one in which the median step is closest to 20 ms."""
    raw = middle / TO_SI[unit]
    return min(("s", "ms", "us", "ns"), key=lambda u: abs(math.log(raw * TO_SI[u] / 0.02)))


def _check_size(path, measurement, values, rows, units) -> None:
    """Checks that no value exceeds the measurement's limit, and that quaternions have unit norm."""
    if measurement.size == 4 and measurement.error_size == 3:
        _check_unit(path, measurement, values, rows)
    with np.errstate(invalid="ignore"):
        far = np.argwhere(np.abs(values) > measurement.limit)
    if len(far):
        i, j = far[0]
        column = measurement.columns[j]
        unit = units.get(column, measurement.unit)
        raise DataError(
            f"{path}, line {rows[i][0]}, column `{column}`: {values[i, j]:.6g} {measurement.unit}, read in {unit}, is "
            f"beyond {measurement.limit:.6g}; that cannot be right. Give the unit of the column{_advice(unit)}, "
            "or a larger limit."
        )


def _advice(unit: str) -> str:
    return {"rad": ' ("deg"?)', "rad/s": ' ("deg/s"?)', "m": ' ("mm"?)'}.get(unit, "")


def _check_unit(path, measurement, values, rows) -> None:
    norms = np.linalg.norm(values, axis=1)
    with np.errstate(invalid="ignore"):
        wrong = np.flatnonzero(np.abs(norms - 1) > 0.01)
    if len(wrong):
        raise DataError(
            f"{path}, line {rows[wrong[0]][0]}, columns {', '.join(measurement.columns)}: the norm is "
            f"{norms[wrong[0]]:.4g}; it must be a unit quaternion (w, x, y, z)."
        )
