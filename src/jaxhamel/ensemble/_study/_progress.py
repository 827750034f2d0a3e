"""Progress of a Monte Carlo run: moments of its results, its reports, and the criterion for stopping."""

import math
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxhamel._words import counted
from jaxhamel.ensemble._study._statistics import probability, quantiles, summarise

# Computes means and covariances of values that arrive in blocks, without loss of digits.


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


# Failure codes in the column `failed`: the model's own `failed` was not 0, or a quantity was not finite.
BY_THE_MODEL, NOT_FINITE = 1.0, 2.0

# Quantile targets are tested again when the number of trajectories has grown by this factor: sorting all values after each
# block would take longer than the trajectories.
_MORE = 1.02


class Progress:
    """Progress of a run, and its results so far.

    - `done` of `size` trajectories are finished, `failed` of them failed. `elapsed` [s] since the start; `rate` [1/s]:
      trajectories computed in this run (not read from the folder) per second since the program was compiled; `left` [s]:
      estimated time for the `missing` ones, NaN before the first result.
    - `means`: (mean, standard error) of each quantity, updated block by block.
    - `quantile(name, share)`: value and standard error; `event(name)` of a Boolean quantity and `failure`: the
      probability with its standard error and 95 % interval.
    - `statistics`: the statistics of a `Study`, computed on request (this sorts all values).

    `print(progress)` shows one line, so that `print` itself can be passed as a `progress` function.
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray],
        size: int,
        moments: Moments,
        elapsed: float,
        running: float,
        fresh: int,
        missing: int,
        events: Collection[str] = (),
    ):
        self._values, self.size, self._moments = values, size, moments
        self.done = len(next(iter(values.values())))
        self.failed = self.done - moments.n
        self.elapsed, self.missing, self._events = elapsed, missing, events
        self.rate = fresh / running if running > 0 else 0.0

    def __str__(self) -> str:
        return self.line(next(iter(self.means)))

    def line(self, name: str) -> str:
        """One line of text: trajectories done, rate, and the current statistics of one quantity."""
        pace = f"{self.rate:.0f}/s, about {self.left:.0f} s left   " if self.rate else ""
        head = f"{self.done} of {counted(self.size, 'trajectory')}, {self.failed} failed   {pace}{name}: "
        if name in self._events:
            return head + said_of(self.event(name))
        mean, error = self.means[name]
        most = self.quantile(name, 0.95)["value"] if self.failed < self.done else math.nan
        return f"{head}mean {mean:.4g} ± {error:.1g}, 95 % below {most:.4g}"

    @property
    def left(self) -> float:
        """Estimated time left [s]; NaN before the first result."""
        if self.missing == 0:
            return 0.0
        return self.missing / self.rate if self.rate > 0 else math.nan

    def quantile(self, name: str, share: float) -> dict[str, float]:
        """Value and standard error of the quantile `share` of a quantity."""
        x = self._values[name]
        return quantiles(x[np.isfinite(x)], [share])[str(share)]

    @property
    def means(self) -> dict[str, tuple[float, float]]:
        """Mean of each quantity with its standard error, as pairs."""
        pairs = zip(self._moments.mean.tolist(), self._moments.mean_error.tolist(), strict=True)
        return dict(zip((n for n in self._values if n != "failed"), pairs, strict=True))

    @property
    def failure(self) -> dict[str, float]:
        """Probability of failure, with standard error and 95 % interval."""
        return _failure(self._values["failed"])

    def event(self, name: str) -> dict[str, float]:
        """Probability of a Boolean quantity, with standard error and 95 % interval."""
        x = self._values[name]
        return probability(x[np.isfinite(x)] != 0)

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """The statistics of the trajectories so far, as in `Study.statistics`."""
        return statistics_of(self._values, self._events)


class Target(NamedTuple):
    """A target standard error of a column's mean or of its quantile `share`.

    For an `event` or the column `failed` it is the standard error of the probability that the column is not 0.
    """

    column: str
    share: float | None
    error: float
    event: bool = False


class Goal:
    """The criterion for stopping a run: after the first block at which every target is met.

    A mean or quantile of values that are all equal does not count as accurate: its estimated error of 0 says nothing. For a
    probability, half the width of its 95 % interval, divided by 1.96, is compared with the target.
    """

    def __init__(self, targets: list[Target]):
        self.targets, self._next = targets, 0

    def reached(self, values: Mapping[str, Float[np.ndarray, " N"]], moments: Moments) -> bool:
        """Whether the values so far meet every target."""
        done = len(values["failed"])
        if not self.targets or done < self._next:
            return False
        if any(target.share is not None for target in self.targets):
            self._next = math.ceil(_MORE * done)
        return all(_error(target, values, moments) <= target.error for target in self.targets)


def statistics_of(
    values: Mapping[str, Float[np.ndarray, " N"]], events: Collection[str] = ()
) -> dict[str, Any]:
    """The statistics of a table's columns over the trajectories that did not fail; for `events` also the probabilities."""
    why = values["failed"]
    good = {name: x[why == 0] for name, x in values.items() if name != "failed"}
    found = {"failure": _failure(why), **summarise(good)}
    for name in events:
        if len(good[name]):
            found["quantities"][name] |= probability(good[name] != 0)
    return found


def _failure(why: Float[np.ndarray, " N"]) -> dict[str, float]:
    return probability(why != 0) | {"not_finite": int(np.count_nonzero(why == NOT_FINITE))}


def said_of(event: Mapping[str, float]) -> str:
    """A probability with its standard error and interval, as text."""
    return (
        f"probability {event['probability']:.4g} ± {event['error']:.1g}, "
        f"95 %: {event['low']:.3g} to {event['high']:.3g}"
    )


def _error(target: Target, values: Mapping[str, np.ndarray], moments: Moments) -> float:
    if target.column == "failed" or target.event:
        x = values[target.column]
        found = probability(x[np.isfinite(x)] != 0)
        return (found["high"] - found["low"]) / (2 * 1.959963984540054)
    if target.share is not None:
        x = values[target.column]
        share = quantiles(x[np.isfinite(x)], [target.share])
        error = share[str(target.share)]["error"] if moments.n > 1 else 0.0
    else:
        error = float(moments.mean_error[list(values).index(target.column)])
    return error if error > 0 else np.inf
