"""Checks of measured runs and of the measurements along them: values, weights, widths, clocks, segments."""

from collections.abc import Mapping

import numpy as np

from jaxhamel._checks._arguments import (
    check_count,
    check_outside,
    check_positive_number,
)
from jaxhamel._checks._times import check_times
from jaxhamel._checks._values import (
    check_not_negative,
    check_positive,
    described,
    type_of,
)
from jaxhamel._words import counted
from jaxhamel.mechanics._checks._recorded import BETWEEN


def check_noise(measurement) -> None:
    """Checks noise and offset of a measurement.

    The noise is None (it is then estimated), one positive number, or one for each component of the error. The offset is None
    or one positive number.
    """
    name, noise, offset = measurement.name, measurement.noise, measurement.offset
    check_outside(f"noise of {name}", noise)
    check_outside(f"offset of {name}", offset)
    if noise is not None:
        known = np.asarray(noise)
        check_positive(
            f"noise of {name}", known, "Give the standard deviation, or None: estimate it."
        )
        if known.shape not in ((), (1,), (measurement.error_size,)):
            raise ValueError(
                f"`noise of {name}` has shape {known.shape}; it must be one number, or one for each of the "
                f"{measurement.error_size} errors."
            )
    if offset is not None and not (np.shape(offset) == () and offset > 0):
        raise ValueError(
            f"`offset of {name}` is {offset}; it must be one positive number, the prior standard deviation of the offset "
            "(jnp.inf: no prior), or None for a sensor without offset."
        )


def check_entries(owner: str, indices, size: int) -> None:
    """Checks that the indices are valid for a vector with `size` entries; `owner` names their owner in messages."""
    if not all(-size <= i < size for i in indices):
        raise ValueError(
            f"{owner} takes entries {tuple(indices)} of {size}; count from 0 to {size - 1}."
        )


def check_factor(owner: str, q, part) -> None:
    """Checks that `part` is the index of a factor of the configuration q, or None if q is one array."""
    if not isinstance(q, tuple):
        if part is not None:
            raise ValueError(
                f"{owner} takes part {part!r}; the configuration of this system is one array. Leave `part` out."
            )
        return
    whole = isinstance(part, int) and not isinstance(part, bool)
    if not whole or not -len(q) <= part < len(q):
        raise ValueError(
            f"{owner} takes part {part!r}; the configuration of this system has {len(q)} factors. Give `part` from 0 to "
            f"{len(q) - 1}."
        )


def check_values(values, name: str) -> None:
    """Checks that the values of a run are a dictionary of real arrays, by the names of the measurements."""
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{name}: `values` is {type_of(values)}; give arrays by the name of the measurement, such as "
            '{"position": x}.'
        )
    for key, value in values.items():
        check_outside(f"{key}` of `{name}", value)
        if np.asarray(value).dtype.kind not in "iufb":
            raise TypeError(
                f"{name}: `{key}` has dtype {np.asarray(value).dtype}; it must be made of real numbers, NaN where a "
                "value is missing."
            )


def check_run(ts, values: Mapping[str, np.ndarray], name: str) -> None:
    """Checks a run: its times increase, each time has a row of values (NaN if missing), and at least one is measured."""
    try:
        check_times(ts)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not values:
        raise ValueError(
            f"{name}: `values` is empty; give at least one measured quantity by its name."
        )
    for key, array in values.items():
        if array.ndim != 2 or array.shape[0] != len(ts):
            raise ValueError(
                f"{name}: `{key}` has shape {array.shape}; it must be ({len(ts)}, d), one row for each time. "
                "Write NaN where a value is missing."
            )
        if np.any(np.isinf(array)):
            raise ValueError(
                f"{name}: `{key}` is infinite at t = {ts[np.isinf(array).any(axis=1)][0]:.6g} s; it must be "
                "finite, or NaN where a value is missing."
            )
    if not any(np.isfinite(array).any() for array in values.values()):
        raise ValueError(
            f"{name}: every value is NaN; nothing is measured in this run. Leave it out."
        )


def check_weights(weights: np.ndarray, count: int, name: str) -> None:
    """Checks that there is one weight for each time of a run, none negative and at least one positive."""
    if weights.shape != (count,):
        raise ValueError(
            f"{name}: `weights` has shape {weights.shape}; it must be ({count},), one factor for each time."
        )
    check_not_negative(f"weights of {name}", weights, "They are factors of squared residuals.")
    if not np.any(weights > 0):
        raise ValueError(
            f"{name}: all `weights` are zero; give a positive one, or leave the run out."
        )


