"""An application: identification of RoboBall II, a soft-shelled ball driven by a pendulum, from published runs.

There are two kinds of runs, recognised by their columns: the ball rolls (angles of shell and joint), or its shell is held
in a stand (angle of the joint). They determine different parameters:

- stand: the joint's friction, and the pendulum's inertia from the frequency of its swings;
- rolling: rolling resistance (rate-independent hysteresis), the shell's rest angle, the pendulum's lateral centre of mass,
  and for each run the stiffness of its contact, which is part of the run's initial state: see `systems.SoftRollingPendulum`;
- masses, arms, radius and all other inertias keep their design values.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxhamel.identify._checks._problem import check_rolling_runs
from jaxhamel.identify._correlation import correlation_time
from jaxhamel.identify._data._runs import Run
from jaxhamel.identify._estimate import Estimate
from jaxhamel.identify._fit import fit
from jaxhamel.identify._linearised._losses import SoftL1
from jaxhamel.identify._parameters._parameters import Free, Positive
from jaxhamel.identify._parameters._paths import with_leaf
from jaxhamel.identify._problem import Problem
from jaxhamel.identify._roboball._roboball_runs import (
    JOINT,
    JOINT_ANGLE,
    ROLLING_STEP,
    SHELL,
    SHELL_ANGLE,
    STIFFNESS_SPREAD,
    contact,
    rms_of,
    steady,
    with_contact,
)
from jaxhamel.simulate import simulate
from jaxhamel.systems import PendulumInStand, SoftRollingPendulum


class RoboBallFit(NamedTuple):
    """The result of `fit_roboball`.

    - `system`: with all fitted parameters; `contact_stiffness` is the geometric mean over the runs.
    - `stand`, `rolling`: the estimates of the two stages; `stand` is None without runs in the stand.
    - `contacts`: κ of each rolling run, the logarithm of its stiffness relative to that mean; `spread`: their standard
      deviation, which a prediction uses as prior.
    - `rms`: of each angle of each rolling run [rad]; `total`: over all of them.
    - `widening`: the factors √τ by which the standard errors of each stage are enlarged in `rows`. Neighbouring residuals
      are correlated, and τ = 1 + 2 Σ ρ samples contain as much information as one independent sample.
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
        """Whether both stages have converged."""
        return self.rolling.converged and (self.stand is None or self.stand.converged)

    @property
    def status(self) -> str:
        """The reason for the end of each stage."""
        rolling = f"rolling: {self.rolling.status}"
        return rolling if self.stand is None else f"stand: {self.stand.status}; {rolling}"

    def rows(self) -> list[dict[str, Any]]:
        """One row for each quantity, as `Estimate.rows`, with `runs`: the runs that determine it."""
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


def fit_roboball(
    runs: Sequence[Run],
    start: SoftRollingPendulum | None = None,
    *,
    dt: float = ROLLING_STEP,
    max_iterations: int = 60,
    max_seconds: float = 600.0,
    progress: Any = None,
) -> RoboBallFit:
    """Fits the robot's parameters to its runs, both rolling ones and those in the stand, as read by `read_roboball`.

    **Arguments:** `runs`; `start`: the initial parameters, by default the design values; `dt`: longest integration step
    [s]; `max_iterations`, `max_seconds` and `progress` as for `identify.fit`, the iterations for each of the two stages,
    the seconds for both together.

    **Returns:** a `RoboBallFit`, even if a limit or Ctrl-C ended the search.

    **Raises:** `ValueError` if no run has the shell's angle.
    """
    runs = [steady(run) for run in runs]
    rolling = [run for run in runs if "shell" in run.values]
    held = [run for run in runs if "shell" not in run.values]
    check_rolling_runs(rolling)
    start = SoftRollingPendulum.roboball(**FIRST_GUESS) if start is None else start
    budget = {
        "max_iterations": max_iterations,
        "max_seconds": max_seconds / 2,
        "progress": progress,
    }
    stand = fit(stand_problem(start, held, dt), **budget) if held else None
    system = start if stand is None else _rolling(stand.system)
    estimate = _rolled(rolling_problem(system, rolling, dt), stand, budget)
    return _gathered(stand, estimate)


