"""The correlation time of residuals, by which standard errors are widened."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float


def correlation_time(series: Sequence[Float[np.ndarray, " T"]]) -> float:
    """τ, the integrated correlation time in samples: T / τ samples are worth as much as T samples with independent errors.

        τ = 1 + 2 Σ_l ρ_l ,    ρ the autocorrelation, summed to where it is first negative

    **Arguments:** `series`: residuals in order of time, one series for each run and error; NaN where a value is missing.
    **Returns:** the mean of τ over the series that are not constant; one if there is none.

    Source: Sokal 1997, Monte Carlo methods in statistical mechanics.
    """
    times = [_time(error) for error in series if np.nanstd(error) > 0]
    return float(np.mean(times)) if times else 1.0


def _time(error: np.ndarray) -> float:
    """τ of one series; a missing value adds nothing to the sums of products."""
    apart = np.nan_to_num(error - np.nanmean(error))
    size = 2 ** (2 * len(apart) - 1).bit_length()
    rho = np.fft.irfft(np.abs(np.fft.rfft(apart, size)) ** 2, size)[: len(apart)]
    end = int(np.argmax(rho < 0)) or len(rho)
    return float(1 + 2 * rho[1:end].sum() / rho[0])


def residual_series(groups: Sequence[Any], parts: Sequence[Any]) -> list[np.ndarray]:
    """The residuals of a fit in order of time, one series for each run and error with any value."""
    return [
        column
        for group, part in zip(groups, parts, strict=True)
        for rows in _of_runs(group, np.asarray(part.plain).reshape(group.there.shape))
        for column in rows.T
        if np.isfinite(column).any()
    ]


def _of_runs(group: Any, plain: np.ndarray) -> Iterator[np.ndarray]:
    """The residuals `(T, r)` of each run in a group: its segments joined, without padding, NaN for missing values."""
    known = (np.asarray(group.there) > 0) & np.isfinite(plain)
    seen = np.where(known, plain, np.nan)
    ts, run = np.asarray(group.ts), np.asarray(group.run)
    taken = np.concatenate([np.ones((len(ts), 1), bool), np.diff(ts, axis=1) > 0], axis=1)
    inner = ~np.asarray(group.last)
    taken[inner, taken[inner].sum(axis=1) - 1] = False  # the next segment has this row
    for i in np.unique(run):
        yield seen[run == i][taken[run == i]]
