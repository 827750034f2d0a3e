"""Predicts a run of RoboBall from its first seconds, with parameters fitted to other runs."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.identify._checks._problem import check_first_seconds, check_rolling_runs
from jaxhamel.identify._data._measurements import Measured
from jaxhamel.identify._data._runs import Run
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._fit import fit
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._roboball._roboball_runs import (
    JOINT,
    ROLLING_STEP,
    SHELL,
    STIFFNESS_SPREAD,
    contact,
    rms_of,
    steady,
    with_contact,
)
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.systems import SoftRollingPendulum

SENSOR_NOISE = 0.003  # [rad], standard deviation of an angle at the end of the first seconds, where the prediction starts
MEMORY = 0.15  # [s], age at which the weight of a value has fallen to 1/e


class RoboBallPrediction(NamedTuple):
    """The result of `predict_roboball`.

    - `trajectory`: the motion at the times of `run`. `errors`: of each angle, model − measured [rad], `(T,)`; `rms`: of
      each, after the first `seconds`. `initial`: the fit of the initial state.
    """

    run: Run
    seconds: float
    trajectory: Trajectory
    errors: dict[str, np.ndarray]
    rms: dict[str, float]
    initial: Estimate


def predict_roboball(
    system: SoftRollingPendulum,
    run: Run,
    seconds: float = 0.5,
    *,
    spread: float = STIFFNESS_SPREAD,
    dt: float = ROLLING_STEP,
) -> RoboBallPrediction:
    """Predicts a rolling run from its first seconds.

    The initial state (angles, rates, and κ, with a prior from earlier runs) is fitted to the first seconds. The
    weight of a squared residual falls with its age, as e^(−age/τ) with τ = 0.15 s: an imperfect model should match the end
    of this interval rather than its beginning.

    **Arguments:** `system`: with fitted parameters, `RoboBallFit.system`; `run` and `seconds` as for
    `identify.predict`; `spread`: prior standard deviation of κ, see `RoboBallFit`; `dt`: longest step [s].

    **Returns:** a `RoboBallPrediction`.

    **Raises:** `ValueError` if the first seconds contain too few measurements, or the whole run.
    """
    check_rolling_runs([run] if "shell" in run.values else [])
    check_first_seconds(run.ts, float(run.ts[0]), seconds)
    first = steady(run.until(float(run.ts[0]) + seconds))
    initial = fit(_problem(system, first, spread, dt))
    q0, u0 = jax.tree.map(lambda x: x[0], (initial.x.q, initial.x.u))
    motion = simulate(system, q0, u0, _continued(first.ts, run.ts), dt=dt)
    errors = {
        SHELL: np.asarray(motion.q[:, 0]) - run.values["shell"][:, 0],
        JOINT: np.asarray(motion.q[:, 1]) - run.values["joint"][:, 0],
    }
    after = run.ts > float(run.ts[0]) + seconds
    rms = {name: rms_of(error[after]) for name, error in errors.items()}
    return RoboBallPrediction(run, seconds, motion, errors, rms, initial)


def _problem(system: SoftRollingPendulum, first: Run, spread: float, dt: float) -> Problem:
    """The problem whose only unknown is the initial state with κ; the measured angles are weighted by their age."""
    end = float(first.ts[-1])
    angles = np.concatenate([first.values["shell"], first.values["joint"]], axis=1)
    weight = np.exp((first.ts - end) / (2 * MEMORY))[:, None]
    guess = _guess(first.ts, angles)
    recent = Measured(
        function=_Recent(jnp.asarray(end)),
        columns=(SHELL, JOINT),
        name="recent",
        unit="rad",
        noise=SENSOR_NOISE,
    )
    weighed = Run(first.ts, {"recent": weight * angles}, name=first.name, guess=guess)
    measured = (recent, contact(spread, first))
    return Problem(system, (), measured, [with_contact(weighed)], segments=1, dt=dt)


class _Recent(eqx.Module):
    """A measurement of both angles, with weights that decrease with the age of a value."""

    end: jax.Array

    def __call__(self, system, t, q, u, control):
        return jnp.exp((t - self.end) / (2 * MEMORY)) * q[:2]


def _continued(first: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The sampling times of the first seconds, followed by the unchanged stamps, since later data must not be used."""
    times = np.concatenate([first, ts[len(first) :]])
    return np.maximum.accumulate(times) + 1e-9 * np.arange(len(times))


def _guess(ts: np.ndarray, angles: np.ndarray):
    """A guess of the states: the measured angles, and mean rates."""
    known = np.where(np.isfinite(angles), angles, np.nanmean(angles, axis=0))
    rate = (known[-1] - known[0]) / (ts[-1] - ts[0])
    q = np.concatenate([known, np.zeros((len(ts), 1))], axis=1)
    return q, np.tile(rate, (len(ts), 1))
