"""Widening of standard errors for autocorrelated residuals."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def widening(series: Sequence[Float[np.ndarray, " T"]]) -> float:
    """√τ, the factor by which autocorrelation makes standard errors larger than those of independent residuals.

        τ = 1 + 2 Σ_l ρ_l ,    ρ the autocorrelation, summed to where it is first negative

    is the integrated correlation time in samples, and T / τ the effective number of samples.

    **Arguments:** `series`: residuals (model − measured), one series for each run and quantity; NaN where a value is
    missing. **Returns:** the square root of the mean of τ over the series.

    Source: Sokal 1997, Monte Carlo methods in statistical mechanics.
    """
    return float(np.sqrt(np.mean([_time(error[np.isfinite(error)]) for error in series])))


def _time(error: np.ndarray) -> float:
    apart = error - error.mean()
    rho = np.correlate(apart, apart, "full")[len(apart) - 1 :] / max(apart @ apart, 1e-300)
    end = int(np.argmax(rho < 0)) or len(rho)
    return float(1 + 2 * rho[1:end].sum())
