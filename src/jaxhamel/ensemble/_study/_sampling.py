"""Samples of an ensemble's parameters. Each sample depends only on its index, not on which others are drawn."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from jaxhamel.ensemble._checks._sampling import check_index, check_sampling, drawn_badly, refuses
from jaxhamel.ensemble._study._distributions import Distributions

SAMPLERS = ("random", "latin-hypercube", "sobol")
# The smallest and largest probability drawn: every distribution has finite quantiles there.
_EDGE = 2.0**-53
_MANY = 1 << 16  # number of samples examined at a time


class Probabilities:
    """N points of the unit cube; `points[first:last]` computes only those, `(last - first, dimension)`.

    The sampler `random` uses a generator that can skip ahead (PCG64 DXSM): point i uses its steps i·d to (i + 1)·d − 1.
    """

    def __init__(self, dimension: int, size: int, seed: int, sampler: str):
        self.dimension, self.size, self.seed, self.sampler = dimension, size, seed, sampler
        self._strata = self._latin_hypercube() if sampler == "latin-hypercube" else None

    def __getitem__(self, rows: slice) -> Float[np.ndarray, "B d"]:
        first, last, _ = rows.indices(self.size)
        last = max(first, last)
        if self.sampler == "random":
            bits = np.random.PCG64DXSM(self.seed).advance(first * self.dimension)
            p = np.random.Generator(bits).random((last - first, self.dimension))
        elif self._strata is not None:
            p = self._strata[first:last]
        else:
            p = self._sobol(first, last)
        return np.clip(p, _EDGE, 1.0 - _EDGE)

    def _latin_hypercube(self):
        from scipy.stats import qmc

        generator = np.random.default_rng(self.seed)
        return qmc.LatinHypercube(self.dimension, rng=generator).random(self.size)

    def _sobol(self, first: int, last: int):
        from scipy.stats import qmc

        sequence = qmc.Sobol(self.dimension, rng=np.random.default_rng(self.seed))
        if first:
            sequence.fast_forward(first)
        # SciPy warns if the number of points drawn is not a power of two, which is normal for the blocks of a sequence
        count = last - first if first else 1 << (last - 1).bit_length()
        return sequence.random(count)[: last - first]


class Samples:
    """N samples of named distributions, accessible by index.

    `samples[i]` is one sample; `samples[first:last]` and `samples[[i, j]]` are several, with a leading axis.

    - `random`: independent samples; sample i is the same for every N.
    - `latin-hypercube`: for each number, one sample in each of N equally probable strata. The mean of a nearly additive
      quantity is more accurate than its stated standard error, which is that of independent samples. N × d numbers are
      stored.
    - `sobol`: a scrambled Sobol sequence (Owen); N should be a power of two. The mean is more accurate than stated here,
      too.

    **Arguments:** `distributions`: by name; `size`: N; `seed`.

    **Raises:** `ValueError` for empty distributions, no trajectories, or an unknown sampler.
    """

    def __init__(
        self, distributions: Distributions, size: int, seed: int = 0, sampler: str = "random"
    ):
        check_sampling(distributions, size, seed, sampler, SAMPLERS)
        self.distributions: Distributions = dict(distributions)
        self.size: int = int(size)
        self.seed: int = int(seed)
        self.sampler = sampler
        self._points = Probabilities(dimension(distributions), self.size, self.seed, sampler)

    def __len__(self) -> int:
        return self.size

    def __getitem__(
        self, rows: int | slice | Sequence[int] | Int[np.ndarray, " n"]
    ) -> dict[str, Float[np.ndarray, "..."]]:
        """One sample (an index) or several (a slice or a sequence of indices), as arrays by name."""
        if isinstance(rows, slice):
            first, last, step = rows.indices(self.size)
            if step == 1:
                return samples_of_cube(self.distributions, self.probabilities(slice(first, last)))
            rows = range(first, last, step)
        if np.ndim(rows) == 1:
            return samples_of_cube(self.distributions, self._scattered(rows))
        index = check_index(rows, self.size)
        return {name: x[0] for name, x in self[index : index + 1].items()}

    def _scattered(self, rows) -> Float[np.ndarray, "B d"]:
        """The points of the unit cube with the given indices."""
        checked = [check_index(i, self.size) for i in rows]
        points = [self.probabilities(slice(i, i + 1)) for i in checked]
        return np.concatenate([np.zeros((0, self._points.dimension)), *points])

    def probabilities(self, rows: slice) -> Float[np.ndarray, "B d"]:
        """The points of the unit cube from which the samples are computed: P(X ≤ x) of each number x."""
        return self._points[rows]

    def check(self, one: Callable[[dict[str, np.ndarray]], Any]) -> None:
        """Calls `one` with each sample in which some number takes its smallest or largest value.

        **Raises:** `ValueError` with the trajectory's index if `one` raises a `ValueError` or returns False.
        """
        for index in sorted(self._extremes()):
            try:
                said = one(self[index])
            except (ValueError, AssertionError) as error:
                raise ValueError(drawn_badly(index, self.seed, error)) from error
            except Exception as error:
                error.add_note(f"`check` was given trajectory {index} (seed {self.seed}).")
                raise
            if refuses(said):
                refusal = "`check` gives False."
                raise ValueError(drawn_badly(index, self.seed, refusal))

    def _extremes(self) -> set[int]:
        """Indices of the samples with the smallest and the largest value of each number."""
        best: dict[Any, tuple[float, int]] = {}
        for first in range(0, self.size, _MANY):
            for name, x in self[first : first + _MANY].items():
                flat = x.reshape(len(x), -1)
                for sign in (1.0, -1.0):
                    for column, row in enumerate(np.argmin(sign * flat, axis=0)):
                        found = (float(sign * flat[row, column]), first + int(row))
                        key = (name, column, sign)
                        best[key] = min(best.get(key, found), found)
        return {index for _, index in best.values()}


def dimension(distributions: Distributions) -> int:
    """Number of random numbers in one sample."""
    return sum(distribution.size for distribution in distributions.values())


def samples_of_cube(
    distributions: Distributions, p: Float[np.ndarray, "B d"]
) -> dict[str, np.ndarray]:
    """Maps points of the unit cube to samples by name."""
    drawn, first = {}, 0
    for name, distribution in distributions.items():
        drawn[name] = distribution.quantile(p[:, first : first + distribution.size])
        first += distribution.size
    return drawn


def column_names(distributions: Distributions) -> list[str]:
    """One name for each number of a sample: `masses[1]`, `shell_mass`."""
    return [
        name + "".join(f"[{i}]" for i in index)
        for name, distribution in distributions.items()
        for index in np.ndindex(distribution.shape)
    ]
