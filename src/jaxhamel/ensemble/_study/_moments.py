"""Means and covariances of values that come block by block, merged without losing digits."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Moments(NamedTuple):
    """n, the means and the sums of products Σ (x − x̄)(y − ȳ) of d quantities.

    Two of them merge exactly (Chan, Golub and LeVeque 1983): with δ = x̄_b − x̄_a,

        x̄ = x̄_a + δ n_b/n ,     S = S_a + S_b + δ δᵀ n_a n_b/n .
    """

    n: int
    mean: Float[np.ndarray, " d"]
    products: Float[np.ndarray, "d d"]

    @classmethod
    def none(cls, d: int) -> "Moments":
        """Of nothing yet."""
        return cls(0, np.zeros(d), np.zeros((d, d)))

    @classmethod
    def of(cls, values: Float[np.ndarray, "B d"]) -> "Moments":
        """Of one block; rows that are not finite are left out."""
        values = values[np.isfinite(values).all(axis=1)]
        if len(values) == 0:
            return cls.none(values.shape[1])
        mean = values.mean(axis=0)
        away = values - mean
        # not by BLAS, whose sums depend on how many threads it has
        return cls(len(values), mean, np.einsum("ni,nj->ij", away, away))

    def __add__(self, other: "Moments") -> "Moments":  # pyright: ignore[reportIncompatibleMethodOverride]
        n = self.n + other.n
        if n == 0:
            return self
        delta = other.mean - self.mean
        spread = np.outer(delta, delta) * (self.n * other.n / n)
        products = self.products + other.products + spread
        return Moments(n, self.mean + delta * (other.n / n), products)

    @property
    def covariance(self) -> Float[np.ndarray, "d d"]:
        """S/(n − 1)."""
        return self.products / max(self.n - 1, 1)

    @property
    def mean_error(self) -> Float[np.ndarray, " d"]:
        """Standard errors of the means, infinite before there are two values."""
        if self.n < 2:
            return np.full(len(self.mean), np.inf)
        return np.sqrt(np.diag(self.covariance) / self.n)
