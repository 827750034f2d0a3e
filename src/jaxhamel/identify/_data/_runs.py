"""One measured run: times, values with gaps, and the control during the run."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from jaxhamel import _checks
from jaxhamel._typing import Control
from jaxhamel._words import counted
from jaxhamel.identify._checks._runs import check_run, check_values, check_weights
from jaxhamel.identify._data._control_columns import check_not_columns, retimed
from jaxhamel.mechanics import as_control


class Run:
    """The measurements of one run, which may have missing values; its initial state and its sensors' offsets are unknown.

    **Arguments:**

    - `ts`: increasing times [s], `(T,)`.
    - `values`: the values of each measurement by its name, `(T, d)` in SI units (`(T,)` for d = 1); NaN if missing.
    - `control`: the control during the run: a callable pytree of t, a constant, a `jaxhamel.Feedback`, or a
      `jaxhamel.Recorded` with the samples from a log.
    - `name`: for messages and tables.
    - `guess`: an initial guess of the states, `(q, u)` with a leading axis of T; default: from the measured values.
    - `weights`: factors of the squared residuals at each time, `(T,)`, default one: the weight ¼ has the effect of twice
      the noise.

    **Raises:** `ValueError` for unordered times, wrong shapes, infinite values, negative weights, or no measurement at all.
    """

    ts: np.ndarray
    values: dict[str, np.ndarray]
    control: Any
    name: str
    guess: tuple[Any, ...] | None
    weights: np.ndarray

    def __init__(
        self,
        ts: ArrayLike,
        values: Mapping[str, ArrayLike],
        control: Control = None,
        name: str = "run",
        guess: tuple[Any, ...] | None = None,
        weights: ArrayLike | None = None,
    ):
        _checks.check_outside("ts", ts)
        check_values(values, name)
        columns = {key: np.asarray(value, dtype=float) for key, value in values.items()}
        self.ts = np.asarray(ts, dtype=float)
        self.values = {k: v[:, None] if v.ndim == 1 else v for k, v in columns.items()}
        check_not_columns(control)
        self.control, self.name, self.guess = as_control(control), name, guess
        check_run(self.ts, self.values, name)
        _checks.check_outside("weights", weights)
        self.weights = np.ones(len(self.ts)) if weights is None else np.asarray(weights, float)
        check_weights(self.weights, len(self.ts), name)

    def until(self, t: float) -> "Run":
        """The part of the run up to the time t."""
        return self._rows(self.ts <= t)

    def _rows(self, keep: np.ndarray) -> "Run":
        values = {key: value[keep] for key, value in self.values.items()}
        guess = jax.tree.map(lambda x: np.asarray(x)[keep], self.guess)
        return Run(self.ts[keep], values, self.control, self.name, guess, self.weights[keep])

    def at(self, ts: ArrayLike) -> "Run":
        """The run with the same values at other times `(T,)`, such as those of `identify.steady_clock(run.ts)`.

        A recorded control has stamps of the same clock; they move with the run's times.
        """
        control = retimed(self.control, self.ts, np.asarray(ts, float))
        return Run(ts, self.values, control, self.name, self.guess, self.weights)

    def weighed(self, weights: ArrayLike) -> "Run":
        """The run with other weights `(T,)` of its squared residuals."""
        return Run(self.ts, self.values, self.control, self.name, self.guess, weights)

    def __repr__(self) -> str:
        measured = ", ".join(f"{k} {v.shape[1]}" for k, v in self.values.items())
        span = f"{self.ts[0]:.4g} … {self.ts[-1]:.4g} s"
        return f"Run({self.name}: {counted(len(self.ts), 'time')}, {span}; {measured})"
