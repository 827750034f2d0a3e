"""Controls that are known at the times of a record, such as the torques in a machine's log."""

from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from jaxhamel._typing import Control, Time
from jaxhamel.mechanics._checks._recorded import check_record, check_span, check_takes_record
from jaxhamel.mechanics._controls._control import Constant
from jaxhamel.mechanics._description._parameters import as_parameter

# A time less than this before t_k, in units of rounding, counts as t_k: times of a record and of a motion that mean the
# same, such as 0.3 and 0.1 + 0.2, differ by rounding.
_ROUNDING = 4


class Recorded(eqx.Module):
    """A control c whose values c_k are known at times t_k, such as the torques in a machine's log:

        held:     c(t) = c_k                                                   for t_k ≤ t < t_{k+1} ,
        linear:   c(t) = c_k + (c_{k+1} − c_k) (t − t_k) / (t_{k+1} − t_k)     for t_k ≤ t < t_{k+1} .

    ```python
    torque = jaxhamel.Recorded(log_times, log_torques, between="held")
    jaxhamel.simulate(system, q0, u0, ts, torque)
    identify.Run(ts, {"angle": angles}, control=torque)
    ```

    **Arguments:**

    - `ts`: the increasing times t_k of the record [s], `(T,)`, T ≥ 2.
    - `values`: the control at these times, `(T, m)`, or `(T,)` for one control.
    - `between`: `"held"` for commands that a controller sends and holds until it sends the next one; `"linear"` for
      samples of a signal that changes continuously, such as a measured force. A held record that is taken for a
      linear one acts half a sampling period too early.

    `jaxhamel.simulate` ends a step at each t_k, so that a jump costs no accuracy and no rejected steps. `identify` takes a
    held record with its mean over each of its steps.
    The control is defined from t_0 to t_{T−1}, a held one for one more period. For a signal that arrives later by a dead
    time τ give `ts + τ`. Values and times are leaves: other records of the same length do not recompile, and motions have
    derivatives by them.

    A system whose control prescribes the motion of parts needs two rates of it, which a record does not have: give
    `jaxhamel.control.Spline.fit(ts, values, n_coefficients)`, or the accelerations to `jaxhamel.MovingParts(system)`.

    **Raises:** `ValueError` for times that do not increase, values of another length, and values that are not finite.
    """

    edges: Float[
        Array, " T"
    ]  # from which on each c_k acts: t_k, earlier by a few units of rounding
    values: Float[Array, "T m"]
    between: Literal["held", "linear"] = eqx.field(static=True)

    def __init__(self, ts: ArrayLike, values: ArrayLike, between: Literal["held", "linear"]):
        check_record(ts, values, between)
        rows: Array = as_parameter(values)
        self.values = rows[:, None] if rows.ndim == 1 else rows
        times = jnp.asarray(ts, self.values.dtype)
        longest = jnp.maximum(jnp.abs(times[0]), jnp.abs(times[-1]))
        self.edges = times - _ROUNDING * jnp.finfo(times.dtype).eps * longest
        self.between = between

    @property
    def end(self) -> Array:
        """The last time at which the control is defined [s]."""
        period = self.edges[..., -1] - self.edges[..., -2] if self.between == "held" else 0.0
        return self.edges[..., -1] + period

    def __call__(self, t: Time) -> Float[Array, " m"]:
        """c(t); before t_0 and after t_{T−1} the first and the last value."""
        t = jnp.asarray(t, self.edges.dtype)
        k = self._row(t)
        if self.between == "held":
            return self.values[k]
        k = jnp.minimum(k, self.edges.shape[0] - 2)
        t0, length = self.edges[k], self.edges[k + 1] - self.edges[k]
        share = jnp.clip((t - t0) / jnp.where(length > 0, length, 1.0), 0.0, 1.0)
        return self.values[k] + share * (self.values[k + 1] - self.values[k])

    def over(self, t: Time, h: Time) -> "Recorded | Constant":
        """The control for one step from t to t + h: a held one becomes the constant with its mean over the step,

            (1/h) ∫_t^{t+h} c(s) ds ,

        which is c_k for a step between neighbouring times of the record. A step that contains a jump then has an error of
        order h² instead of h.
        """
        if self.between == "linear":
            return self
        return Constant(self._mean(*(jnp.asarray(x, self.edges.dtype) for x in (t, h))))

    def part(self, t0: float, t1: float) -> "Recorded":
        """The rows that act between two known times."""
        times = np.asarray(self.edges)
        first = int(np.clip(np.searchsorted(times, t0, side="right") - 1, 0, len(times) - 2))
        last = int(np.clip(np.searchsorted(times, t1), first + 1, len(times) - 1))
        return self._with_rows(np.arange(first, last + 1))

    def padded(self, length: int) -> "Recorded":
        """The same control with `length` rows, the last of which are copies of its last one."""
        return self._with_rows(np.minimum(np.arange(length), len(self.edges) - 1))

    def _with_rows(self, rows: np.ndarray) -> "Recorded":
        return eqx.tree_at(
            lambda r: (r.edges, r.values), self, (self.edges[rows], self.values[rows])
        )

    def _row(self, t: Array) -> Int[Array, ""]:
        last = self.edges.shape[0] - 1
        return jnp.clip(jnp.searchsorted(self.edges, t, side="right") - 1, 0, last)

    def _mean(self, t: Array, h: Array) -> Float[Array, " m"]:
        inner, outer = self.edges[1:], jnp.full(1, jnp.inf, self.edges.dtype)
        starts, ends = jnp.concatenate([-outer, inner]), jnp.concatenate([inner, outer])
        overlap = jnp.clip(jnp.minimum(t + h, ends) - jnp.maximum(t, starts), 0.0)
        total = jnp.sum(overlap)  # h but for rounding
        mean = (overlap / jnp.where(total > 0, total, 1.0)) @ self.values
        return jnp.where(total > 0, mean, self.values[self._row(t)])


def records_in(control: Control) -> list[Recorded]:
    """The records among the parts of a control: the control itself, or those that a feedback adds to its own value."""

    def is_record(x):
        return isinstance(x, Recorded)

    return [x for x in jax.tree.leaves(control, is_leaf=is_record) if is_record(x)]


def check_recorded(system: Any, ts: Any, control: Any, name: str = "`ts`") -> None:
    """Checks that the records of a control drive the system and cover the times `ts`, `(T,)`.

    `name`: that of the times, for messages.

    **Raises:** `TypeError` for a system whose control is a motion, `ValueError` for a record that is too short.
    """
    records = records_in(control)
    if records:
        check_takes_record(system)
    for record in records:
        check_span(ts, record.edges, record.end, name)


def over_step(control: Control, t: Time, h: Time) -> Control:
    """The control for one step from t to t + h, in which each record is replaced by `Recorded.over`."""

    def over(x):
        return x.over(t, h) if isinstance(x, Recorded) else x

    return jax.tree.map(over, control, is_leaf=lambda x: isinstance(x, Recorded))
