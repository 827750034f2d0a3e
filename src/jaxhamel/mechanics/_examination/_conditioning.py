"""Rank and condition number of a matrix of concrete numbers, by its singular values; for messages and summaries."""

from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike


class Conditioning(NamedTuple):
    """σ_1 / σ_r and the number r of singular values above rounding, of a matrix of `shape`.

    - `rank`: r, the number of σ_i > 100 ε σ_1.
    - `condition`: σ_1 / σ_min, infinite for a matrix without full rank, 1 for one without entries.
    """

    shape: tuple[int, ...]
    rank: int
    condition: float

    @property
    def is_full(self) -> bool:
        """Whether the rows (or the columns, if there are fewer) are linearly independent."""
        return self.rank == min(self.shape)


def conditioning(matrix: ArrayLike) -> Conditioning:
    """Rank and condition number of `matrix`, `(m, n)`; entries that are not finite make it rank 0."""
    array = np.asarray(matrix)
    if min(array.shape) == 0:
        return Conditioning(array.shape, 0, 1.0)
    if not np.all(np.isfinite(array)):
        return Conditioning(array.shape, 0, np.inf)
    values = np.linalg.svd(array, compute_uv=False)
    rank = int(np.sum(values > 100.0 * np.finfo(array.dtype).eps * values[0]))
    full = rank == min(array.shape)
    return Conditioning(array.shape, rank, float(values[0] / values[-1]) if full else np.inf)
