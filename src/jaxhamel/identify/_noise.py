"""Standard deviations of the measurements: given, guessed from the data before a fit, or estimated by the fit."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel.identify._linearised._losses import Squares
from jaxhamel.identify._problem import Problem


def given(problem: Problem) -> Float[np.ndarray, " r"]:
    """The given standard deviations; NaN where the noise is to be estimated."""
    rows = [
        np.full(m.error_size, np.nan)
        if m.noise is None
        else np.broadcast_to(np.asarray(m.noise, float), (m.error_size,))
        for m in problem.measurements
    ]
    return np.concatenate([*rows, np.zeros(0)])


def guessed(problem: Problem) -> Float[np.ndarray, " r"]:
    """Guesses noise that is not given from second differences, which smooth motion hardly has; at least 1 % of the RMS."""
    known = given(problem)
    rough = np.concatenate([_of_measurement(problem, m) for m in problem.measurements])
    return np.where(np.isnan(known), rough, known)


def _of_measurement(problem: Problem, measurement) -> np.ndarray:
    columns = [
        run.values[measurement.name] for run in problem.runs if measurement.name in run.values
    ]
    if not columns:
        return np.ones(measurement.error_size)
    width = np.array([_of_column([c[:, j] for c in columns]) for j in range(measurement.size)])
    if (
        measurement.error_size != measurement.size
    ):  # a rotation vector is twice as large as a quaternion's change
        width = np.full(measurement.error_size, 2 * np.max(width))
    return np.where(width > 0, width, 1e-3)


def _of_column(runs: list[np.ndarray]) -> float:
    """The noise of one column over all runs; 0 if there are too few values."""
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
    """Estimates noise from the residuals of a fit, `(M, r)` in units of `noise`, corrected for the fitted unknowns."""
    known = given(problem)
    counts = there.sum(axis=0)
    share = counts.sum() / max(counts.sum() - unknowns, 1.0)
    seen = np.where(there > 0, plain, np.nan)  # `there` has the weights of the rows
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
