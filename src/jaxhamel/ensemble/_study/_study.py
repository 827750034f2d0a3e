"""What a Monte Carlo run gives back: the numbers of every trajectory, and their statistics."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from jaxhamel._words import counted
from jaxhamel.ensemble._study._running import BY_THE_MODEL, NOT_FINITE, said_of, statistics_of
from jaxhamel.ensemble._study._sampling import Samples


@dataclass(frozen=True, eq=False)
class Study:
    """N trajectories and what came of them.

    - `values`: by quantity one number for each trajectory, `(N,)`, NaN where it failed.
    - `failed`: indices of the trajectories that failed, `(f,)`; `not_finite`: of those that gave a number that is not
      finite, the others were marked by the model's own `failed`.
    - `trajectories`: N, how many were run; `asked`: how many were asked for (more, where an accuracy was reached).
    - `events`: names of the Boolean quantities.
    - `statistics`: means, standard deviations, quantiles, covariances with standard errors, of those that did not
      fail; of events also the probability with its standard error and Wilson's 95 % interval; the probability of
      failure, and how many of those that failed gave a number that is not finite.
    - `samples`: the parameters of all, drawn again when they are asked for: `samples[17]` is what `sample(17)` gives,
      `samples[failed]` has those of all that failed, with a leading axis.
    - `first`: what the model gave beside its quantities of the first trajectories, a block of them; None without
      `has_aux`.

    `print(study)` shows them as a table.
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
        """From the table's columns, `failed` among them."""
        values = {name: x for name, x in columns.items() if name != "failed"}
        failed, broken = (
            np.flatnonzero(x) for x in (columns["failed"], columns["failed"] == NOT_FINITE)
        )
        return cls(values, failed, samples, first, events, broken)

    @property
    def trajectories(self) -> int:
        """N."""
        return len(next(iter(self.values.values())))

    @property
    def asked(self) -> int:
        """How many were asked for."""
        return self.samples.size

    @cached_property
    def statistics(self) -> dict[str, Any]:
        """See the class."""
        bad = np.zeros(self.trajectories)
        bad[self.failed] = BY_THE_MODEL
        bad[self.not_finite] = NOT_FINITE
        return statistics_of({**self.values, "failed": bad}, self.events)

    def sample(self, index: int) -> dict[str, np.ndarray]:
        """The parameters of one trajectory, to run it again alone."""
        return self.samples[index]

    def __str__(self) -> str:
        head = f"{counted(self.trajectories, 'trajectory')}, {len(self.failed)} failed"
        if 0 < len(self.not_finite) < len(self.failed):
            head += f" ({len(self.not_finite)} not finite)"
        head += f" (seed {self.samples.seed}, {self.samples.sampler})"
        rows = [_row(name, found) for name, found in self.statistics["quantities"].items()]
        width = max((len(row[0]) for row in rows), default=0)
        lines = [f"  {name:<{width}}  {rest}" for name, rest in rows]
        return "\n".join([head, *lines])


def _row(name: str, found: dict[str, Any]) -> tuple[str, str]:
    if found["n"] == 0:
        return name, "no trajectory that did not fail"
    if "probability" in found:
        return name, f" {said_of(found)}"
    quantiles = found["quantiles"]
    return name, (
        f"{found['mean']: .6g} ± {found['mean_error']:.2g}   std {found['std']:.4g}   "
        f"5 % {quantiles['0.05']['value']: .5g}   95 % {quantiles['0.95']['value']: .5g}"
    )
