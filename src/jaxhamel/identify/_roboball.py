"""A real robot: RoboBall II, a soft-shelled ball driven by a pendulum, from its measured runs to the prediction of another.

Two kinds of runs, told apart by their columns: the ball rolls (angles of shell and joint), or its shell is held in a stand
(angle of the joint). What is found from which:

- stand: the joint's friction, and the pendulum's inertia from the frequency of its swings;
- rolling: rolling resistance (hysteresis, whatever the speed), the shell's rest angle, the pendulum's lateral centre of
  mass, and of each run the stiffness of its contact, which is part of the run's initial state: see
  `systems.SoftRollingPendulum`;
- masses, arms, radius and the other inertias stay as drawn.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel.identify._clock import steady_clock
from jaxhamel.identify._correlated import widening
from jaxhamel.identify._csv import read_csv
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._fit import fit
from jaxhamel.identify._losses import SoftL1
from jaxhamel.identify._measurements import Coordinate, Measured
from jaxhamel.identify._parameters import Free, Positive
from jaxhamel.identify._paths import with_leaf
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._runs import Run
from jaxhamel.simulate import Trajectory, simulate
from jaxhamel.systems import PendulumInStand, SoftRollingPendulum

SHELL, JOINT = "ball_roll.position", "roll_joint.position"
MODEL_ERROR = (
    0.01  # rad, what the model leaves of either angle over a run; weighs runs against priors
)
SENSOR_NOISE = 0.003  # rad, of an angle at the end of the first seconds, where a prediction starts
MEMORY = 0.15  # s, time in which the weight of older values falls to 1/e when a prediction starts
SPREAD = 0.3  # of log stiffness between runs, where fewer than two runs tell it
STEP = 0.01  # s

JOINT_ANGLE = Coordinate(index=1, name="joint", columns=(JOINT,), noise=MODEL_ERROR)
SHELL_ANGLE = Coordinate(index=0, name="shell", columns=(SHELL,), noise=MODEL_ERROR)


class RoboBallFit(NamedTuple):
    """What `fit_roboball` found.

    - `system`: with all parameters found; `contact_stiffness` the geometric mean over the runs.
    - `stand`, `rolling`: the estimates of the two stages; `stand` is None where there was no such run.
    - `contacts`: κ of each rolling run, the logarithm of its stiffness relative to that mean; `spread`: their standard
      deviation, which a prediction takes as prior.
    - `rms`: of each angle of each rolling run [rad]; `total`: over all of them.
    - `widening`: by how much the standard errors of each stage grow in `rows`, √τ: what the model leaves is alike from
      one sample to the next, and τ = 1 + 2 Σ ρ samples tell as much as one independent one.
    """

    system: SoftRollingPendulum
    stand: Estimate | None
    rolling: Estimate
    contacts: dict[str, float]
    spread: float
    rms: dict[str, dict[str, float]]
    total: float
    widening: dict[str, float]

    @property
    def converged(self) -> bool:
        """Whether both stages came to their end."""
        return self.rolling.converged and (self.stand is None or self.stand.converged)

    @property
    def status(self) -> str:
        """How each stage ended."""
        rolling = f"rolling: {self.rolling.status}"
        return rolling if self.stand is None else f"stand: {self.stand.status}; {rolling}"

    def rows(self) -> list[dict[str, Any]]:
        """One for each quantity, as `Estimate.rows`, with `runs`: which runs determine it."""
        rows = [] if self.stand is None else self._stage("stand", self.stand.rows())
        rows += self._stage("rolling", [row for row in self.rolling.rows() if not row["frozen"]])
        stiffness = float(self.system.contact_stiffness)
        rows.append(
            {
                "parameter": "contact_stiffness",
                "estimate": stiffness,
                "standard_error": stiffness * self.spread / np.sqrt(len(self.contacts)),
                "unit": "N m/rad",
                "frozen": False,
                "remark": "geometric mean over the runs",
                "runs": "rolling",
            }
        )
        return rows

    def _stage(self, runs: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        wide = self.widening[runs]
        return [
            {**row, "runs": runs, "standard_error": row["standard_error"] * wide} for row in rows
        ]


class RoboBallPrediction(NamedTuple):
    """What `predict_roboball` found: the motion at the run's times, errors (model − measured), their RMS after `seconds`."""

    run: Run
    seconds: float
    trajectory: Trajectory
    errors: dict[str, np.ndarray]
    rms: dict[str, float]
    initial: Estimate


