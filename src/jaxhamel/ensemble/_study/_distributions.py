"""Distributions of parameters, by name, each entry of an array for itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxhamel import _checks


def _truncated(special, p, m, s, a, b):
    from scipy import stats  # half a second that the others do not need

    return stats.truncnorm.ppf(p, (a - m) / s, (b - m) / s, m, s)


def _triangular(special, p, a, m, b):
    rising, falling = p * (b - a) * (m - a), (1 - p) * (b - a) * (b - m)
    return np.where(p * (b - a) < m - a, a + np.sqrt(rising), b - np.sqrt(falling))


# by name: what its parameters are called, and x with P(X ≤ x) = p. Written out: scipy.stats takes several times as long,
# which shows in a million samples.
_QUANTILES = {
    "normal": (("mean", "std"), lambda special, p, m, s: m + s * special.ndtri(p)),
    "uniform": (("low", "high"), lambda special, p, a, b: a + (b - a) * p),
    "triangular": (("low", "mode", "high"), _triangular),
    "lognormal": (("median", "sigma"), lambda special, p, m, s: m * np.exp(s * special.ndtri(p))),
    "truncated-normal": (("mean", "std", "low", "high"), _truncated),
}
NAMES = tuple(_QUANTILES)


class Distribution:
    """A random array whose entries are independent: the quantiles of uniform numbers.

    **Arguments:** `name`: one of `normal` (mean, std), `uniform` (low, high), `triangular` (low, mode, high), `lognormal`
    (median, sigma: the standard deviation of the logarithm), `truncated-normal` (mean, std, low, high, one of which may be
    infinite). The parameters are numbers or arrays that broadcast to the shape of what is drawn.

    **Raises:** `ValueError` for an unknown name, missing or other parameters, no width or no finite numbers.
    """

    def __init__(self, name: str, **parameters: Any):
        _checks.check_distribution(name, parameters, {n: p for n, (p, _) in _QUANTILES.items()})
        self.name = name
        arrays = np.broadcast_arrays(*(np.asarray(parameters[p], float) for p in self._names))
        self.parameters: dict[str, np.ndarray] = dict(zip(self._names, arrays, strict=True))

    @property
    def _names(self) -> tuple[str, ...]:
        return _QUANTILES[self.name][0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is drawn."""
        return next(iter(self.parameters.values())).shape

    @property
    def size(self) -> int:
        """How many numbers are drawn."""
        return int(np.prod(self.shape, dtype=int))

    def quantile(self, p: Float[np.ndarray, "B d"]) -> Float[np.ndarray, "B ..."]:
        """x with P(X ≤ x) = p for probabilities `(B, size)`; `(B, *shape)`."""
        from scipy import special  # a tenth of a second that importing the package does not need

        flat = (np.ravel(x) for x in self.parameters.values())
        drawn = _QUANTILES[self.name][1](special, p, *flat)
        return np.asarray(drawn).reshape(len(p), *self.shape)

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v.tolist()}" for k, v in self.parameters.items())
        return f"Distribution({self.name!r}, {inner})"


Distributions = Mapping[str, Distribution]
