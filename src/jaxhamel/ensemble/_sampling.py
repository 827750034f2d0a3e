"""Samples of an ensemble, block by block: each block the same whatever was drawn before it, and by whom."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from jaxhamel import _checks
from jaxhamel.ensemble._distributions import Distributions

SAMPLERS = ("random", "latin-hypercube", "sobol")
# The smallest and largest probability: every distribution is finite there.
_EDGE = 2.0**-53


class Samples:
    """N samples of named distributions, in blocks.

    - `random`: independent; block i has a generator of its own, seeded by (seed, i).
    - `latin-hypercube`: one sample in each of N equally probable strata of every number. The mean of a nearly additive
      quantity has a smaller error than the one stated, which is that of independent samples.
    - `sobol`: a scrambled Sobol sequence (Owen); N should be a power of two. The same holds.

    **Arguments:** `distributions`: by name; `size`: N; `seed`; `block`: samples in a block (the last one has the rest).
    """

    def __init__(
        self,
        distributions: Distributions,
        size: int,
        seed: int,
        block: int,
        sampler: str = "random",
    ):
        _checks.check_sampling(distributions, size, seed, block, sampler, SAMPLERS)
        self.distributions, self.size, self.seed = dict(distributions), size, seed
        self.block, self.sampler = block, sampler
        self._strata = self._latin_hypercube() if sampler == "latin-hypercube" else None

    @property
    def dimension(self) -> int:
        """How many numbers one sample has."""
        return sum(distribution.size for distribution in self.distributions.values())

    @property
    def blocks(self) -> int:
        """How many blocks there are."""
        return -(-self.size // self.block)

    def rows(self, index: int) -> slice:
        """Which samples block `index` has."""
        return slice(index * self.block, min((index + 1) * self.block, self.size))

    def __getitem__(self, index: int) -> dict[str, Float[np.ndarray, "B ..."]]:
        """The samples of one block, by name."""
        p, drawn, first = self._probabilities(index), {}, 0
        for name, distribution in self.distributions.items():
            drawn[name] = distribution.quantile(p[:, first : first + distribution.size])
            first += distribution.size
        return drawn

    def __iter__(self) -> Iterator[dict[str, np.ndarray]]:
        return (self[i] for i in range(self.blocks))

    def _probabilities(self, index: int) -> Float[np.ndarray, "B d"]:
        rows = self.rows(index)
        if self.sampler == "random":
            generator = np.random.default_rng([self.seed, index])
            p = generator.random((rows.stop - rows.start, self.dimension))
        elif self._strata is not None:
            p = self._strata[rows]
        else:
            p = self._sobol(rows)
        return np.clip(p, _EDGE, 1.0 - _EDGE)

    def _latin_hypercube(self):
        from scipy.stats import qmc

        return qmc.LatinHypercube(self.dimension, rng=np.random.default_rng(self.seed)).random(
            self.size
        )

    def _sobol(self, rows: slice):
        from scipy.stats import qmc

        sequence = qmc.Sobol(self.dimension, rng=np.random.default_rng(self.seed))
        if rows.start:
            sequence.fast_forward(rows.start)
        return sequence.random(rows.stop - rows.start)


def column_names(distributions: Distributions) -> list[str]:
    """One name for each number of a sample: `masses[1]`, `shell_mass`."""
    return [
        name + "".join(f"[{i}]" for i in index)
        for name, distribution in distributions.items()
        for index in np.ndindex(distribution.shape)
    ]
