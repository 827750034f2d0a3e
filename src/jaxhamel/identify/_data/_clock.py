"""Recovers a sensor's sampling times from time stamps that record when its messages arrived."""

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxhamel._checks import check_outside, check_real, check_times

# [periods], a larger median deviation of the stamps means that there is no steady clock
UNSTEADY = 0.25
ENOUGH = 10  # the fewest stamps for a fit
SMALL = 5e-4  # [periods], deviations below it have equal weights


def steady_clock(ts: ArrayLike) -> Float[np.ndarray, " T"]:
    """The sampling times of a sensor with a steady rate, from stamps with varying delays.

        t_i = a + T n_i ,   min Σ |ts_i − a − T n_i|   over a, T

    n_i counts the samples; if all later stamps are a whole period behind, samples are missing and n_i skips them. The fit
    minimises absolute deviations, by reweighted least squares: a stamp that is 30 ms late counts no more than one that is
    1 ms late.

    **Arguments:** `ts`: stamps [s], increasing.

    **Returns:** the times [s], evenly spaced except at missing samples; `ts` itself if there are fewer than ten stamps, or
    if their median deviation from such a clock is more than a quarter of a period.

    **Raises:** `ValueError` for times that are not finite or do not increase.
    """
    check_outside("ts", ts)
    check_real("ts", ts)
    ts = np.asarray(ts, float)
    check_times(ts)
    if len(ts) < ENOUGH:
        return ts
    number = _numbers(ts, _period(ts))
    fitted = _line(number, ts)
    return fitted if np.median(np.abs(ts - fitted)) < UNSTEADY * np.median(np.diff(ts)) else ts


def _line(number: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The values at each number of the line of least absolute deviations through the stamps."""
    columns = np.stack([np.ones_like(ts), number], axis=1)
    weight, least = np.ones_like(ts), SMALL * np.median(np.diff(ts))
    for _ in range(30):
        fitted = columns @ np.linalg.lstsq(columns * weight[:, None], ts * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(ts - fitted), least))
    return fitted


def _period(ts: np.ndarray) -> float:
    """The period of the sensor.

    With many samples it follows from stamps that are far apart, whose delays have little effect; with few samples from the
    fitted line.
    """
    if len(ts) < 80:
        return float(np.mean(np.diff(_line(np.arange(len(ts), dtype=float), ts))))
    apart = len(ts) // 8
    return float(np.median(ts[apart:] - ts[:-apart])) / apart


def _numbers(ts: np.ndarray, period: float) -> np.ndarray:
    """The index of each sample, counted in periods.

    A stamp that is late is followed by stamps that are not; after a missing sample all stamps are a period later.
    """
    number = np.arange(len(ts), dtype=float)
    # the smallest value of all later stamps
    behind = np.minimum.accumulate((ts - period * number)[::-1])[::-1]
    return number + np.floor((behind - behind[0]) / period + 0.25)
