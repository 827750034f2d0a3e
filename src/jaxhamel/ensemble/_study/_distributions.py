"""Distributions of parameters, by name. The entries of a random array are independent."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxhamel.ensemble._checks._sampling import check_distribution


def _truncated(special, p, m, s, a, b):
    from scipy import stats  # takes half a second to import; no other distribution needs it

    return stats.truncnorm.ppf(p, (a - m) / s, (b - m) / s, m, s)


def _triangular(special, p, a, m, b):
    rising, falling = p * (b - a) * (m - a), (1 - p) * (b - a) * (b - m)
    return np.where(p * (b - a) < m - a, a + np.sqrt(rising), b - np.sqrt(falling))


# Name: (names of the parameters, quantile function x with P(X ≤ x) = p). The formulas are written out, because scipy.stats
# takes several times as long, which matters for a million samples.
_QUANTILES = {
    "normal": (("mean", "std"), lambda special, p, m, s: m + s * special.ndtri(p)),
    "uniform": (("low", "high"), lambda special, p, a, b: a + (b - a) * p),
    "triangular": (("low", "mode", "high"), _triangular),
    "lognormal": (("median", "sigma"), lambda special, p, m, s: m * np.exp(s * special.ndtri(p))),
    "truncated-normal": (("mean", "std", "low", "high"), _truncated),
}
DISTRIBUTION_NAMES = tuple(_QUANTILES)


class Distribution:
    """A random array with independent entries, sampled by its quantile function.

    **Arguments:** `name`: one of `normal` (mean, std), `uniform` (low, high), `triangular` (low, mode, high), `lognormal`
    (median, sigma: the standard deviation of the logarithm), `truncated-normal` (mean, std, low, high, one of which may be
    infinite). The parameters are numbers or arrays that broadcast to the shape of the random array.

    **Raises:** `ValueError` for an unknown name, missing or unknown parameters, a distribution of zero width, or
    parameters that are not finite.
    """

    def __init__(self, name: str, **parameters: Any):
        check_distribution(name, parameters, {n: p for n, (p, _) in _QUANTILES.items()})
        self.name = name
        arrays = np.broadcast_arrays(*(np.asarray(parameters[p], float) for p in self._names))
        self.parameters: dict[str, np.ndarray] = dict(zip(self._names, arrays, strict=True))

    @property
    def _names(self) -> tuple[str, ...]:
        return _QUANTILES[self.name][0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the random array."""
        return next(iter(self.parameters.values())).shape

    @property
    def size(self) -> int:
        """Number of entries of the random array."""
        return int(np.prod(self.shape, dtype=int))

    def quantile(self, p: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B ..."]:
        """The quantile function: x `(B, *shape)` with P(X ≤ x) = p, for probabilities p `(B, size)`."""
        from scipy import special  # takes a tenth of a second to import

        flat = (np.ravel(x) for x in self.parameters.values())
        drawn = _QUANTILES[self.name][1](special, p, *flat)
        return np.asarray(drawn).reshape(len(p), *self.shape)

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v.tolist()}" for k, v in self.parameters.items())
        return f"Distribution({self.name!r}, {inner})"


Distributions = Mapping[str, Distribution]
