"""RoboBall's runs: measurements, files, and sampling times."""

from pathlib import Path

import numpy as np
from jaxtyping import Float

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


# Recovers a sensor's sampling times from time stamps that record when its messages arrived.


UNSTEADY = (
    0.25  # periods; a larger median deviation of the stamps means that there is no steady clock
)
ENOUGH = 10  # the fewest stamps for a fit


def steady_clock(ts: Float[np.ndarray, " T"]) -> Float[np.ndarray, " T"]:
    """The sampling times of a sensor with a steady rate, from stamps with varying delays.

        t_i = a + T n_i ,   min Σ |ts_i − a − T n_i|   over a, T

    n_i counts the samples; if all later stamps are a whole period behind, samples are missing and n_i skips them. The fit
    minimises absolute deviations, by reweighted least squares: a stamp that is 30 ms late counts no more than one that is
    1 ms late.

    **Arguments:** `ts`: stamps [s], increasing.

    **Returns:** the times [s], evenly spaced except at missing samples; `ts` itself if there are fewer than ten stamps, or
    if their median deviation from such a clock is more than a quarter of a period.
    """
    ts = np.asarray(ts, float)
    if len(ts) < ENOUGH:
        return ts
    number = _numbers(ts, _period(ts))
    fitted = _line(number, ts)
    return fitted if np.median(np.abs(ts - fitted)) < UNSTEADY * np.median(np.diff(ts)) else ts


def _line(number: np.ndarray, ts: np.ndarray) -> np.ndarray:
    """The values at each number of the line of least absolute deviations through the stamps."""
    columns = np.stack([np.ones_like(ts), number], axis=1)
    weight = np.ones_like(ts)
    for _ in range(30):
        fitted = columns @ np.linalg.lstsq(columns * weight[:, None], ts * weight, rcond=None)[0]
        weight = 1 / np.sqrt(np.maximum(np.abs(ts - fitted), 1e-5))
    return fitted


def _period(ts: np.ndarray) -> float:
    """The period of the sensor.

    With many samples it follows from stamps that are far apart, whose delays have little effect; with few samples from the
    fitted line.
    """
    if len(ts) < 80:
        return float(np.mean(np.diff(_line(np.arange(len(ts), dtype=float), ts))))
    apart = len(ts) // 8
    return float(np.median(ts[apart:] - ts[:-apart])) / apart


def _numbers(ts: np.ndarray, period: float) -> np.ndarray:
    """The index of each sample, counted in periods.

    A stamp that is late is followed by stamps that are not; after a missing sample all stamps are a period later.
    """
    number = np.arange(len(ts), dtype=float)
    behind = np.minimum.accumulate((ts - period * number)[::-1])[
        ::-1
    ]  # the smallest value of all later stamps
    return number + np.floor((behind - behind[0]) / period + 0.25)
