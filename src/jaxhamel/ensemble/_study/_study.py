"""The result of a Monte Carlo run: the numbers of every trajectory, and their statistics."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from jaxhamel._words import counted
from jaxhamel.ensemble._study._progress import BY_THE_MODEL, NOT_FINITE, said_of, statistics_of
from jaxhamel.ensemble._study._sampling import Samples


@dataclass(frozen=True, eq=False)
class Study:
    """The results of N trajectories.

    - `values`: one number for each trajectory, `(N,)`, by quantity; NaN for a failed trajectory.
    - `failed`: indices of the failed trajectories, `(f,)`; `not_finite`: those of them with a quantity that is not finite
      (the others were marked by the model's own `failed`).
    - `trajectories`: N, the number computed; `asked`: the number requested, which is larger if an accuracy target ended the
      run.
    - `events`: names of the Boolean quantities.
    - `statistics`: means, standard deviations, quantiles and covariances of the trajectories that did not fail, with
      standard errors; for events also the probability with its standard error and Wilson's 95 % interval; the probability
      of failure, and the number of failures with a quantity that is not finite.
    - `samples`: the parameters of all trajectories, drawn again on request: `samples[17]` equals `sample(17)`,
      `samples[failed]` has the parameters of all failed trajectories, with a leading axis.
    - `first`: the model's auxiliary results for the first block of trajectories; None without `has_aux`.

    `print(study)` shows the statistics as a table.
    """

    values: dict[str, Float[np.ndarray, " N"]]
    failed: Int[np.ndarray, " f"]
    samples: Samples
    first: Any = None
    events: tuple[str, ...] = ()
    not_finite: Int[np.ndarray, " g"] = field(default_factory=lambda: np.zeros(0, int))

    @classmethod
    def of(
        cls,
        columns: dict[str, np.ndarray],
        samples: Samples,
        first: Any = None,
        events: tuple[str, ...] = (),
    ) -> "Study":
        """The study of a table's columns, one of which is `failed`."""
        values = {name: x for name, x in columns.items() if name != "failed"}
        failed, broken = (
            np.flatnonzero(x) for x in (columns["failed"], columns["failed"] == NOT_FINITE)
        )
        return cls(values, failed, samples, first, events, broken)

    @property
    def trajectories(self) -> int:
        """N, the number of trajectories computed."""
        return len(next(iter(self.values.values())))

    @property
    def asked(self) -> int:
        """The number of trajectories requested."""
        return self.samples.size

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """Statistics of all quantities, as listed in the class's docstring."""
        bad = np.zeros(self.trajectories)
        bad[self.failed] = BY_THE_MODEL
        bad[self.not_finite] = NOT_FINITE
        return statistics_of({**self.values, "failed": bad}, self.events)

    def sample(self, index: int) -> dict[str, np.ndarray]:
        """The parameters of one trajectory, for computing it again alone."""
        return self.samples[index]

    def __str__(self) -> str:
        head = f"{counted(self.trajectories, 'trajectory')}, {len(self.failed)} failed"
        if 0 < len(self.not_finite) < len(self.failed):
            head += f" ({len(self.not_finite)} not finite)"
        head += f" (seed {self.samples.seed}, {self.samples.sampler})"
        rows = [
            _statistics_row(name, found) for name, found in self.statistics["quantities"].items()
        ]
        width = max((len(row[0]) for row in rows), default=0)
        lines = [f"  {name:<{width}}  {rest}" for name, rest in rows]
        return "\n".join([head, *lines])


def _statistics_row(name: str, found: dict[str, Any]) -> tuple[str, str]:
    if found["n"] == 0:
        return name, "every trajectory failed"
    if "probability" in found:
        return name, f" {said_of(found)}"
    quantiles = found["quantiles"]
    return name, (
        f"{found['mean']: .6g} ± {found['mean_error']:.2g}   std {found['std']:.4g}   "
        f"5 % {quantiles['0.05']['value']: .5g}   95 % {quantiles['0.95']['value']: .5g}"
    )
