"""Time stamps that say when a message arrived, not when it was measured: the clock behind them."""

import numpy as np
from jaxtyping import Float

LATE = 0.25  # of a period: stamps that scatter by more than this (median) show no steady clock
ENOUGH = 10  # stamps, below which nothing is told


def steady_clock(ts: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
    """The times of a sensor that measures at a steady rate, from stamps that are late by more or less.

        t_i = a + T n_i ,   min Σ |ts_i − a − T n_i|   over a, T

    n_i counts the samples; where all later stamps are a whole period behind, samples are missing and n_i skips them.
    Least absolute deviations, by reweighting: a stamp that is 30 ms late counts no more than one that is 1 ms late.

    **Arguments:** `ts`: stamps [s], increasing.

    **Returns:** the times [s], evenly spaced but for missing samples; `ts` itself where there are fewer than ten or where no
    such clock is behind them (a median deviation above a quarter of a period).
    """
    ts = np.asarray(ts, float)
    if len(ts) < ENOUGH:
        return ts
    number = _numbers(ts, _period(ts))
    fitted = _line(number, ts)
    return fitted if np.median(np.abs(ts - fitted)) < LATE * np.median(np.diff(ts)) else ts


def _line(number: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The line of least absolute deviations, at each number."""
    columns = np.stack([np.ones_like(ts), number], axis=1)
    weight = np.ones_like(ts)
    for _ in range(30):
        fitted = columns @ np.linalg.lstsq(columns * weight[:, None], ts * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(ts - fitted), 1e-5))
    return fitted


def _period(ts: np.ndarray) -> float:
    """Of many samples from stamps far apart, where late ones and missing samples matter little; of few from the line."""
    if len(ts) < 80:
        return float(np.mean(np.diff(_line(np.arange(len(ts), dtype=float), ts))))
    apart = len(ts) // 8
    return float(np.median(ts[apart:] - ts[:-apart])) / apart


def _numbers(ts: np.ndarray, period: float) -> np.ndarray:
    """How many periods after the first each sample was taken: a late stamp is caught up with, a missing sample is not."""
    number = np.arange(len(ts), dtype=float)
    behind = np.minimum.accumulate((ts - period * number)[::-1])[
        ::-1
    ]  # the least of all later ones
    return number + np.floor((behind - behind[0]) / period + 0.25)
