"""Columns of a file that hold the control during its run, such as the torques or currents in a machine's log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxhamel.identify._checks._runs import check_control_columns, missing_input
from jaxhamel.mechanics import Recorded


@dataclass(frozen=True)
class ControlColumns:
    """The columns of a file that hold the control during its run: control c of a run is

        c(t) = factor · column(t − delay) ,

    with the values between the rows as in `jaxhamel.Recorded`.

    ```python
    current = identify.ControlColumns(["current"], between="held", factor=0.12, delay=0.004)   # 0.12 N m/A, 4 ms
    run = identify.read_csv("run1.csv", measurements, control=current)
    ```

    **Arguments:**

    - `columns`: their names, one for each control of the system, in its order.
    - `between`: `"held"` for commands, each of which holds until the next one, `"linear"` for samples of a continuous
      signal.
    - `factor`: the control for a value of 1 in the column, one number or one for each column, `(m,)`: a torque constant, or
      the factor of a unit.
    - `delay`: the dead time between the row and the effect [s], not negative; until then the first value acts.

    An empty cell keeps the value of the row above (held), or is filled in along the straight line (linear).

    **Raises:** `ValueError` for no column or the same one twice, a factor that does not fit, or a negative delay.
    """

    columns: Sequence[str]
    between: Literal["held", "linear"]
    factor: ArrayLike = 1.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        check_control_columns(self.columns, self.between, self.factor, self.delay)

    def recorded(
        self, ts: Float[np.ndarray, " T"], table: Mapping[str, Float[np.ndarray, " T"]]
    ) -> Recorded:
        """The control with the values of a table's columns, in which NaN is a missing value, at the times `ts`.

        **Raises:** `ValueError` for a column without a value in its first row, or in its last one if it is linear.
        """
        filled = [self._filled(ts, name, table[name]) for name in self.columns]
        values = np.stack(filled, axis=1) * np.asarray(self.factor, float)
        if self.delay > 0:
            ts = np.concatenate([ts[:1], ts + self.delay])
            values = np.concatenate([values[:1], values])
        return Recorded(ts, values, self.between)

    def _filled(self, ts: np.ndarray, name: str, values: np.ndarray) -> np.ndarray:
        known = np.isfinite(values)
        needed = [0] if self.between == "held" else [0, -1]
        if not known[needed].all():
            raise ValueError(missing_input(name, "first" if not known[0] else "last"))
        if self.between == "linear":
            return np.interp(ts, ts[known], values[known])
        return values[known][np.cumsum(known) - 1]


def retimed(control: Any, old: np.ndarray, new: np.ndarray) -> Any:
    """A control whose record has the stamps of the same clock as a run, after the run's times `old` became `new`."""
    if not isinstance(control, Recorded):
        return control
    stamps = np.asarray(control.edges)
    return Recorded(
        stamps + np.interp(stamps, old, np.asarray(new) - old), control.values, control.between
    )


def check_not_columns(control: Any) -> None:
    """Checks that the control of a run is known, and not still in the columns of a file."""
    if isinstance(control, ControlColumns):
        raise TypeError(
            "`control` is a ControlColumns, the names of columns in a file; identify.read_csv reads them. Give a Run "
            "jaxhamel.Recorded(ts, values, between)."
        )
