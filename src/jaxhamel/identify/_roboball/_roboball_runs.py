"""RoboBall's runs: measurements, files, and sampling times."""

from pathlib import Path

import numpy as np

from jaxhamel.identify._data._clock import steady_clock
from jaxhamel.identify._data._csv import read_csv
from jaxhamel.identify._data._measurements import Coordinate, Measured
from jaxhamel.identify._data._runs import Run

SHELL, JOINT = "ball_roll.position", "roll_joint.position"
# [rad], typical residual of each angle over a run, which weighs runs against priors
MODEL_ERROR = 0.01
STIFFNESS_SPREAD = (
    0.3  # standard deviation of log stiffness between runs, if there are fewer than two
)
ROLLING_STEP = 0.01  # s

JOINT_ANGLE = Coordinate(index=1, name="joint", columns=(JOINT,), noise=MODEL_ERROR)
SHELL_ANGLE = Coordinate(index=0, name="shell", columns=(SHELL,), noise=MODEL_ERROR)


def read_roboball(path: str | Path) -> Run:
    """A run from one of the robot's files: `timestamp` [ns], the joint's angle and, for a rolling run, the shell's.

    **Arguments:** `path`: of the CSV file. **Returns:** a `Run`, its times from zero.

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


def _kappa(system, t, q, u, control):
    return q[2]


def contact(spread: float, run: Run) -> Measured:
    """The prior κ = 0 ± `spread` of the initial state, formulated as a measurement in every row."""
    noise = spread * np.sqrt(len(run.ts))
    return Measured(function=_kappa, columns=("contact",), name="contact", noise=noise)


def steady(run: Run) -> Run:
    """The run at the sensor's sampling times instead of the arrival times of messages, which are up to 35 ms later."""
    return Run(steady_clock(run.ts), run.values, run.control, run.name, run.guess)


def with_contact(run: Run) -> Run:
    """The run with the zeros that `contact` measures."""
    values = {**run.values, "contact": np.zeros(len(run.ts))}
    return Run(run.ts, values, run.control, run.name, run.guess)


def rms_of(error: np.ndarray) -> float:
    """Root mean square, without missing values."""
    return float(np.sqrt(np.nanmean(error**2)))
