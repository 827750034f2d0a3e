r"""Experiment design: finds the motion of masses or motors from which measurements tell most about the parameters.

    F(θ) = J_zᵀ J_z − J_zᵀ J_w (J_wᵀ J_w + W)⁻¹ J_wᵀ J_z ,    J = ∂(h/σ)/∂(w, z) along the motion under the curve θ(t)

F is the Fisher information about the coordinates z of the parameters, after the initial state w (prior standard deviation
W^{−1/2}) is eliminated; h are the predicted measurements and σ their noise. One of these criteria is minimised over the
free parameters of the curve; P is the number of coordinates:

    D   −log det F / P      the volume of the ellipsoid of confidence
    A   log(tr F⁻¹ / P)     the mean variance
    E   −log λ_min(F)       the worst direction

Source: Fedorov 1972, Theory of Optimal Experiments; Swevers et al. 1997 for the excitation of robots.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from jaxhamel import _checks
from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Scalar
from jaxhamel._words import counted
from jaxhamel.control import free_parameters
from jaxhamel.control._checks._problem import check_curve
from jaxhamel.identify._checks._parameters import check_parameters
from jaxhamel.identify._checks._problem import (
    check_criterion,
    check_identified,
    check_informative,
    check_noise_given,
    check_planned,
)
from jaxhamel.identify._data._measurements import AbstractMeasurement
from jaxhamel.identify._data._units import with_declared_units
from jaxhamel.identify._estimate import quantities
from jaxhamel.identify._flat import flat_directions
from jaxhamel.identify._linearised._losses import Squares
from jaxhamel.identify._linearised._model import Model
from jaxhamel.identify._linearised._rollout import predicted, states
from jaxhamel.identify._linearised._solver import BFGSSearch
from jaxhamel.identify._parameters._parameters import AbstractParameter
from jaxhamel.mechanics import System
from jaxhamel.mechanics._description._parameters import with_array_leaves
from jaxhamel.mechanics._examination._boundary import check_methods
from jaxhamel.mechanics._tangent import retract, tangent_size

CRITERIA = ("D", "A", "E")
SOFT = 1e3  # weight of the squared excess over the limit of rate or acceleration, in units of that limit


class Experiment:
    """A planned run: its measurements with times and noise, the parameters to estimate, and the initial state.

    **Arguments:**

    - `system`: the system, with the expected values of the parameters.
    - `parameters`, `measurements`: as for `identify.Problem`; each measurement needs its `noise`.
    - `ts`: times of the measurements [s], `(T,)`; `dt`: longest integration step [s], by default one step between two times.
    - `q0`, `u0`: the initial state.
    - `state_error`: prior standard deviation of each of the n + k coordinates of the initial state, or one number for all;
      a large number stands for an unknown state.
    - `max_rate`, `max_acceleration`: soft limits on |θ̇| and |θ̈| of the curve, one number or one for each entry.

    **Raises:** `ValueError` for arguments that do not fit together, or a measurement without noise.
    """

    def __init__(
        self,
        system: System,
        parameters: Sequence[AbstractParameter],
        measurements: Sequence[AbstractMeasurement],
        ts: ArrayLike,
        q0: Configuration,
        u0: ArrayLike,
        *,
        state_error: float = 1.0,
        max_rate: ArrayLike | None = None,
        max_acceleration: ArrayLike | None = None,
        dt: float | None = None,
    ):
        check_identified(system)
        system = with_array_leaves(system)
        parameters = _checks.each_of("parameters", parameters, AbstractParameter)
        measurements = _checks.each_of("measurements", measurements, AbstractMeasurement)
        measurements = with_declared_units(system, measurements)
        check_parameters(parameters)
        _checks.check_times(jnp.asarray(ts))
        check_noise_given(measurements)
        check_planned(system, q0, u0, state_error, (max_rate, max_acceleration), dt)
        resolved = tuple(parameter.resolved(system) for parameter in parameters)
        self.model: Model = Model(system, resolved, tuple(measurements), Squares())
        dtype = jnp.result_type(float)
        self.ts: Array = jnp.asarray(ts, dtype)
        self.steps: Any = 1 if dt is None else _steps_in_longest(np.asarray(ts, float), dt)
        self.start: tuple[Any, Array] = (
            jax.tree.map(lambda x: jnp.asarray(x, dtype), q0),
            jnp.asarray(u0, dtype),
        )
        self.state_error: Array = jnp.asarray(state_error, dtype)
        self.limits: tuple[Array | None, ...] = tuple(
            None if x is None else jnp.asarray(x, dtype) for x in (max_rate, max_acceleration)
        )

    def information(self, curve: Any) -> Float[Array, "P P"]:
        """The Fisher information F about the coordinates z from a run in which the masses (or motors) follow the curve."""
        check_methods(self.model.system, self.ts[0], *self.start, curve)
        # With an array of step numbers finer steps do not recompile; reverse mode needs a Python number.
        data = jnp.full(self.ts.shape[0] - 1, self.steps)
        steps = self.steps if _checks.any_tracer(curve) else data
        return _information(self.model, curve, self.start, self.ts, self.state_error, steps)

    def errors(self, curve: Any) -> dict[str, float]:
        """The standard errors of an estimate from this experiment, by the names of the quantities, in their own units.

        The error of a frozen quantity is 0, that of a quantity that the experiment does not determine is infinite.
        """
        _checks.check_outside("curve", curve)
        F, model = self.information(curve), self.model
        names = [name for p in model.parameters for name in p.names()]
        known = (np.asarray(x) for x in quantities(model, model.coordinates()))
        values, J, sizes = known
        covariance, _, loose = flat_directions(np.asarray(F), J, values, sizes, names)
        spread = np.sqrt(np.maximum(np.diagonal(J @ covariance @ J.T), 0.0))
        return dict(zip(names, np.where(loose, np.inf, spread).tolist(), strict=True))


def _steps_in_longest(ts: np.ndarray, dt: float) -> int:
    return max(int(np.ceil(np.max(np.diff(ts)) / dt - 1e-6)), 1)


class Design(NamedTuple):
    """The result of `design`.

    - `curve`: the best curve; `information`: its F, `(P, P)`; `start_information`: F of the initial curve.
    - `gain`: (det F / det F_start)^{1/P}, the geometric mean of the factors by which the information grew.
    - `errors`: standard errors by the names of the quantities.
    - `criterion`: name of the criterion; `history`: its value after each step.
    - `seconds`: run time; `converged`: whether the search converged.
    """

    curve: Any
    information: np.ndarray
    start_information: np.ndarray
    gain: float
    errors: dict[str, float]
    criterion: str
    history: np.ndarray
    seconds: float
    converged: bool

    def __str__(self) -> str:
        width = max(len(name) for name in self.errors)
        rows = [f"  {name:<{width}}  ± {error:.3g}" for name, error in self.errors.items()]
        how = "converged" if self.converged else "stopped"
        head = f"{self.criterion}-optimal experiment, {how} after {counted(len(self.history) - 1, 'step')}"
        return "\n".join([head, f"  information per parameter × {self.gain:.3g}", *rows])


def design(
    experiment: Experiment,
    curve: Any,
    criterion: str = "D",
    *,
    max_steps: int = 100,
    tolerance: float = 1e-3,
    progress: Callable[[int, float], None] | None = None,
) -> Design:
    """Finds the control curve near the given one whose experiment gives most information, by BFGS.

    **Arguments:**

    - `experiment`: see `Experiment`.
    - `curve`: the initial control, t ↦ `(n,)`, whose leaves are optimised; `jaxhamel.control.Limited(…)` keeps it within the
      rails.
    - `criterion`: `"D"`, `"A"` or `"E"`.
    - `max_steps`: the largest number of steps; `tolerance`: the search has converged when a step changes criterion and curve
      by less than this fraction.
    - `progress`: a function of (step number, value of the criterion), called after each step.

    **Returns:** a `Design` with the best curve found, even if the search did not converge or was ended by Ctrl-C.

    **Raises:** `ValueError` or `TypeError` for invalid arguments, such as an unknown criterion; `ValueError` if the
    initial curve leaves a parameter undetermined.
    """
    _checks.check_kind("experiment", experiment, Experiment, "it must be an identify.Experiment.")
    _checks.check_outside("curve", curve)
    check_curve(curve, experiment.ts)
    _checks.check_count("max_steps", max_steps)
    _checks.check_positive("tolerance", tolerance, "Say, 1e-3.")
    if progress is not None:
        _checks.check_called_with("progress", progress, 2, "(step, criterion) -> None")
    check_criterion(criterion, CRITERIA)
    began, (p, rebuild) = time.monotonic(), free_parameters(curve)
    first = experiment.information(curve)
    check_informative(np.asarray(first))
    cost, arrays = _cost(experiment, criterion, rebuild)
    search = BFGSSearch(cost, p, arrays, max_steps, tolerance)
    reported = None if progress is None else lambda at: at[0] and progress(*at)
    converged = search.run(reported)[0]
    found = rebuild(search.p)
    last = experiment.information(found)
    return Design(
        found,
        np.asarray(last),
        np.asarray(first),
        _gain(np.asarray(first), np.asarray(last)),
        experiment.errors(found),
        criterion,
        search.history["cost"],
        time.monotonic() - began,
        converged,
    )


def _cost(
    experiment: Experiment, criterion: str, rebuild: Callable[..., Any]
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Returns (the cost as a function of the curve's free parameters p and the experiment's arrays, these arrays)."""

    def cost(p, arrays):
        model, start, ts, state_error = arrays
        curve = rebuild(p)
        F = _information(model, curve, start, ts, state_error, experiment.steps)
        return _criterion(criterion, F) + _excess(curve, ts, experiment.limits)

    return cost, (experiment.model, experiment.start, experiment.ts, experiment.state_error)


