"""Means and covariances of values that arrive in blocks, merged without loss of digits."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class Moments(NamedTuple):
    """The number n, the means x̄ and the sums of products S = Σ (x − x̄)(y − ȳ) of d quantities.

    Two sets of moments a and b merge exactly (Chan, Golub and LeVeque 1983): with δ = x̄_b − x̄_a,

        x̄ = x̄_a + δ n_b/n ,     S = S_a + S_b + δ δᵀ n_a n_b/n .
    """

    n: int
    mean: Float[np.ndarray, " d"]
    products: Float[np.ndarray, "d d"]

    @classmethod
    def none(cls, d: int) -> "Moments":
        """The moments of zero values of d quantities."""
        return cls(0, np.zeros(d), np.zeros((d, d)))

    @classmethod
    def of(cls, values: Float[np.ndarray, "B d"]) -> "Moments":
        """The moments of one block; rows that are not finite are left out."""
        values = values[np.isfinite(values).all(axis=1)]
        if len(values) == 0:
            return cls.none(values.shape[1])
        mean = values.mean(axis=0)
        away = values - mean
        # without BLAS, whose order of summation depends on the number of threads
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
        """The sample covariance S/(n − 1)."""
        return self.products / max(self.n - 1, 1)

    @property
    def mean_error(self) -> Float[np.ndarray, " d"]:
        """Standard errors of the means; infinite for fewer than two values."""
        if self.n < 2:
            return np.full(len(self.mean), np.inf)
        return np.sqrt(np.diag(self.covariance) / self.n)
