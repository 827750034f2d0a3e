"""RoboBall's runs: what is measured of it, from which files, at which times."""

from pathlib import Path

import numpy as np

from jaxhamel.identify._data._csv import read_csv
from jaxhamel.identify._data._measurements import Coordinate, Measured
from jaxhamel.identify._data._runs import Run
from jaxhamel.identify._roboball._clock import steady_clock

SHELL, JOINT = "ball_roll.position", "roll_joint.position"
# rad, what the model leaves of either angle over a run; weighs runs against priors
MODEL_ERROR = 0.01
SPREAD = 0.3  # of log stiffness between runs, where fewer than two runs tell it
STEP = 0.01  # s

JOINT_ANGLE = Coordinate(index=1, name="joint", columns=(JOINT,), noise=MODEL_ERROR)
SHELL_ANGLE = Coordinate(index=0, name="shell", columns=(SHELL,), noise=MODEL_ERROR)


def read_roboball(path: str | Path) -> Run:
    """A run from one of the robot's files: `timestamp` [ns], the joint's angle and, where the ball rolls, the shell's.

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
    """κ is 0 give or take `spread`: the prior of an initial state, put in as a measurement that all rows share."""
    noise = spread * np.sqrt(len(run.ts))
    return Measured(function=_kappa, columns=("contact",), name="contact", noise=noise)


def steady(run: Run) -> Run:
    """At the times of the sensor's clock, not at those when a message arrived, up to 35 ms later."""
    return Run(steady_clock(run.ts), run.values, run.control, run.name, run.guess)


def with_contact(run: Run) -> Run:
    """The run with what `contact` measures: zeros."""
    values = {**run.values, "contact": np.zeros(len(run.ts))}
    return Run(run.ts, values, run.control, run.name, run.guess)


def rms_of(error: np.ndarray) -> float:
    """Root mean square, without what is missing."""
    return float(np.sqrt(np.nanmean(error**2)))
