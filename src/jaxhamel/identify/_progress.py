"""What a fit tells while it runs."""

from typing import NamedTuple


class Progress(NamedTuple):
    """Handed to `progress` after each iteration.

    - `stage`: what is being fitted. `iteration`, counted over all stages. `cost`: ½ Σ of squares in units of the noise.
    - `gap`: largest gap between segments, in units of what their measurements determine.
    - `elapsed`, `time_left`: seconds; the second an upper estimate.
    """

    stage: str
    iteration: int
    cost: float
    gap: float
    elapsed: float
    time_left: float

    def __str__(self) -> str:
        return (
            f"{self.stage:<10} iteration {self.iteration:3d}  cost {self.cost:.5g}  gap {self.gap:.1e}  "
            f"{self.elapsed:.0f} s, at most {self.time_left:.0f} s left"
        )
