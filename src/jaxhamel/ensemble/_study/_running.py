"""A Monte Carlo run while it goes on: how far it is, what it has found, whether that is accurate enough."""

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from jaxhamel._words import counted
from jaxhamel.ensemble._study._moments import Moments
from jaxhamel.ensemble._study._statistics import probability, quantiles, summarise

# Quantiles are looked at again after this share more trajectories: sorting all of them after each block would take longer
# than the trajectories.
_MORE = 1.02


class Progress:
    """How far a run is, and what it says so far.

    - `done` of `size` trajectories, `failed` of them; `elapsed` [s]; `rate` [1/s] of those that were run now (not found
      in a folder), since the program was compiled; `left` [s] for the `missing` others, NaN as long as none was run.
    - `means`: by quantity (mean, standard error), kept from block to block.
    - `quantile(name, share)`: its value and error; `failure`: probability of it with its error and 95 % interval.
    - `statistics`: all that a `Study` has, computed when it is asked for (it sorts).

    `print(progress)` shows one line, so that `print` itself will do where such a function is asked for.
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
    ):
        self._values, self.size, self._moments = values, size, moments
        self.done = len(next(iter(values.values())))
        self.failed = self.done - moments.n
        self.elapsed, self.missing = elapsed, missing
        self.rate = fresh / running if running > 0 else 0.0

    def __str__(self) -> str:
        return self.line(next(iter(self.means)))

    def line(self, name: str) -> str:
        """How far, how fast, and what comes out of one quantity so far."""
        mean, error = self.means[name]
        most = self.quantile(name, 0.95)["value"] if self.failed < self.done else math.nan
        pace = f"{self.rate:.0f}/s, about {self.left:.0f} s left   " if self.rate else ""
        return (
            f"{self.done} of {counted(self.size, 'trajectory')}, {self.failed} failed   {pace}"
            f"{name}: mean {mean:.4g} ± {error:.1g}, 95 % below {most:.4g}"
        )

    @property
    def left(self) -> float:
        """See the class."""
        if self.missing == 0:
            return 0.0
        return self.missing / self.rate if self.rate > 0 else math.nan

    def quantile(self, name: str, share: float) -> dict[str, float]:
        """See the class."""
        x = self._values[name]
        return quantiles(x[np.isfinite(x)], [share])[str(share)]

    @property
    def means(self) -> dict[str, tuple[float, float]]:
        """See the class."""
        pairs = zip(self._moments.mean.tolist(), self._moments.mean_error.tolist(), strict=True)
        return dict(zip((n for n in self._values if n != "failed"), pairs, strict=True))

    @property
    def failure(self) -> dict[str, float]:
        """See the class."""
        return probability(self._values["failed"] != 0)

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """See the class."""
        return statistics_of(self._values)


class Target(NamedTuple):
    """A standard error that is enough: of the mean of a column, of its quantile `share`, or of the share that failed."""

    column: str
    share: float | None
    error: float


class Goal:
    """When a run may stop: at the first block after which every target is reached.

    A mean or quantile of values that are all equal is not taken for accurate, nor a probability by anything but its 95 %
    interval: half its width over 1.96 has to be that small.
    """

    def __init__(self, targets: list[Target]):
        self.targets, self._next = targets, 0

    def reached(self, values: Mapping[str, Float[np.ndarray, " N"]], moments: Moments) -> bool:
        """Whether it is, for the values so far."""
        done = len(values["failed"])
        if not self.targets or done < self._next:
            return False
        if any(target.share is not None for target in self.targets):
            self._next = math.ceil(_MORE * done)
        return all(_error(target, values, moments) <= target.error for target in self.targets)


def statistics_of(values: Mapping[str, Float[np.ndarray, " N"]]) -> dict[str, Any]:
    """The statistics of columns, `failed` among them, without those that failed."""
    bad = values["failed"] != 0
    good = {name: x[~bad] for name, x in values.items() if name != "failed"}
    return {"failure": probability(bad), **summarise(good)}


def _error(target: Target, values: Mapping[str, np.ndarray], moments: Moments) -> float:
    if target.column == "failed":
        found = probability(values["failed"] != 0)
        return (found["high"] - found["low"]) / (2 * 1.959963984540054)
    if target.share is not None:
        x = values[target.column]
        share = quantiles(x[np.isfinite(x)], [target.share])
        error = share[str(target.share)]["error"] if moments.n > 1 else 0.0
    else:
        error = float(moments.mean_error[list(values).index(target.column)])
    return error if error > 0 else np.inf
