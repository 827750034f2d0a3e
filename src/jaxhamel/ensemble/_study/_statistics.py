"""Statistics of an ensemble with their standard errors. For N independent values x with the standard deviation σ,

    mean ± σ/√N ,   σ ± √((N − 1)/N Σ (σ_i − σ̄)²) ,   probability: Wilson's interval ,
    quantile p ± half the distance of the order statistics (N − 1) p ± √(N p (1 − p)), counted from 0 ,
    covariance c ± √(m₂₂ − c²)/√N .

The error of σ is the jackknife's: σ_i is the standard deviation of the N − 1 values without x_i, σ̄ the mean of all σ_i.
It is right for five normal numbers already, for which the asymptotic formula √((m₄ − σ⁴)/(4 N σ²)) gives a quarter of the
true scatter. m₂₂ is the mean of (x − x̄)² (y − ȳ)². The error of a quantile needs no density (David and Nagaraja, Order
Statistics, 7.1): order statistics are interpolated linearly, and beyond the smallest or largest value the distance is
extrapolated. An error that cannot be stated is NaN, not 0.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarise(values: Mapping[str, Float[np.ndarray, " N"]]) -> dict[str, Any]:
    """Mean, standard deviation, extremes and quantiles of each quantity, and all covariances, each with its standard error.

    **Arguments:** `values`: finite values by name, in the order of the trajectories. Sums run in that order, so that the
    result is the same to the last bit however the trajectories were distributed over devices.
    """
    found: dict[str, Any] = {name: _of_one(np.asarray(x, float)) for name, x in values.items()}
    covariance, error = _covariance(values)
    return {"quantities": found, "covariance": covariance, "covariance_error": error}


def probability(happened: Bool[np.ndarray, " N"]) -> dict[str, float]:
    """The share of True with its standard error and Wilson's 95 % interval, which is valid even if no event happened."""
    n, z = len(happened), 1.959963984540054
    if n == 0:
        return {"probability": 0.0, "error": 0.0, "low": 0.0, "high": 1.0}
    p = int(np.count_nonzero(happened)) / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return {
        "probability": p,
        "error": float(np.sqrt(p * (1 - p) / n)),
        "low": float(
            min(max(middle - half, 0.0), p)
        ),  # rounding must not put p outside of its interval
        "high": float(max(min(middle + half, 1.0), p)),
    }


def _of_one(x: Float[np.ndarray, " N"]) -> dict[str, Any]:
    """The statistics of one quantity: mean and standard deviation with their errors, extremes, quantiles."""
    n = len(x)
    if n == 0:
        return {"n": 0}
    if n == 1:  # an error cannot be stated: NaN, not 0
        return {
            "n": 1,
            "mean": float(x[0]),
            "mean_error": math.nan,
            "std": math.nan,
            "std_error": math.nan,
        } | {"min": float(x[0]), "max": float(x[0]), "quantiles": quantiles(x, QUANTILES)}
    mean = float(np.mean(x))
    away = x - mean
    std = float(np.sqrt(np.sum(away**2) / (n - 1)))
    return {
        "n": n,
        "mean": mean,
        "mean_error": std / float(np.sqrt(n)),
        "std": std,
        "std_error": _std_error(away),
        "min": float(np.min(x)),
        "max": float(np.max(x)),
        "quantiles": quantiles(x, QUANTILES),
    }


def _std_error(away: Float[np.ndarray, " N"]) -> float:
    """The jackknife's standard error of the standard deviation; NaN for two values."""
    n, squares = len(away), away**2
    if n == 2:
        return math.nan
    without = np.sqrt(np.maximum(np.sum(squares) - squares * (n / (n - 1)), 0.0) / (n - 2))
    return float(np.sqrt(np.sum((without - np.mean(without)) ** 2) * ((n - 1) / n)))


def quantiles(x: Float[np.ndarray, " N"], shares: Sequence[float]) -> dict[str, dict[str, float]]:
    """The quantiles of x: for each probability in `shares`, as text, a dictionary with `value` and standard `error`."""
    ordered = np.sort(x)
    return {str(p): _quantile(ordered, p) for p in shares}


def _quantile(ordered: Float[np.ndarray, " N"], p: float) -> dict[str, float]:
    last = len(ordered) - 1
    if last == 0:
        return {"value": float(ordered[0]), "error": math.nan}
    width = math.sqrt(len(ordered) * p * (1 - p))
    low, high = max(last * p - width, 0.0), min(last * p + width, float(last))
    value, below, above = np.quantile(ordered, [p, low / last, high / last])
    return {"value": float(value), "error": float(width * (above - below) / (high - low))}


def _covariance(
    values: Mapping[str, Float[np.ndarray, " N"]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Σ (x − x̄)(y − ȳ)/(N − 1) and its standard error; without BLAS, whose order of summation varies with its threads."""
    n = min((len(x) for x in values.values()), default=0)
    if n < 2:
        return {}, {}
    away = {name: x - np.mean(x) for name, x in values.items()}
    pairs = {a: {b: _of_products(x * y) for b, y in away.items()} for a, x in away.items()}
    value, error = (
        {a: {b: pair[i] for b, pair in row.items()} for a, row in pairs.items()} for i in (0, 1)
    )
    return value, error


def _of_products(products: Float[np.ndarray, " N"]) -> tuple[float, float]:
    n, total = len(products), float(np.sum(products))
    variance = float(np.mean(products**2)) - (total / n) ** 2
    error = (
        math.sqrt(max(variance, 0.0) / n) if n > 2 else math.nan
    )  # for two values the two products are equal
    return total / (n - 1), error
