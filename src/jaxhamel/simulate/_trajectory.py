"""The result of a simulation: the motion, the reason for its end, and a summary to print."""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._typing import Configuration, QuasiVelocity, Scalar, Time
from jaxhamel.mechanics._examination._boundary import check_regular_mass
from jaxhamel.simulate._checks import check_dense
from jaxhamel.simulate._one_vector import VectorLayout
from jaxhamel.simulate._results import RESULTS, ResultItem, as_result, in_words, is_okay
from jaxhamel.simulate._solvers._projected import Metric, closed

_RESULTS: Any = RESULTS


class SystemAndControl(eqx.Module):
    """System and control, non-array parts static, so that a `Trajectory` can be returned from `jit` and `vmap`."""

    arrays: Any
    others: Any = eqx.field(static=True)

    @classmethod
    def of(cls, *values: Any) -> Any:
        return cls(*eqx.partition(values, eqx.is_array))

    def __call__(self) -> Any:
        return eqx.combine(self.arrays, self.others)


class Trajectory(eqx.Module):
    """The motion of a system at the times `ts`, up to `ts[-1]` or to an earlier end.

    - `ts`: the times given, `(T,)` [s].
    - `q`, `u`: configurations and independent quasi-velocities at these times, with a leading time axis. Rows after an
      early end (a failure, an event) are NaN, and False in `valid`, `(T,)`.
    - `t_end`, `q_end`, `u_end`: the last state reached: at `ts[-1]`, at the event, or just before the failure.
    - `event`: for a simulation with `event=…`, one Boolean for each condition, in their structure: whether it ended the
      simulation. None without events.
    - `result`: the reason for the end, an item of `jaxhamel.RESULTS`, comparable with those of `diffrax.RESULTS` too.
    - `succeeded`: whether it reached the end or an event.
    - `stats`: numbers of steps: `num_steps`, `num_accepted_steps`, `num_rejected_steps`, and `max_steps`.
    - `system`, `control`: as given; `metric`: that of the projection onto holonomic constraints, None without one.

    `print(trajectory)` shows a summary: steps, how it ended, drift of the invariants, constraint residual.
    """

    ts: Float[Array, " T"]
    q: Configuration
    u: Float[Array, "T k"]
    valid: Bool[Array, " T"]
    t_end: Scalar
    q_end: Configuration
    u_end: QuasiVelocity
    result: ResultItem
    stats: dict[str, Any]
    interpolation: diffrax.DenseInterpolation | None
    given: SystemAndControl
    event: Any = None
    metric: Metric | None = eqx.field(static=True, default=None)

    @property
    def system(self) -> Any:
        return self.given()[0]

    @property
    def control(self) -> Any:
        return self.given()[1]

    @property
    def succeeded(self) -> Bool[Array, ""]:
        return is_okay(self.result)

    def evaluate(self, t: Time) -> tuple[Configuration, QuasiVelocity]:
        """(q, u) at any time between `ts[0]` and `t_end`, by the solver's interpolant; NaN outside.

        **Raises:** `ValueError` without `simulate(..., dense=True)`.
        """
        check_dense(self.interpolation)
        t = jnp.asarray(t, dtype=self.ts.dtype)
        y = self.interpolation.evaluate(t)  # pyright: ignore[reportOptionalMemberAccess]
        if self.event is not None:  # the last step extends beyond the event
            over = (self.result == RESULTS.event_occurred) & (t > self.t_end)
            y = jax.tree.map(lambda x: jnp.where(over, jnp.asarray(jnp.nan, x.dtype), x), y)
        is_vector = isinstance(y, jax.Array)
        q, u = VectorLayout.of((self.q_end, self.u_end)).parts(y) if is_vector else y
        if self.metric is not None:
            q = closed(self.system, t, q, self.metric, self.control)
        return q, u

    def raise_if_failed(self) -> "Trajectory":
        """Returns the trajectory if it reached the end or an event; otherwise raises `RuntimeError` with time and cause.

        Inside `jit` the error is raised when the compiled program runs (`equinox.error_if`), without the time.
        """
        if _is_traced(self):
            ts = self.result.error_if(self.ts, ~self.succeeded)
            return eqx.tree_at(lambda s: s.ts, self, ts)
        failed = np.argwhere(
            ~np.asarray(self.succeeded)
        )  # one row for each failure: its index in the batch
        if len(failed):
            result, t_end = jax.tree.map(lambda x: x[tuple(failed[0])], (self.result, self.t_end))
            words = f"{in_words(result, t_end)} {why_it_failed(self)}".rstrip()
            raise RuntimeError(f"the simulation of {_system_name(self)} {words}")
        return self

    def __str__(self) -> str:
        from jaxhamel.simulate._summary import summary

        return f"Trajectory of {_system_name(self)} (traced)" if _is_traced(self) else summary(self)


def of_equal_steps(
    given: tuple[Any, Any],
    ts: Float[Array, " T"],
    state: tuple[Configuration, QuasiVelocity],
    taken: Any,
    max_steps: Any,
) -> Trajectory:
    """The trajectory of equal steps with these states (q, u) at `ts`, up to the first that is not finite.

    **Arguments:** `given`: system and control; `taken`: the number of steps up to each of `ts`, `(T,)`.
    """
    valid = jnp.cumprod(_finite_rows(state)).astype(bool)
    last = jnp.maximum(jnp.sum(valid) - 1, 0)
    q, u = nan_where(~valid, state)
    q_end, u_end = jax.tree.map(lambda x: x[last], state)
    steps = jnp.asarray(taken)[last]
    ended = _RESULTS.where(valid[-1], _RESULTS.successful, _RESULTS.nonfinite_state)
    counts = {"num_steps": steps, "num_accepted_steps": steps}
    return Trajectory(
        ts=ts,
        q=q,
        u=u,
        valid=valid,
        t_end=ts[last],
        q_end=q_end,
        u_end=u_end,
        result=as_result(ended),
        stats=counts | {"num_rejected_steps": jnp.zeros_like(steps), "max_steps": max_steps},
        interpolation=None,
        given=SystemAndControl.of(*given),
    )


def _finite_rows(state) -> Bool[Array, " T"]:
    rows = [jnp.isfinite(x).reshape(len(x), -1).all(axis=1) for x in jax.tree.leaves(state)]
    return jnp.all(jnp.stack(rows), axis=0)


def nan_where(missing: Bool[Array, " T"], tree: Any) -> Any:
    """The arrays of a pytree with NaN in place of the missing rows."""

    def fill(x):
        rows = missing.reshape(missing.shape + (1,) * (x.ndim - 1))
        return jnp.where(rows, jnp.asarray(jnp.nan, x.dtype), x)

    return jax.tree.map(fill, tree)


def why_it_failed(trajectory) -> str:
    """A sentence on the cause of a failure if the last state shows it, as a singular mass matrix does; otherwise empty."""
    if np.ndim(trajectory.succeeded) or bool(trajectory.succeeded):
        return ""
    end = (trajectory.t_end, trajectory.q_end, trajectory.u_end)
    try:
        check_regular_mass(trajectory.system, *end, trajectory.control)
    except ValueError as error:
        return f"There {error}"
    return ""


def _system_name(trajectory) -> str:
    return type(trajectory.system).__name__


def _is_traced(trajectory) -> bool:
    leaves = jax.tree.leaves(trajectory)
    return any(isinstance(leaf, jax.core.Tracer) for leaf in leaves) or not all(
        eqx.is_array_like(leaf) for leaf in leaves
    )
