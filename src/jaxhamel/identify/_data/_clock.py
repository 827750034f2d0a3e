"""Recovers a sensor's sampling times from time stamps that record when its messages arrived."""

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxhamel._checks import check_outside, check_real, check_times

# Stamps do not belong to a steady clock if their median deviation from it is above this [periods].
UNSTEADY = 0.25
ENOUGH = 10  # the least number of stamps for which a clock is fitted
SMALL = 5e-4  # deviations below this have equal weights in the reweighted least squares [periods]


def steady_clock(ts: ArrayLike) -> Float[np.ndarray, " T"]:
    """The sampling times of a sensor with a steady rate, from stamps with varying delays.

        t_i = a + T n_i ,   min Σ |ts_i − a − T n_i|   over a, T

    n_i counts the samples. If all stamps after some time are late by at least a whole period, samples are missing there, and
    n_i skips them. The fit minimises absolute deviations, by reweighted least squares: a stamp that is 30 ms late has no
    more influence than one that is 1 ms late.

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
    number = _sample_numbers(ts, _period(ts))
    fitted = _fitted_line(number, ts)
    return fitted if np.median(np.abs(ts - fitted)) < UNSTEADY * np.median(np.diff(ts)) else ts


def _fitted_line(number: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The line a + T n of least absolute deviations through the stamps `ts`, evaluated at the numbers n."""
    columns = np.stack([np.ones_like(ts), number], axis=1)
    weight, least = np.ones_like(ts), SMALL * np.median(np.diff(ts))
    for _ in range(30):
        fitted = columns @ np.linalg.lstsq(columns * weight[:, None], ts * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(ts - fitted), least))
    return fitted


def _period(ts: np.ndarray) -> float:
    """A first estimate of the sensor's period T, by which the samples are counted.

    A run of 80 samples or more is compared with itself, shifted by an eighth of its n samples: T is the median difference of
    the stamps, on which delays have little effect, divided by n/8. For fewer samples T is the slope of the fitted line.
    """
    if len(ts) < 80:
        return float(np.mean(np.diff(_fitted_line(np.arange(len(ts), dtype=float), ts))))
    apart = len(ts) // 8
    return float(np.median(ts[apart:] - ts[:-apart])) / apart


def _sample_numbers(ts: np.ndarray, period: float) -> np.ndarray:
    """The number of each sample, counted in periods from the first.

    A late stamp is followed by stamps that are not late; after a missing sample all stamps are a period later. So only the
    least delay among all later stamps decides how many samples are missing.
    """
    number = np.arange(len(ts), dtype=float)
    # for each sample, the least delay of it and of all later stamps
    behind = np.minimum.accumulate((ts - period * number)[::-1])[::-1]
    return number + np.floor((behind - behind[0]) / period + 0.25)
