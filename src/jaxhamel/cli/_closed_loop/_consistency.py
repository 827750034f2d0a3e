"""Consistency of an estimator in closed loop: compares the errors of its estimates with its covariances."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import chdtri

from jaxhamel.simulate import Trajectory

SHARE = 0.95  # of the means at one sample that lie within the band if the estimator is consistent


class Consistency(NamedTuple):
    """The normalised squared errors of the estimates of B robots, ε = δ·P⁻¹ δ / d, with the error δ and covariance P.

    If the estimator is consistent, δ ~ N(0, P), ε has the mean 1, and B d times the mean over the robots is χ² distributed
    with B d degrees of freedom (Bar-Shalom, Li and Kirubarajan 2001, section 5.4).

    - `ts`: the times of the samples, `(K,)`; `mean`: the mean of ε over the robots in each of them; `band`: the two limits
      between which 95 % of these means lie if the estimator is consistent; `robots`: B, without those that broke down.
    """

    ts: np.ndarray
    mean: Float[np.ndarray, " K"]
    band: tuple[float, float]
    robots: int

    @property
    def average(self) -> float:
        """The mean of ε over all robots and samples."""
        return float(np.mean(self.mean))

    @property
    def consistent(self) -> bool:
        """Whether the average lies within the band."""
        return self.band[0] <= self.average <= self.band[1]

    @property
    def numbers(self) -> dict[str, Any]:
        """The entry `estimator` of `closed_loop` in summary.json."""
        low, high = self.band
        finite = np.isfinite(self.average)
        return {
            "mean_normalised_error": self.average if finite else None,
            "band": [low, high],
            "inside": float(np.mean((self.mean >= low) & (self.mean <= high))),
            "robots": self.robots,
            "consistent": self.consistent,
        }

    @property
    def words(self) -> str:
        """A sentence for the report, and advice if the estimator is not consistent."""
        low, high = (f"{x:.3g}" for x in self.band)
        mean = f"the mean of its normalised squared error is {self.average:.3g} over all samples of {self.robots} robots"
        means = f"the band from {low} to {high} that has 95 % of such means"
        if self.consistent:
            return f"The estimator is consistent: {mean}, in {means}."
        start = f"The estimator is not consistent: {mean}, "
        if not np.isfinite(self.average):
            return f"{start}because a covariance is singular. Give larger `estimator.start` and `estimator.drift`."
        if self.average > self.band[1]:
            return (
                f"{start}above {means}: its errors are larger than its covariances say. The robots' spread, their first "
                "states and the sensors' bias add to them; raise `estimator.drift` or `estimator.start`."
            )
        return (
            f"{start}below {means}: its errors are smaller than its covariances say. Lower `estimator.drift` or "
            "`estimator.start`."
        )


def consistency_of(found: Trajectory, size: int) -> Consistency | None:
    """The consistency of the estimator in the motions of many robots; `size`: d. None without an estimator of the state."""
    errors = found.stats.get("estimation_error")
    if errors is None:
        return None
    errors = np.asarray(errors)
    whole = np.all(np.isfinite(np.asarray(found.u)), axis=(1, 2))
    kept = errors[whole] if np.any(whole) else errors
    return Consistency(
        np.asarray(found.ts[0])[:-1], np.mean(kept, axis=0), _band(kept.shape[0] * size), len(kept)
    )


def _band(count: int) -> tuple[float, float]:
    """The limits of 95 % of the values of χ² / count with `count` degrees of freedom."""
    low, high = (float(chdtri(count, p)) / count for p in (0.5 + SHARE / 2, 0.5 - SHARE / 2))
    return low, high