def check_measurement_columns(measurements, runs) -> None:
    """Checks that each run has only known measurements, with matching numbers of columns."""
    names = [m.name for m in measurements]
    if len(set(names)) < len(names):
        raise ValueError(
            f"`measurements` have the names {names}; each must be another one. Give `name=`."
        )
    check_own_columns(measurements)
    if not runs:
        raise ValueError("`runs` is empty; give at least one `identify.Run`.")
    for run in runs:
        for key in run.values:
            if key not in names:
                raise ValueError(
                    f"{run.name}: `{key}` is none of the measurements, which are {', '.join(names)}. "
                    "Add it to `measurements`, or leave it out of the run."
                )


def check_own_columns(measurements) -> None:
    """Checks that no two measurements have a column of the same name: both would be read from that column."""
    owner: dict[str, str] = {}
    for m in measurements:
        for column in m.columns:
            other = owner.setdefault(column, m.name)
            if other != m.name:
                raise ValueError(
                    f"measurements {other!r} and {m.name!r} both have the column `{column}`. Give each its own `columns=`."
                )


def check_column_count(run_name: str, name: str, got: int, wanted: int) -> None:
    """Checks that a run has as many columns as the measurement has components."""
    if got != wanted:
        raise ValueError(
            f"{run_name}: `{name}` has {counted(got, 'column')}; the measurement of that name has "
            f"{counted(wanted, 'component')}."
        )


def check_segments(counts, runs) -> None:
    """Checks that there is a positive whole number of segments for each run."""
    for count in counts:
        check_count("segments", count)
    if len(counts) != len(runs):
        raise ValueError(
            f"`segments` has {counted(len(counts), 'number')} and `runs` {counted(len(runs), 'run')}; give one number "
            "for each run, or one for all."
        )


def check_first_seconds(ts, start: float, seconds: float) -> None:
    """Checks that at least three times of a run lie within its first `seconds`, and at least one after them."""
    check_positive_number(
        "seconds", seconds, "Give the time from which the initial state is found, in s."
    )
    before = int(np.sum(np.asarray(ts) <= start + seconds))
    if before < 3 or before == len(ts):
        raise ValueError(
            f"`seconds` is {seconds:g}: {before} of the {len(ts)} times of the run lie in it; at least three are needed "
            f"for the initial state, and at least one to predict. The run lasts {float(ts[-1]) - start:.4g} s."
        )


def check_clock(clock: str) -> None:
    """Checks the name of the clock that gives the times of a run."""
    if not isinstance(clock, str) or clock not in ("stamps", "steady"):
        raise ValueError(f'`clock` is {described(clock)}; it must be "stamps" or "steady".')


def check_control_columns(columns, between, factor, delay) -> None:
    """Checks the arguments of `ControlColumns`."""
    if isinstance(columns, str) or not columns or len(set(columns)) < len(columns):
        raise ValueError(
            f"`columns` of ControlColumns is {columns!r}; it must be a list of the columns of the controls, each once."
        )
    if between not in (*BETWEEN, "smooth"):
        raise ValueError(
            f'`between` of ControlColumns is {between!r}; it must be "held", "linear" or "smooth".'
        )
    _check_factor_of_columns(factor, len(columns))
    _check_delay(delay)


def _check_factor_of_columns(factor, count: int) -> None:
    check_outside("factor of ControlColumns", factor)
    given = np.asarray(factor, float)
    if given.shape not in ((), (count,)) or not np.all(np.isfinite(given)):
        raise ValueError(
            f"`factor` of ControlColumns is {factor!r}; it must be one finite number, or one for each of the "
            f"{counted(count, 'column')}."
        )


def _check_delay(delay) -> None:
    if not (np.shape(delay) == () and 0.0 <= float(delay) < np.inf):
        raise ValueError(
            f"`delay` of ControlColumns is {delay!r}; it must be a time of 0 s or more."
        )


def missing_input(column: str, row: str) -> str:
    """The message for an input without a value in the first or last row of a file."""
    return (
        f"column `{column}`, which is a control, has no value in the {row} row. Leave out the rows without it at the ends "
        "of the file."
    )
