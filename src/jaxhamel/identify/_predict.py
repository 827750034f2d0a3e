"""`predict`: fits the initial state to the first seconds of a run, then simulates the whole run."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel.identify._checks._runs import check_clock, check_entries, check_first_seconds
from jaxhamel.identify._data._clock import steady_clock
from jaxhamel.identify._data._measurements import AbstractMeasurement
from jaxhamel.identify._data._runs import Run
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._fit import fit
from jaxhamel.identify._linearised._model import Model
from jaxhamel.identify._noise import error_names, error_units
from jaxhamel.identify._parameters._state_prior import StatePrior
from jaxhamel.identify._problem import Problem
from jaxhamel.mechanics import System
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.simulate._results import in_words


class Prediction(NamedTuple):
    """The result of `predict`.

    - `run`: the measured run; its first `seconds` determine the initial state.
    - `trajectory`: the simulated motion at the times of the run.
    - `shown`: the predicted values of each measurement by its name, `(T, d)`, with the offset if it can be added.
    - `errors`: the errors, predicted minus measured, by the name of the column, each `(T,)`; for an orientation, the
      components of the rotation vector between the two; NaN for a missing measurement.
    - `rms`: the root mean square of each error after the first `seconds`.
    - `initial`: the fit of the initial state.
    """

    run: Run
    seconds: float
    trajectory: Trajectory
    shown: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]
    rms: dict[str, float]
    initial: Estimate

    def __str__(self) -> str:
        units = error_units(self.initial.problem.measurements)
        width = max(map(len, self.rms), default=0)
        rows = [
            f"  {k:<{width}} {v:>12.4g}  RMS error  {units[k]}".rstrip()
            for k, v in self.rms.items()
        ]
        end = in_words(self.trajectory.result, self.trajectory.t_end)
        head = f"Prediction of {self.run.name} after its first {self.seconds:g} s: {end}"
        start = f"  initial state: {'found' if self.initial.converged else 'NOT found'}, {self.initial.status}"
        return "\n".join([head, start, *rows])


def predict(
    system: System,
    measurements: Sequence[AbstractMeasurement],
    run: Run,
    seconds: float = 0.5,
    *,
    dt: float | None = None,
    memory: float | None = None,
    priors: Sequence[StatePrior] = (),
    clock: str = "stamps",
    **options: Any,
) -> Prediction:
    r"""Predicts a run with the parameters of `system`: fits the initial state to the first seconds, then simulates the run.

    **Arguments:**

    - `system`: the system with its parameters, `estimate.system` for instance. `measurements`: those of the run, with the
      estimated noise, see `with_noise`.
    - `seconds`: the length of the first part of the run [s], which determines the initial state and the offsets; the rest
      is only compared.
    - `dt`: fixed step [s] of the fit and the simulation; None chooses steps by their error. `options`: further options for
      `jaxhamel.simulate`.
    - `memory`: time constant τ [s]. A squared residual has the weight e^(−age/τ), where the age is the time from it to the
      end of the first part: an imperfect model should match the end of this part rather than its beginning. None: equal
      weights.
    - `priors`: priors on the initial state, see `prior_over_runs`.
    - `clock`: `"steady"` replaces the times of the first part by the sampling times that `steady_clock` recovers from them
      alone; `"stamps"` keeps the times.

    **Returns:** a `Prediction`; `trajectory.succeeded` tells whether the simulation reached the end.

    **Raises:** `ValueError` if the first part has too few measurements, or no measurement lies after it.
    """
    _checks.check_kind("run", run, Run, "it must be an identify.Run.")
    start = float(run.ts[0])
    check_first_seconds(run.ts, start, seconds)
    first = _beginning(run, start + seconds, memory, clock)
    problem = Problem(system, (), measurements, [first], segments=1, dt=dt, priors=priors)
    initial = fit(problem)
    q0, u0 = jax.tree.map(lambda x: x[0], (initial.x.q, initial.x.u))
    options = {"dt": dt} | options if dt is not None else options
    times = run.ts if clock == "stamps" else _continued(first.ts, run.ts)
    motion = simulate(system, q0, u0, times, run.control, **options)
    model = problem.model
    values, errors = _predictions_and_errors(model, run, motion, initial.x.offsets[0])
    after = run.ts > start + seconds
    rms = {name: _rms(error[after]) for name, error in errors.items()}
    return Prediction(run, seconds, motion, values, errors, rms, initial)


def _beginning(run: Run, end: float, memory: float | None, clock: str) -> Run:
    """The part of a run up to the time `end`, with weights that decay with age.

    **Arguments:** `memory`: the time in which weights decay by e [s], None for equal weights; `clock`: "stamps" for the
    times of the run, "steady" for the sampling times recovered from them.
    """
    check_clock(clock)
    first = run.until(end)
    first = first.at(steady_clock(first.ts)) if clock == "steady" else first
    if memory is None:
        return first
    _checks.check_positive_number(
        "memory", memory, "Give the time in s, or None for equal weights."
    )
    return first.weighed(first.weights * np.exp((first.ts - first.ts[-1]) / memory))


def _continued(first: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The recovered sampling times `first` of the first part, then the later times `ts` of the run, made increasing.

    The later times are not recovered, since a prediction of the first part may not use them.
    """
    times = np.concatenate([first, ts[len(first) :]])
    return np.maximum.accumulate(times) + 1e-9 * np.arange(len(times))