def read_roboball(path: str | Path) -> Run:
    """A run from one of the robot's files: `timestamp` [ns], the joint's angle and, where the ball rolls, the shell's.

    **Raises:** `DataError`, one line with file, line and column, for a file that cannot be used.
    """
    return read_csv(
        path,
        (SHELL_ANGLE, JOINT_ANGLE),
        time="timestamp",
        units={"timestamp": "ns"},
        required=(JOINT,),
        from_zero=True,
    )


def fit_roboball(
    runs: Sequence[Run],
    start: SoftRollingPendulum | None = None,
    *,
    dt: float = STEP,
    max_iterations: int = 60,
    max_seconds: float = 600.0,
    progress: Any = None,
) -> RoboBallFit:
    """The robot's parameters from its runs, rolling ones and ones in the stand, as `read_roboball` gives them.

    **Arguments:** `runs`; `start`: what to start from and to keep where nothing is sought, by default the robot as drawn;
    the others as for `identify.fit`, for each of the two stages.

    **Raises:** `ValueError` where no run has the shell's angle.
    """
    runs = [_steady(run) for run in runs]
    rolling = [run for run in runs if "shell" in run.values]
    held = [run for run in runs if "shell" not in run.values]
    _checks.check_rolling_runs(rolling)
    start = SoftRollingPendulum.roboball(**FIRST_GUESS) if start is None else start
    budget = {
        "max_iterations": max_iterations,
        "max_seconds": max_seconds / 2,
        "progress": progress,
    }
    stand = fit(stand_problem(start, held, dt), **budget) if held else None
    system = start if stand is None else _rolling(stand.system)
    estimate = fit(rolling_problem(system, rolling, dt), **budget)
    return _gathered(stand, estimate)


FIRST_GUESS = {
    "contact_stiffness": 22.0,
    "rest_angle": 0.05,
    "rolling_coulomb": 1.2,
    "rolling_viscous": 0.0,  # a rubber's hysteresis does not depend on its rate
}


def stand_problem(start: SoftRollingPendulum, held: Sequence[Run], dt: float = STEP) -> Problem:
    """The joint's friction and the pendulum's inertia from runs in the stand, whose tilt is part of each initial state."""
    sought = (
        Positive("joint_coulomb", "N m"),
        Positive("joint_viscous", "N m s/rad"),
        Positive("pendulum_inertia", "kg m²"),
    )
    runs = [_with_contact(run) for run in held]
    measured = (JOINT_ANGLE, _contact(SPREAD, held[0]))
    return Problem(
        PendulumInStand.of(start), sought, measured, runs, segments=1, dt=dt, loss=SoftL1()
    )


def rolling_problem(
    system: SoftRollingPendulum, rolling: Sequence[Run], dt: float = STEP
) -> Problem:
    """Rolling resistance, rest angle and lateral centre of mass from rolling runs; the stiffness is of each run's state."""
    sought = (
        Positive("rolling_coulomb", "N m"),
        Free("rest_angle", "rad", scale=0.1),
        Free("pendulum_com", "m", frozen=[False, True], scale=0.003),
    )
    return Problem(system, sought, (SHELL_ANGLE, JOINT_ANGLE), list(rolling), segments=1, dt=dt)


def predict_roboball(
    system: SoftRollingPendulum,
    run: Run,
    seconds: float = 0.5,
    *,
    spread: float = SPREAD,
    dt: float = STEP,
) -> RoboBallPrediction:
    """The prediction of a rolling run from its first seconds.

    The initial state (angles, rates, and κ, with the prior that earlier runs give it) is fitted to the first seconds. The
    weight of a value falls with its age, e^(−age/τ) in the square, τ = 0.15 s: a model that is not perfect should be at
    the right place at the end of that time, not at its beginning.

    **Arguments:** `spread`: standard deviation of κ beforehand, of `RoboBallFit`; the others as for `identify.predict`.

    **Raises:** `ValueError` where the first seconds hold too little, or all of the run.
    """
    _checks.check_rolling_runs([run] if "shell" in run.values else [])
    _checks.check_first_seconds(run.ts, float(run.ts[0]), seconds)
    first = _steady(run.until(float(run.ts[0]) + seconds))
    times = _continued(first.ts, run.ts)
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
    weighed = Run(first.ts, {"recent": weight * angles}, name=run.name, guess=guess)
    measured = (recent, _contact(spread, first))
    initial = fit(Problem(system, (), measured, [_with_contact(weighed)], segments=1, dt=dt))
    q0, u0 = jax.tree.map(lambda x: x[0], (initial.x.q, initial.x.u))
    motion = simulate(system, q0, u0, times, dt=dt)
    errors = {
        SHELL: np.asarray(motion.q[:, 0]) - run.values["shell"][:, 0],
        JOINT: np.asarray(motion.q[:, 1]) - run.values["joint"][:, 0],
    }
    after = run.ts > float(run.ts[0]) + seconds
    rms = {name: _rms(error[after]) for name, error in errors.items()}
    return RoboBallPrediction(run, seconds, motion, errors, rms, initial)


