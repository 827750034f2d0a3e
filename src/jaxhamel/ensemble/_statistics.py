"""Statistics of an ensemble with their standard errors: of N independent values x, σ their standard deviation,

    mean ± σ/√N ,   σ ± √((m₄ − σ⁴)/(4 N σ²)) ,   probability: Wilson's interval ,
    quantile p ± half the distance of the order statistics N p ± √(N p (1 − p)) ,
    covariance c ± √(m₂₂ − c²)/√N ,

m₄ the fourth central moment, m₂₂ the mean of (x − x̄)² (y − ȳ)²; the error of a quantile needs no density (David and
Nagaraja, Order Statistics, 7.1).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def summarise(values: Mapping[str, Float[np.ndarray, " N"]]) -> dict[str, Any]:
    """mean, standard deviation, extremes and quantiles of each quantity, and covariances, each with its standard error.

    **Arguments:** `values`: by name, finite, in the order of the trajectories; sums run in that order, so that the result
    is the same to the last bit however they were computed.
    """
    found: dict[str, Any] = {name: _of_one(np.asarray(x, float)) for name, x in values.items()}
    covariance, error = _covariance(values)
    return {"quantities": found, "covariance": covariance, "covariance_error": error}


def probability(happened: Bool[np.ndarray, " N"]) -> dict[str, float]:
    """The share of True with its standard error, and Wilson's 95 % interval, which is right also for none in N."""
    n, z = len(happened), 1.959963984540054
    if n == 0:
        return {"probability": 0.0, "error": 0.0, "low": 0.0, "high": 1.0}
    p = int(np.count_nonzero(happened)) / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return {
        "probability": p,
        "error": float(np.sqrt(p * (1 - p) / n)),
        "low": float(min(max(middle - half, 0.0), p)),  # p itself is in it, whatever the rounding
        "high": float(max(min(middle + half, 1.0), p)),
    }


def _of_one(x: Float[np.ndarray, " N"]) -> dict[str, Any]:
    n = len(x)
    if n == 0:
        return {"n": 0}
    if n == 1:  # no error can be stated: NaN, not 0
        return {
            "n": 1,
            "mean": float(x[0]),
            "mean_error": math.nan,
            "std": math.nan,
            "std_error": math.nan,
        } | {"min": float(x[0]), "max": float(x[0]), "quantiles": quantiles(x, QUANTILES)}
    mean = float(np.mean(x))
    deviation = x - mean
    variance = float(np.sum(deviation**2) / max(n - 1, 1))
    std, fourth = float(np.sqrt(variance)), float(np.mean(deviation**4))
    std_error = (
        np.sqrt(max(fourth - variance**2, 0.0) / (4 * n * variance)) if variance > 0 else 0.0
    )
    return {
        "n": n,
        "mean": mean,
        "mean_error": std / float(np.sqrt(n)),
        "std": std,
        "std_error": float(std_error),
        "min": float(np.min(x)),
        "max": float(np.max(x)),
        "quantiles": quantiles(x, QUANTILES),
    }


def quantiles(x: Float[np.ndarray, " N"], shares: Sequence[float]) -> dict[str, dict[str, float]]:
    """By the share p that lies below, as text: `value` and standard `error`."""
    ordered = np.sort(x)
    return {str(p): _quantile(ordered, p) for p in shares}


def _quantile(ordered: Float[np.ndarray, " N"], p: float) -> dict[str, float]:
    n = len(ordered)
    width = np.sqrt(n * p * (1 - p))
    low, high = (int(np.clip(np.round(n * p + s * width), 0, n - 1)) for s in (-1, 1))
    return {
        "value": float(np.quantile(ordered, p)),
        "error": float(ordered[high] - ordered[low]) / 2 if n > 1 else math.nan,
    }


def _covariance(values: Mapping[str, Float[np.ndarray, " N"]]) -> tuple[dict, dict]:
    """Σ (x − x̄)(y − ȳ)/(N − 1) and its standard error; not by BLAS, whose sums depend on how many threads it has."""
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
    return total / (n - 1), math.sqrt(max(variance, 0.0) / n)
