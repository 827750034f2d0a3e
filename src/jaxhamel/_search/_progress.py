"""The progress reports of optimal control and of gaits."""

from typing import NamedTuple

import numpy as np


class Progress(NamedTuple):
    """The state of a search, passed to `progress` after iterations. Quantities that a method does not have are NaN.

    - `iteration`: the number of iterations made; `cost`: that of the current point; `tracking_rms` [m]: root mean square of
      the distance from the path, over all intervals; `defect`: largest residual of the conditions, such as a jump of the
      motion between two intervals; `accepted`: whether the last step was accepted.
    - `damping`: λ of Levenberg–Marquardt in `MultipleShooting`, the barrier parameter μ in `Collocation`.
    - `elapsed`, `time_left` [s]: the time left is an estimate.
    - `p`: the current free parameters of the curve, `(P,)`, from `MultipleShooting`; None from other methods.
    """

    iteration: int
    cost: float
    tracking_rms: float
    defect: float
    damping: float
    accepted: bool
    elapsed: float
    time_left: float
    p: np.ndarray | None = None

    @classmethod
    def of_cost(cls, iteration: int, cost: float, elapsed: float, time_left: float) -> "Progress":
        """The report of a method whose only quantity is the cost."""
        nan = float("nan")
        return cls(iteration, cost, nan, nan, nan, True, elapsed, time_left)

    def __str__(self) -> str:
        parts = [f"{self.iteration:4d}", f"cost {self.cost:.4g}"]
        if self.tracking_rms == self.tracking_rms:
            parts.append(f"tracking {self.tracking_rms:.3g} m")
        if self.defect == self.defect:
            parts.append(f"gaps {self.defect:.1e}")
        return "   ".join([*parts, f"{self.elapsed:.0f} s", f"{self.time_left:.0f} s left"])
