"""Checks of a recorded control: its times and values, the span of a motion, and the system that it drives."""

from typing import Any

import numpy as np

from jaxhamel._checks._values import any_tracer, concrete, described, inline

BETWEEN = ("held", "linear")


def check_record(ts: Any, values: Any, between: Any) -> None:
    """Checks the arguments of `Recorded`; of traced arrays only the shapes."""
    if between not in BETWEEN:
        raise ValueError(
            f'`between` of Recorded is {between!r}; it must be "held" (each value holds until the next one, as a '
            'controller\'s commands do) or "linear" (a continuous signal).'
        )
    known = {name: _known(name, x) for name, x in {"ts": ts, "values": values}.items()}
    times, rows = np.shape(ts), np.shape(values)
    if len(times) != 1 or times[0] < 2:
        raise ValueError(
            f"`ts` of Recorded has shape {times}; it must be (T,) with two times or more."
        )
    if len(rows) not in (1, 2) or rows[0] != times[0]:
        raise ValueError(
            f"`values` of Recorded has shape {rows}; for {times[0]} times it must be ({times[0]}, m), one row for each time."
        )
    _check_numbers(known["ts"], known["values"])


def _known(name: str, x: Any) -> np.ndarray | None:
    """The numbers of an array or a list; None if they are traced."""
    if any_tracer(x):
        return None
    try:
        return np.asarray(x, float)
    except (TypeError, ValueError):
        raise TypeError(
            f"`{name}` of Recorded is {described(x)}; it must be an array of numbers."
        ) from None


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


def check_span(ts: Any, edges: Any, ends: Any, name: str = "`ts`") -> None:
    """Checks that records with the times `edges`, `(…, T)`, defined until `ends`, cover a motion with the times `ts`.

    `name`: that of the motion's times, for the message. Traced times are not checked.
    """
    times, starts, stops = (concrete(x) for x in (ts, edges, ends))
    if times is None or starts is None or stops is None:
        return
    first, last = float(times[0]), float(times[-1])
    start = round(float(np.max(starts[..., 0])), 9) + 0.0  # no −0
    end = round(float(np.min(stops)), 9)
    rounding = 1e-6 * (end - start)
    if first >= start - rounding and last <= end + rounding:
        return
    raise ValueError(
        f"`control` has a record from {start:.9g} s to {end:.9g} s, and {name} goes from {first:.9g} s to {last:.9g} s. The "
        "record must cover the whole motion: give a longer one, or fewer times. Do both count from the same time?"
    )


def check_takes_record(system: Any) -> None:
    """Checks that the control of a system is a value, of which no rates are needed."""
    if system.prescribed_motion:
        raise TypeError(
            f"`control` has a Recorded, but {type(system).__name__} needs the motion of its parts with two rates, which a "
            "record does not have. Give jaxhamel.control.Spline.fit(ts, values, n_coefficients), for columns of a file "
            'between="smooth", or recorded accelerations to jaxhamel.MovingParts(system).'
        )