class _Recent(eqx.Module):
    """Both angles, with weights that fade with the age of a value."""

    end: jax.Array

    def __call__(self, system, t, q, u, control):
        return jnp.exp((t - self.end) / (2 * MEMORY)) * q[:2]


def _kappa(system, t, q, u, control):
    return q[2]


def _contact(spread: float, run: Run) -> Measured:
    """κ is 0 give or take `spread`: the prior of an initial state, put in as a measurement that all rows share."""
    noise = spread * np.sqrt(len(run.ts))
    return Measured(function=_kappa, columns=("contact",), name="contact", noise=noise)


def _steady(run: Run) -> Run:
    """At the times of the sensor's clock, not at those when a message arrived, up to 35 ms later."""
    return Run(steady_clock(run.ts), run.values, run.control, run.name, run.guess)


def _continued(first: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The clock's times of the first seconds, then the stamps as they are: nothing later is used to begin with."""
    times = np.concatenate([first, ts[len(first) :]])
    return np.maximum.accumulate(times) + 1e-9 * np.arange(len(times))


def _with_contact(run: Run) -> Run:
    values = {**run.values, "contact": np.zeros(len(run.ts))}
    return Run(run.ts, values, run.control, run.name, run.guess)


def _guess(ts: np.ndarray, angles: np.ndarray):
    """States to start from: the measured angles, mean rates."""
    known = np.where(np.isfinite(angles), angles, np.nanmean(angles, axis=0))
    rate = (known[-1] - known[0]) / (ts[-1] - ts[0])
    q = np.concatenate([known, np.zeros((len(ts), 1))], axis=1)
    return q, np.tile(rate, (len(ts), 1))


def _rolling(system: Any) -> SoftRollingPendulum:
    """The robot out of its stand."""
    return SoftRollingPendulum.of(system)


def _gathered(stand: Estimate | None, rolling: Estimate) -> RoboBallFit:
    """The nominal stiffness is the geometric mean of those of the runs: κ is shifted so that its mean is zero."""
    runs = rolling.problem.runs
    kappa = np.asarray(rolling.x.q[:, 2])
    mean = kappa.mean()
    spread = float(kappa.std(ddof=1)) if len(kappa) > 1 else SPREAD
    found = _rolling(rolling.system)
    system = with_leaf(found, "contact_stiffness", found.contact_stiffness * np.exp(mean))
    left = _left(rolling, {SHELL: (0, "shell"), JOINT: (1, "joint")})
    rms = {
        run.name: {k: _rms(e) for k, e in one.items()} for run, one in zip(runs, left, strict=True)
    }
    contacts = {run.name: float(value - mean) for run, value in zip(runs, kappa, strict=True)}
    series = [error for one in left for error in one.values()]
    wider = {"rolling": widening(series)}
    if stand is not None:
        held = _left(stand, {JOINT: (1, "joint")})
        wider["stand"] = widening([one[JOINT] for one in held])
    total = _rms(np.concatenate(series))
    return RoboBallFit(system, stand, rolling, contacts, spread, rms, total, wider)


def _left(estimate: Estimate, columns: dict[str, tuple[int, str]]) -> list[dict[str, np.ndarray]]:
    """Model − measured of each run, by column: (place in q, name of the measurement)."""
    left = []
    for i, run in enumerate(estimate.problem.runs):
        start = (estimate.x.q[i], estimate.x.u[i])
        motion = simulate(estimate.system, *start, run.ts, **estimate.problem.step_options())
        left.append(
            {
                column: np.asarray(motion.q[:, place]) - run.values[name][:, 0]
                for column, (place, name) in columns.items()
            }
        )
    return left


def _rms(error: np.ndarray) -> float:
    return float(np.sqrt(np.nanmean(error**2)))
