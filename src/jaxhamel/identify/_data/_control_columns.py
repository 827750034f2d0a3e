"""Columns of a file that hold the control during its run, such as the torques or currents in a machine's log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from jaxhamel._checks._arguments import check_positive_number
from jaxhamel.control import Spline
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
      signal, `"smooth"` for a motion whose two rates are needed: angles of masses on rails, read by encoders.
    - `factor`: the control for a value of 1 in the column, one number or one for each column, `(m,)`: a torque constant, or
      the factor of a unit.
    - `delay`: the dead time between the row and the effect [s], not negative; until then the first value acts.
    - `knots`: the number of knots of a smooth control in a second. Its spline of degree 5 is the nearest one to the samples
      in least squares: with more knots it follows faster motion, and more of the noise.

    An empty cell keeps the value of the row above (held), is filled in along the straight line (linear), or is left out
    (smooth).

    **Raises:** `ValueError` for no column or the same one twice, a factor that does not fit, or a negative delay.
    """

    columns: Sequence[str]
    between: Literal["held", "linear", "smooth"]
    factor: ArrayLike = 1.0
    delay: float = 0.0
    knots: float = 20.0

    def __post_init__(self) -> None:
        check_control_columns(self.columns, self.between, self.factor, self.delay)
        check_positive_number("knots", self.knots, "It is the number of knots in a second.")

    def recorded(
        self, ts: Float[np.ndarray, " T"], table: Mapping[str, Float[np.ndarray, " T"]]
    ) -> Recorded | Spline:
        """Makes the control from the table's columns, whose rows have the times `ts`; NaN stands for a missing value.

        **Raises:** `ValueError` for a column without a value in its first row, or in its last one unless it is held, and for
        gaps wider than the knots of a smooth one.
        """
        if self.between == "smooth":
            return self._smooth(ts, table)
        filled = [self._filled(ts, name, table[name]) for name in self.columns]
        values = np.stack(filled, axis=1) * np.asarray(self.factor, float)
        if self.delay > 0:
            ts = np.concatenate([ts[:1], ts + self.delay])
            values = np.concatenate([values[:1], values])
        return Recorded(ts, values, self.between)

    def _smooth(self, ts: np.ndarray, table: Mapping[str, np.ndarray]) -> Spline:
        n = _DEGREE + max(round((ts[-1] - ts[0]) * self.knots), 1)
        curves = [self._smooth_column(ts, name, table[name], n) for name in self.columns]
        rows = np.concatenate([np.asarray(curve.coefficients) for curve in curves], axis=1)
        rows = rows * np.asarray(self.factor, float)
        return Spline(rows, ts[0] + self.delay, ts[-1] + self.delay, _DEGREE)

    def _smooth_column(self, ts: np.ndarray, name: str, values: np.ndarray, n: int) -> Spline:
        known = np.isfinite(values)
        self._check_ends(name, known)
        return Spline.fit(ts[known], values[known, None], n, _DEGREE)

    def _check_ends(self, name: str, known: np.ndarray) -> None:
        if not known[0] or (self.between != "held" and not known[-1]):
            raise ValueError(missing_input(name, "last" if known[0] else "first"))

    def _filled(self, ts: np.ndarray, name: str, values: np.ndarray) -> np.ndarray:
        known = np.isfinite(values)
        self._check_ends(name, known)
        if self.between == "linear":
            return np.interp(ts, ts[known], values[known])
        return values[known][np.cumsum(known) - 1]


_DEGREE = 5  # of smooth controls, whose second rates are twice continuously differentiable


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
