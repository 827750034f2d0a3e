"""Checks of a recorded control: its times and values, the span of a motion, and the system that it drives."""

from typing import Any

import numpy as np

from jaxhamel._checks._values import any_tracer, concrete, described, inline

BETWEEN = ("held", "linear")


def check_record(ts: Any, values: Any, between: Any) -> None:
    """Checks the arguments of `Recorded`; of traced arrays only the shapes."""
    if between not in BETWEEN:
        raise ValueError(
            f"`between` of Recorded is {between!r}; it must be \"held\" (each value holds until the next one, as a "
            'controller\'s commands do) or "linear" (a continuous signal).'
        )
    for name, x in {"ts": ts, "values": values}.items():
        if not any_tracer(x) and _as_numbers(x) is None:
            raise TypeError(f"`{name}` of Recorded is {described(x)}; it must be an array of numbers.")
    times, rows = np.shape(ts), np.shape(values)
    if len(times) != 1 or times[0] < 2:
        raise ValueError(f"`ts` of Recorded has shape {times}; it must be (T,) with two times or more.")
    if len(rows) not in (1, 2) or rows[0] != times[0]:
        raise ValueError(
            f"`values` of Recorded has shape {rows}; for {times[0]} times it must be ({times[0]}, m), one row for each time."
        )
    _check_numbers(concrete(ts), concrete(values))


def _as_numbers(x: Any) -> np.ndarray | None:
    try:
        return np.asarray(x, float)
    except (TypeError, ValueError):
        return None


def _check_numbers(times: np.ndarray | None, rows: np.ndarray | None) -> None:
    if times is not None and not np.all(np.diff(times) > 0):  # also for NaN
        at = int(np.argmin(np.diff(times) > 0))
        raise ValueError(
            f"`ts` of Recorded is out of order: ts[{at}] = {times[at]:.9g} and ts[{at + 1}] = {times[at + 1]:.9g}; times "
            "must be strictly increasing. Sort them, or drop repeated ones."
        )
    if times is not None and not np.all(np.isfinite(times)):
        raise ValueError("`ts` of Recorded has an infinite time; all times must be finite.")
    if rows is not None and not np.all(np.isfinite(rows)):
        at = int(np.argmin(np.isfinite(rows).reshape(len(rows), -1).all(axis=1)))
        raise ValueError(
            f"`values` of Recorded is not finite in row {at}: {inline(rows[at])}. Leave the row out; a held control "
            "then keeps the value before it, a linear one goes straight over the gap."
        )


def check_span(first: Any, last: Any, edges: Any, ends: Any, name: str = "`ts`") -> None:
    """Checks that records with the times `edges`, `(…, T)`, defined until `ends`, cover a motion from `first` to `last`.

    `name`: that of the motion's times, for the message. Traced times are not checked.
    """
    given = [concrete(x) for x in (first, last, edges, ends)]
    if any(x is None for x in given):
        return
    first, last = float(given[0]), float(given[1])
    start, end = (round(float(x), 9) for x in (np.max(given[2][..., 0]), np.min(given[3])))
    rounding = 1e-6 * (end - start)
    if first >= start - rounding and last <= end + rounding:
        return
    raise ValueError(
        f"`control` is a record from {start:.9g} s to {end:.9g} s, and {name} goes from {first:.9g} s to {last:.9g} s. The "
        "record must cover the whole motion: give a longer one, or fewer times. Do both count from the same time?"
    )


def check_takes_record(system: Any) -> None:
    """Checks that the control of a system is a value, of which no rates are needed."""
    if system.prescribed_motion:
        raise TypeError(
            f"`control` is a Recorded, but {type(system).__name__} needs the motion of its parts with two rates, which a "
            "record does not have. Give jaxhamel.control.Spline.fit(ts, values, n_coefficients), or recorded accelerations "
            "to jaxhamel.MovingParts(system)."
        )