def with_noise(
    measurements: Sequence[AbstractMeasurement], noise: np.ndarray
) -> tuple[AbstractMeasurement, ...]:
    """The measurements with the standard deviations `noise` of an `Estimate`, one for each error, `(r,)`."""
    _checks.check_shape("noise", np.asarray(noise), (sum(m.error_size for m in measurements),))
    found, start = [], 0
    for m in measurements:
        part = noise[start : start + m.error_size]
        found.append(eqx.tree_at(lambda m: m.noise, m, part, is_leaf=lambda x: x is None))
        start += m.error_size
    return tuple(found)


def compared(
    estimate: Estimate, index: int = 0
) -> tuple[Trajectory, dict[str, Any], dict[str, Any]]:
    """Simulates a run of a fit in one piece from its estimated initial state, for comparison with the measurements.

    **Arguments:** `estimate`; `index`: index of the run in the problem. **Returns:** (motion, predicted measurements by
    name, errors by name), as in a `Prediction`. **Raises:** `ValueError` for an index out of range.
    """
    problem = estimate.problem
    check_entries("`index` of a run", (index,), len(problem.runs))
    run, first = problem.runs[index], problem.first_node(index)
    q0, u0 = jax.tree.map(lambda x: x[first], (estimate.x.q, estimate.x.u))
    motion = simulate(estimate.system, q0, u0, run.ts, run.control, **problem.step_options())
    model = eqx.tree_at(lambda m: m.system, problem.model, estimate.system)
    return motion, *_predictions_and_errors(model, run, motion, estimate.x.offsets[index])


def _predictions_and_errors(model: Model, run: Run, motion: Trajectory, offsets):
    """The predicted measurements along a motion by name, and the errors by the names of their columns."""
    errors, shown = {}, {}
    pieces = model.split_offsets(offsets)
    for m, offset in zip(model.measurements, pieces, strict=True):
        value = np.asarray(_measured_along(m, model.system, motion, run.control))
        shift = np.asarray(offset) if m.size == m.error_size else 0.0
        shown[m.name] = value + shift
        given = run.values.get(m.name, np.full(value.shape, np.nan))
        complete = np.where(np.isfinite(given), given, np.asarray(m.missing))
        error = np.asarray(_errors_along(m, jnp.asarray(complete), jnp.asarray(value), offset))
        known = np.isfinite(given)
        if m.size != m.error_size:
            known = np.broadcast_to(known.all(axis=1, keepdims=True), error.shape)
        error = np.where(known, error, np.nan)
        errors |= dict(zip(_error_names(m), error.T, strict=True))
    return shown, errors


@compiled
def _measured_along(measurement, system, motion: Trajectory, control):
    return jax.vmap(lambda t, q, u: measurement(system, t, q, u, control))(
        motion.ts, motion.q, motion.u
    )


@compiled
def _errors_along(measurement, given, value, offset):
    return jax.vmap(measurement.error, (0, 0, None))(given, value, offset)


def _error_names(measurement) -> list[str]:
    return error_names([measurement])


def _rms(error: np.ndarray) -> float:
    known = error[np.isfinite(error)]
    return float(np.sqrt(np.mean(known**2))) if len(known) else float("nan")
