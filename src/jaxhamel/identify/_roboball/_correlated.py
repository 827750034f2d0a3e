"""What is left of a fit is alike from one sample to the next: by how much that widens standard errors."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float


def widening(series: Sequence[Float[np.ndarray, " T"]]) -> float:
    """√τ: how many times larger standard errors are than those of as many independent values.

        τ = 1 + 2 Σ_l ρ_l ,    ρ the autocorrelation, summed to where it is first negative

    the integrated correlation time in samples, T / τ the effective number of them.

    **Arguments:** `series`: model − measured, one a run and quantity; NaN where a value is missing. **Returns:** the root of
    the mean of τ over the series.

    Source: Sokal 1997, Monte Carlo methods in statistical mechanics.
    """
    return float(np.sqrt(np.mean([_time(error[np.isfinite(error)]) for error in series])))


def _time(error: np.ndarray) -> float:
    apart = error - error.mean()
    rho = np.correlate(apart, apart, "full")[len(apart) - 1 :] / max(apart @ apart, 1e-300)
    end = int(np.argmax(rho < 0)) or len(rho)
    return float(1 + 2 * rho[1:end].sum())