def _rolled(problem: Problem, stand: Estimate | None, budget: dict[str, Any]) -> Estimate:
    """The second stage of the fit.

    If Ctrl-C ends it before its first iteration, the result has its initial values, in order to keep the result of the first
    stage.
    """
    if stand is None:
        return fit(problem, **budget)
    if not stand.status.startswith("interrupted"):
        try:
            return fit(problem, **budget)
        except KeyboardInterrupt:  # raised only before the first iteration
            pass
    return fit(problem, max_seconds=0.0)._replace(status="interrupted before its first iteration")


FIRST_GUESS = {
    "contact_stiffness": 22.0,
    "rest_angle": 0.05,
    "rolling_coulomb": 1.2,
    "rolling_viscous": 0.0,  # the hysteresis of rubber does not depend on the rate
}


def stand_problem(
    start: SoftRollingPendulum, held: Sequence[Run], dt: float = ROLLING_STEP
) -> Problem:
    """The problem for the joint's friction and the pendulum's inertia; each initial state includes the tilt of the stand."""
    sought = (
        Positive("joint_coulomb", "N m"),
        Positive("joint_viscous", "N m s/rad"),
        Positive("pendulum_inertia", "kg m²"),
    )
    runs = [with_contact(run) for run in held]
    measured = (JOINT_ANGLE, contact(STIFFNESS_SPREAD, held[0]))
    return Problem(
        PendulumInStand.of(start), sought, measured, runs, segments=1, dt=dt, loss=SoftL1()
    )


def rolling_problem(
    system: SoftRollingPendulum, rolling: Sequence[Run], dt: float = ROLLING_STEP
) -> Problem:
    """The problem for rolling resistance, rest angle and lateral centre of mass; each initial state includes a stiffness."""
    sought = (
        Positive("rolling_coulomb", "N m"),
        Free("rest_angle", "rad", scale=0.1),
        Free("pendulum_com", "m", frozen=[False, True], scale=0.003),
    )
    return Problem(system, sought, (SHELL_ANGLE, JOINT_ANGLE), list(rolling), segments=1, dt=dt)


def _rolling(system: Any) -> SoftRollingPendulum:
    """The robot without its stand."""
    return SoftRollingPendulum.of(system)


def _gathered(stand: Estimate | None, rolling: Estimate) -> RoboBallFit:
    """Sets the stiffness to the geometric mean over the runs, by shifting κ to the mean zero."""
    runs = rolling.problem.runs
    kappa = np.asarray(rolling.x.q[:, 2])
    mean = kappa.mean()
    spread = float(kappa.std(ddof=1)) if len(kappa) > 1 else STIFFNESS_SPREAD
    found = _rolling(rolling.system)
    system = with_leaf(found, "contact_stiffness", found.contact_stiffness * np.exp(mean))
    left = _left(rolling, {SHELL: (0, "shell"), JOINT: (1, "joint")})
    rms = {
        run.name: {k: rms_of(e) for k, e in one.items()}
        for run, one in zip(runs, left, strict=True)
    }
    contacts = {run.name: float(value - mean) for run, value in zip(runs, kappa, strict=True)}
    series = [error for one in left for error in one.values()]
    wider = {"rolling": np.sqrt(correlation_time(series))}
    if stand is not None:
        held = _left(stand, {JOINT: (1, "joint")})
        wider["stand"] = np.sqrt(correlation_time([one[JOINT] for one in held]))
    total = rms_of(np.concatenate(series))
    return RoboBallFit(system, stand, rolling, contacts, spread, rms, total, wider)


def _left(estimate: Estimate, columns: dict[str, tuple[int, str]]) -> list[dict[str, np.ndarray]]:
    """Residuals (model − measured) of each run, by column: (place in q, name of the measurement)."""
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