def _gain(first: np.ndarray, last: np.ndarray) -> float:
    """The gain in information per parameter, (det F / det F_start)^{1/P}."""
    ratio = np.linalg.slogdet(last)[1] - np.linalg.slogdet(first)[1]
    return float(np.exp(ratio / len(first)))


@compiled
def _information(model: Model, curve, start, ts, state_error, steps) -> Float[Array, "P P"]:
    z = model.coordinates()
    n = tangent_size(model.system)

    def measured(increments):
        at = z + increments[n:]
        motion = states(model, at, curve, retract(model.system, start, increments[:n]), ts, steps)
        values = predicted(model, model.system_at(at), curve, motion, ts)
        return values, values

    slopes, values = jax.jacfwd(measured, has_aux=True)(jnp.zeros(n + z.shape[0], z.dtype))
    J = jnp.concatenate(list(map(_in_noise, model.measurements, values, slopes)))
    F = J.T @ J
    inner = F[:n, :n] + jnp.eye(n, dtype=F.dtype) / state_error**2
    return F[n:, n:] - F[n:, :n] @ jnp.linalg.solve(inner, F[:n, n:])


def _in_noise(measurement: AbstractMeasurement, values, slopes) -> Float[Array, "m D"]:
    """The derivatives ∂(error/σ) of one measurement, from its values `(T, d)` and their derivatives `(T, d, D)`."""
    none = jnp.zeros(measurement.error_size, values.dtype)
    of_error = jax.jacfwd(lambda at, value: measurement.error(at, value, none), 1)
    J = jax.vmap(of_error)(values, values) @ slopes
    noise = jnp.broadcast_to(jnp.asarray(measurement.noise, J.dtype), J.shape[1:2])
    return (J / noise[None, :, None]).reshape(-1, J.shape[-1])


def _criterion(name: str, F: Float[Array, "P P"]) -> Scalar:
    """The value of the criterion D, A or E."""
    P = F.shape[0]
    if name == "D":
        return -jnp.linalg.slogdet(F)[1] / P
    if name == "A":
        return jnp.log(jnp.trace(jnp.linalg.inv(F)) / P)
    return -jnp.log(jnp.linalg.eigvalsh(F)[0])


def _excess(curve, ts, limits) -> Scalar:
    """The penalty for |θ̇| and |θ̈| above their limits: `SOFT` times the mean squared excess in units of the limits."""

    def rate(t):
        return jax.jvp(curve, (t,), (jnp.ones_like(t),))[1]

    def acceleration(t):
        return jax.jvp(rate, (t,), (jnp.ones_like(t),))[1]

    total = jnp.zeros((), ts.dtype)
    for function, limit in zip((rate, acceleration), limits, strict=True):
        if limit is not None:
            share = (
                jnp.abs(jax.vmap(function)(ts)) / jnp.broadcast_to(limit, curve(ts[0]).shape)[None]
            )
            total = total + SOFT * jnp.mean(jnp.maximum(share - 1.0, 0.0) ** 2)
    return total
