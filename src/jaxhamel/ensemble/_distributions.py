"""Distributions of parameters, by name, each entry of an array for itself."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from jaxhamel import _checks

# by name: what its parameters are called, and its quantile function of p from (parameters)
_QUANTILES = {
    "normal": (("mean", "std"), lambda stats, m, s: stats.norm(m, s)),
    "uniform": (("low", "high"), lambda stats, a, b: stats.uniform(a, b - a)),
    "triangular": (
        ("low", "mode", "high"),
        lambda stats, a, m, b: stats.triang((m - a) / (b - a), a, b - a),
    ),
    "lognormal": (("median", "sigma"), lambda stats, m, s: stats.lognorm(s, scale=m)),
    "truncated-normal": (
        ("mean", "std", "low", "high"),
        lambda stats, m, s, a, b: stats.truncnorm((a - m) / s, (b - m) / s, m, s),
    ),
}
NAMES = tuple(_QUANTILES)


class Distribution:
    """A random array whose entries are independent: the quantiles of uniform numbers.

    **Arguments:** `name`: one of `normal` (mean, std), `uniform` (low, high), `triangular` (low, mode, high), `lognormal`
    (median, sigma: the standard deviation of the logarithm), `truncated-normal` (mean, std, low, high). The parameters are
    numbers or arrays that broadcast to the shape of what is drawn.

    **Raises:** `ValueError` for an unknown name, missing or other parameters, no width or no finite numbers.
    """

    def __init__(self, name: str, **parameters: Any):
        _checks.check_distribution(name, parameters, {n: p for n, (p, _) in _QUANTILES.items()})
        self.name = name
        arrays = np.broadcast_arrays(*(np.asarray(parameters[p], float) for p in self._names))
        self.parameters = dict(zip(self._names, arrays, strict=True))

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
        from scipy import stats  # half a second that importing the package does not need

        flat = (np.ravel(x) for x in self.parameters.values())
        frozen = _QUANTILES[self.name][1](stats, *flat)
        return np.asarray(frozen.ppf(p)).reshape(len(p), *self.shape)

    def __repr__(self) -> str:
        inner = ", ".join(f"{k}={v.tolist()}" for k, v in self.parameters.items())
        return f"Distribution({self.name!r}, {inner})"


Distributions = Mapping[str, Distribution]
