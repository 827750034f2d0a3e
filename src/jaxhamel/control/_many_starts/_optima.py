"""The distinct optima among the results of many searches."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

SAME = 1e-6  # relative difference up to which two costs count as those of one optimum


class Optima(NamedTuple):
    """The distinct optima from many starts.

    `found`: (J, number of starts that led to it), by increasing J; `unconverged`: the number of starts without an optimum.
    """

    found: tuple[tuple[float, int], ...]
    unconverged: int

    @property
    def words(self) -> str:
        """The optima as one sentence."""
        parts = [f"{cost:.8g} ({count}×)" for cost, count in self.found]
        return f"optima from all starts: {', '.join(parts) or 'none'}; not converged: {self.unconverged}"


def of_one_optimum(
    costs: Float[np.ndarray, " S"], converged: Bool[np.ndarray, " S"]
) -> list[Int[np.ndarray, " k"]]:
    """The indices of the searches that end at the same optimum, for each optimum, by increasing cost.

    Costs that differ by at most `SAME` (1 + |J|) from the next lower one belong to the same optimum.
    """
    order = np.argsort(np.where(converged, costs, np.inf), kind="stable")[: int(np.sum(converged))]
    if not order.size:
        return []
    own = costs[order]
    return np.split(order, 1 + np.flatnonzero(np.diff(own) > SAME * (1 + np.abs(own[1:]))))


def optima_of(
    costs: Float[np.ndarray, " S"],
    converged: Bool[np.ndarray, " S"],
    counts: Int[np.ndarray, " S"],
) -> Optima:
    """The distinct optima among the results of searches, each of which stands for `counts` starts."""
    groups = of_one_optimum(costs, converged)
    found = [(float(costs[group[0]]), int(np.sum(counts[group]))) for group in groups]
    return Optima(tuple(found), int(np.sum(counts[~converged])))
