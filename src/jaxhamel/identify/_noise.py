"""The standard deviations of the measurements' noise, given, guessed from the data before a fit, or estimated by the fit;
and the correlation time of the residuals, which widens standard errors.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel.identify._linearised._losses import Squares
from jaxhamel.identify._problem import Problem

FAR = 1.5  # the factor between residuals and given noise from which on the estimate says so
FEW = 30  # residuals, below which their RMS is too uncertain for that


def given(problem: Problem) -> Float[np.ndarray, " r"]:
    """The given standard deviation of each error; NaN where the fit has to estimate it."""
    rows = [
        np.full(m.error_size, np.nan)
        if m.noise is None
        else np.broadcast_to(np.asarray(m.noise, float), (m.error_size,))
        for m in problem.measurements
    ]
    return np.concatenate([*rows, np.zeros(0)])


def error_names(measurements) -> list[str]:
    """A name for each component of the error: that of its column, or `orientation.x` for a rotation vector."""
    names = []
    for m in measurements:
        one_by_one = m.error_size == len(m.columns)
        names += m.columns if one_by_one else [f"{m.name}.{axis}" for axis in "xyz"[: m.error_size]]
    return names


def error_units(measurements) -> dict[str, str]:
    """The unit of each component of the error, by its name; empty if it has none."""
    return {name: m.unit for m in measurements for name in error_names([m])}


def wrong_noise(problem: Problem, rms: Mapping[str, float], counts: Mapping[str, int]) -> list[str]:
    """A sentence for each given standard deviation that is far from the RMS of its residuals, for which standard errors are
    wrong by the same factor. Robust losses allow larger residuals; there, and for few values, there is none.
    """
    if not isinstance(problem.model.loss, Squares):
        return []
    names = error_names(problem.measurements)
    pairs = zip(names, given(problem).tolist(), strict=True)
    return [
        f"{name} has residuals of {rms[name]:.2g} (RMS), its noise is given as {std:.2g}: standard errors are too "
        f"{'small' if rms[name] > std else 'large'}. Correct `noise`, leave it out, so that it is estimated, or "
        "improve the model."
        for name, std in pairs
        if counts[name] >= FEW and not (np.isnan(std) or std / FAR < rms[name] < std * FAR)
    ]


def guessed(problem: Problem) -> Float[np.ndarray, " r"]:
    """The given standard deviation of each error, or else a guess from the data.

    A guess is computed from the second differences of the values, which noise dominates if the motion is smooth. It is at
    least 1 % of the RMS of the values about their mean.
    """
    known = given(problem)
    rough = np.concatenate([_guessed_noise(problem, m) for m in problem.measurements])
    return np.where(np.isnan(known), rough, known)


def _guessed_noise(problem: Problem, measurement) -> np.ndarray:
    """The guessed standard deviation of each error of a measurement; 1 if no run has its values."""
    columns = [
        run.values[measurement.name] for run in problem.runs if measurement.name in run.values
    ]
    if not columns:
        return np.ones(measurement.error_size)
    width = np.array([_of_column([c[:, j] for c in columns]) for j in range(measurement.size)])
    # the rotation vector of a small turn is twice as long as the change of its quaternion
    if measurement.error_size != measurement.size:
        width = np.full(measurement.error_size, 2 * np.max(width))
    return np.where(width > 0, width, 1e-3)


def _of_column(runs: list[np.ndarray]) -> float:
    """The guessed standard deviation of the noise of one column, from its values in all runs; 0 without values."""
    second = np.concatenate([_known(np.diff(values, n=2)) for values in runs])
    known = [found for found in map(_known, runs) if len(found)]
    if not known:
        return 0.0
    least = 0.01 * np.std(np.concatenate([found - np.mean(found) for found in known]))
    return max(1.4826 * np.median(np.abs(second)) / np.sqrt(6) if len(second) else 0.0, least)


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def estimated(
    problem: Problem, noise: np.ndarray, plain: np.ndarray, there: np.ndarray, unknowns: int
) -> Float[np.ndarray, " r"]:
    """The standard deviation of each error: as given, or estimated from the residuals of a fit.

    `plain`: the errors in units of `noise`, `(M, r)`; `there`: the weights of their squares, zero for a missing value;
    `unknowns`: the number of fitted unknowns, by which the degrees of freedom are reduced. Without a robust loss the
    estimate is the RMS of the errors, with one it is 1.4826 times the median of their absolute values.
    """
    known = given(problem)
    counts = there.sum(axis=0)
    share = counts.sum() / max(counts.sum() - unknowns, 1.0)
    seen = np.where(there > 0, plain, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        if isinstance(problem.model.loss, Squares):
            spread = np.sqrt(share * np.nansum(there * seen**2, axis=0) / counts)
        else:
            middle = [np.nanmedian(np.abs(c)) if np.isfinite(c).any() else np.nan for c in seen.T]
            spread = 1.4826 * np.sqrt(share) * np.array(middle)
    found = noise * np.where(np.isfinite(spread) & (spread > 0), spread, 1.0)
    return np.where(np.isnan(known), np.maximum(found, 1e-12), known)


def as_array(noise: np.ndarray):
    """The noise as an array in JAX's default precision."""
    return jnp.asarray(noise, jnp.result_type(float))


def correlation_time(series: Sequence[Float[np.ndarray, " T"]]) -> float:
    """The integrated correlation time τ of residuals, in samples:

        τ = 1 + 2 Σ_l ρ_l ,

    where ρ_l is the autocorrelation at lag l, and the sum ends before its first negative value. T samples have as much
    information as T / τ samples with independent errors.

    **Arguments:** `series`: residuals in order of time, one series for each run and error; NaN where a value is missing.
    **Returns:** the mean of τ over the series that are not constant; 1 if all are constant.

    Source: Sokal 1997, Monte Carlo methods in statistical mechanics.
    """
    times = [_correlation_time(error) for error in series if np.nanstd(error) > 0]
    return float(np.mean(times)) if times else 1.0


def _correlation_time(error: np.ndarray) -> float:
    """The correlation time τ of one series, by FFT; a missing value counts as zero in the sums of products."""
    apart = np.nan_to_num(error - np.nanmean(error))
    size = 2 ** (2 * len(apart) - 1).bit_length()
    rho = np.fft.irfft(np.abs(np.fft.rfft(apart, size)) ** 2, size)[: len(apart)]
    end = int(np.argmax(rho < 0)) or len(rho)
    return float(1 + 2 * rho[1:end].sum() / rho[0])


def residual_series(groups: Sequence[Any], parts: Sequence[Any]) -> list[np.ndarray]:
    """The residuals of a fit in order of time: one series for each run and each error that was measured in it."""
    return [
        column
        for group, part in zip(groups, parts, strict=True)
        for rows in _of_runs(group, np.asarray(part.plain).reshape(group.there.shape))
        for column in rows.T
        if np.isfinite(column).any()
    ]


def _of_runs(group: Any, plain: np.ndarray) -> Iterator[np.ndarray]:
    """Yields the residuals `(T, r)` of each run in a group, from its segments without their padding; NaN if missing."""
    known = (np.asarray(group.there) > 0) & np.isfinite(plain)
    seen = np.where(known, plain, np.nan)
    ts, run = np.asarray(group.ts), np.asarray(group.run)
    taken = np.concatenate([np.ones((len(ts), 1), bool), np.diff(ts, axis=1) > 0], axis=1)
    inner = ~np.asarray(group.last)
    # the last time of a segment is the first of the next one: count its measurements once
    taken[inner, taken[inner].sum(axis=1) - 1] = False
    for i in np.unique(run):
        yield seen[run == i][taken[run == i]]
