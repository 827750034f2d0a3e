"""The progress reports of a fit."""

from typing import NamedTuple

import numpy as np


class Progress(NamedTuple):
    """The state of a fit, passed to `progress` after each iteration.

    - `round`: name of the current round; a fit has several. `iteration`: number of the iteration, counted over all rounds.
    - `cost`: ½ Σ of squares in units of the noise.
    - `gap`: largest gap between segments, times its weight in the current round.
    - `elapsed`, `time_left`: the time since the start of the fit [s], and an upper estimate of the time left [s].
    - `z`: the coordinates of the parameters so far, `(P,)`; `problem.model.system_at(z)` is the system with these
      parameters.
    """

    round: str
    iteration: int
    cost: float
    gap: float
    elapsed: float
    time_left: float
    z: np.ndarray | None = None

    def __str__(self) -> str:
        return (
            f"{self.round:<10} iteration {self.iteration:3d}  cost {self.cost:.5g}  gap {self.gap:.1e}  "
            f"{self.elapsed:.0f} s, at most {self.time_left:.0f} s left"
        )

    @property
    def stage(self) -> str:
        """The name of the round; `stage` is an older name for `round`."""
        return self.round
