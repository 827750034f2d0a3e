"""An identification problem: a system, runs, their measurements, and the parameters to find."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel.identify._checks._parameters import check_parameters
from jaxhamel.identify._checks._problem import check_guess, check_identified, check_shown
from jaxhamel.identify._checks._runs import check_measurement_columns, check_noise, check_segments
from jaxhamel.identify._data._measurements import AbstractMeasurement, without_noise
from jaxhamel.identify._data._runs import Run
from jaxhamel.identify._data._segments import Segments, segments_of
from jaxhamel.identify._data._units import with_declared_units
from jaxhamel.identify._linearised._losses import AbstractLoss, Squares, check_loss
from jaxhamel.identify._linearised._model import Model, Unknowns
from jaxhamel.identify._parameters._parameters import AbstractParameter, check_prior_fits
from jaxhamel.identify._parameters._state_prior import StatePrior
from jaxhamel.mechanics import System
from jaxhamel.mechanics._controls._recorded import check_recorded
from jaxhamel.mechanics._description._parameters import with_array_leaves
from jaxhamel.mechanics._examination._boundary import check_methods

SEGMENT_SECONDS = 0.5  # length of a segment, if `segments` is not given
MOST_SEGMENTS = 40  # the most segments of one run, if `segments` is not given


class Problem:
    r"""An identification problem: find the parameters z, the states x_k at the nodes and the offsets o that minimise

        Σ ρ( (h(x(t), z) + o − y) / σ ) + priors

    subject to the equations of motion between the nodes, and to the condition that each segment ends where the next one
    begins. h is a measurement, y its measured value, σ its noise and ρ the loss.

    **Arguments:**

    - `system`: the system with starting values; values that are not among the parameters stay.
    - `parameters`: the parameters to find: `identify.Positive`, `Free`, `Bounded`, `BodyInertia`, `RotationalInertia`.
    - `measurements`: the measured quantities. `runs`: one or more `identify.Run`.
    - `segments`: the number of segments, one for all runs or one for each; None gives two for each second of a run, at most
      40; 1 is single shooting.
    - `dt`: longest integration step [s] (classical Runge–Kutta on the group). None starts with one step between two
      measurement times; the fit halves the steps until the integration error is small compared with the standard errors.
    - `loss`: `identify.Squares()` (the default), `Huber()`, `SoftL1()`, `Cauchy()`.
    - `priors`: priors on each run's initial state, see `identify.StatePrior`.

    **Raises:** `ValueError` or `TypeError` for arguments that do not fit together. A problem cannot be constructed under
    jit, vmap or grad.
    """

    model: Model
    groups: tuple[Segments, ...]
    runs: tuple[Run, ...]
    measurements: tuple[AbstractMeasurement, ...]
    dt: float | None

    def __init__(
        self,
        system: System,
        parameters: Sequence[AbstractParameter],
        measurements: Sequence[AbstractMeasurement],
        runs: Sequence[Run],
        *,
        segments: int | Sequence[int] | None = None,
        dt: float | None = None,
        loss: AbstractLoss | None = None,
        priors: Sequence[StatePrior] = (),
    ):
        check_identified(system)
        system = with_array_leaves(system)
        parameters = _checks.each_of("parameters", parameters, AbstractParameter)
        measurements = _checks.each_of("measurements", measurements, AbstractMeasurement)
        measurements = with_declared_units(system, measurements)
        runs = _checks.each_of("runs", runs, Run)
        priors = _checks.each_of("priors", priors, StatePrior)
        loss = Squares() if loss is None else loss
        check_loss(loss)
        check_parameters(parameters)
        check_measurement_columns(measurements, runs)
        for measurement in measurements:
            check_noise(measurement)
        for run in runs:
            _check_methods(system, run)
            check_shown(system, [*measurements, *(prior.quantity for prior in priors)], run)
            check_guess(run, system.space, system.n_independent)
        _checks.check_steps(None, None, dt)
        bare = tuple(without_noise(m) for m in measurements)
        resolved = tuple(parameter.resolved(system) for parameter in parameters)
        for parameter in resolved:
            names = parameter.names()
            check_prior_fits(parameter.path, parameter.prior, len(names))
        self.model = Model(system, resolved, bare, loss, tuple(priors))
        self.groups = segments_of(runs, measurements, _counts(segments, runs), dt)
        self.runs, self.measurements, self.dt = tuple(runs), measurements, dt

    @property
    def parameters(self) -> tuple[AbstractParameter, ...]:
        """The parameters, completed with shapes and scales from the system."""
        return self.model.parameters

    def step_options(self) -> dict[str, Any]:
        """Options for `jaxhamel.simulate`: the step `dt` of the fit, if it was given."""
        return {} if self.dt is None else {"dt": self.dt}

    def guess(self) -> Unknowns:
        """The unknowns at which a fit starts: states from each run's guess or measured values, zero offsets, and the
        coordinates of the system's own parameters.
        """
        dtype = jnp.result_type(float)
        nodes = [self._guess_at(self.runs[i], row) for i, row in self._nodes()]
        q, u = jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves), dtype), *nodes)
        offsets = jnp.zeros((len(self.runs), self.model.offset_size), dtype)
        return Unknowns(q, u, offsets, self.model.coordinates())

    def first_node(self, index: int) -> int:
        """The index, among all nodes, of the node at which a run starts."""
        runs = np.concatenate([np.asarray(group.run) for group in self.groups])
        return int(np.flatnonzero(runs == index % len(self.runs))[0])

    def _nodes(self):
        """Yields the index of the run and the row of its data for each node."""
        for group in self.groups:
            yield from zip(np.asarray(group.run), group.row, strict=True)

    def _guess_at(self, run: Run, row: int):
        """The guessed state (q, u) of a run at a row of its data, from its own guess, or from priors and measured values."""
        if run.guess is not None:
            return jax.tree.map(lambda x: np.asarray(x)[row], run.guess)
        dtype = jnp.result_type(float)
        state = (
            self.model.system.space.identity(dtype),
            jnp.zeros(self.model.system.n_independent, dtype),
        )
        for prior in self.model.priors:
            state = prior.quantity.guess(prior.mean, *state)
        for measurement in self.measurements:
            measured = run.values.get(measurement.name)
            if measured is not None:
                state = measurement.guess(jnp.asarray(_nearest(measured, row)), *state)
        return jax.tree.map(np.asarray, state)


def _nearest(measured: np.ndarray, row: int) -> np.ndarray:
    """The measured values at a row. In place of a missing value stands that of the nearest row with one; 0 if
    there is none.
    """
    rows = np.arange(len(measured))
    out = np.zeros(measured.shape[1])
    for column, values in enumerate(measured.T):
        there = rows[np.isfinite(values)]
        if len(there):
            out[column] = values[there[np.argmin(np.abs(there - row))]]
    return out


def _counts(segments, runs) -> list[int]:
    """The number of segments of each run."""
    if segments is None:
        return [
            int(np.clip(round((r.ts[-1] - r.ts[0]) / SEGMENT_SECONDS), 1, MOST_SEGMENTS))
            for r in runs
        ]
    counts = list(segments) if isinstance(segments, Sequence) else [segments] * len(runs)
    check_segments(counts, runs)
    return counts


def _check_methods(system: System, run: Run) -> None:
    """Checks the shapes that the system's methods return, by tracing them: the states of a run are not known yet."""
    dtype = jnp.result_type(float)
    q, u = system.space.identity(dtype), jnp.zeros(system.n_independent, dtype)
    check_recorded(system, run.ts, run.control, f"the run `{run.name}`")
    check_methods(system, jnp.asarray(run.ts[0], dtype), q, u, run.control)
