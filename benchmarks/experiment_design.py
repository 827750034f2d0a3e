"""How much more does a designed experiment tell than sines chosen by hand? The ten inertial parameters of a rolling ball.

    python benchmarks/experiment_design.py [--quick]

A ball of 0.1 m with three weighed masses of 0.4 to 0.5 kg on circular rails of 0.07 m is measured for 5 s at 50 Hz:
position to 5 mm, orientation to 0.01 rad, angular rate to 0.02 rad/s, acceleration to 0.06 m/s²; it starts at rest, in a
state known to 1 (rad, m, rad/s), that is: unknown. Each mass has to stay within 1.2 rad of the middle of its rail, at no
more than 8 rad/s and 60 rad/s².

By hand: each mass swings as a sine of 1 rad, a third of a period apart, at 0.4 Hz. Because hands may be lucky, the best
of nine such sines (0.6, 0.9, 1.15 rad; 0.2, 0.4, 0.8 Hz) is taken as well. The design is a Fourier series of three
harmonics of 0.2 Hz within the rails, from the first sine on by gradient: the D-optimum near it.

`ratio` is (det F_designed / det F_sine)^(1/10), the gain in information per parameter on the geometric mean; `ratio_best`
the same against the best of the nine. F is computed again with four times as many integration steps for both. With --quick
six steps are searched, so that `ratio` is not the figure, only near enough to 1 to see that all of it works.
"""

import argparse
import json
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import identify
from jaxhamel.control import FourierSeries, Limited
from jaxhamel.systems import CircularRails, RollingBall

jax.config.update("jax_enable_x64", True)
RAILS = CircularRails(
    radius=[0.07, 0.07, 0.07],
    normal=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    zero=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
)
INERTIA = [[0.0065, 0.0002, -0.0001], [0.0002, 0.0069, 0.00015], [-0.0001, 0.00015, 0.0062]]
BALL = RollingBall(0.1, 1.0, INERTIA, [0.002, -0.003, -0.004], [0.5, 0.45, 0.4], RAILS)
BODY = identify.BodyInertia("shell_mass", "shell_com", "shell_inertia")
MEASUREMENTS = (
    identify.Position(noise=0.005),
    identify.Orientation(noise=0.01),
    identify.AngularRate(noise=0.02),
    identify.Accelerometer(point=[0.03, 0.02, 0.05], noise=0.06),
)
PERIOD, SECONDS = 5.0, 5.0
MIDDLE, REACH, FAR = np.array([0.0, -1.57, -1.57]), 1.2, 1e4
MAX_RATE, MAX_ACCELERATION = 8.0, 60.0
THIRDS = 2 * np.pi / 3 * np.arange(3)


def sine(amplitude: float, harmonic: int) -> FourierSeries:
    """Each mass swings at `harmonic` times 0.2 Hz, a third of a period apart. The series always has three harmonics, so
    that one program serves all."""
    period = PERIOD
    if harmonic > 3:
        period, harmonic = PERIOD / 2, harmonic // 2
    cosine, sines = np.zeros((2, 3, 3))
    cosine[harmonic - 1] = amplitude * np.sin(THIRDS)
    sines[harmonic - 1] = amplitude * np.cos(THIRDS)
    return FourierSeries(mean=MIDDLE, cosine=cosine, sine=sines, period=period)


def within(reach: float, curve: FourierSeries) -> Limited:
    """The curve limited to the rails, or with the reach `FAR` practically unlimited (to 1e-8), so that one program
    serves both."""
    return Limited(curve, MIDDLE - reach, MIDDLE + reach)


def planned(dt: float | None) -> identify.Experiment:
    start = jnp.array([1.0, 0.0, 0.0, 0.0]), jnp.zeros(2)
    return identify.Experiment(
        BALL, [BODY], MEASUREMENTS, jnp.linspace(0.0, SECONDS, round(50 * SECONDS) + 1), start, jnp.zeros(3),
        max_rate=MAX_RATE, max_acceleration=MAX_ACCELERATION, dt=dt,
    )  # fmt: skip


def per_parameter(F) -> float:
    """log det F / 10 of the information F of ten parameters."""
    return float(np.linalg.slogdet(np.asarray(F))[1]) / 10


@eqx.filter_jit
def motion(curve, ts):
    """The curve and its first two derivatives at all times."""
    rate = jax.jacfwd(curve)
    return [jax.vmap(f)(ts) for f in (curve, rate, jax.jacfwd(rate))]


def largest(curve) -> dict:
    """The largest distance from the middle of the rail, rate and acceleration, on a fine grid."""
    values = list(map(np.asarray, motion(curve, jnp.linspace(0.0, SECONDS, 2001))))
    values[0] = values[0] - MIDDLE
    return {
        k: round(float(np.max(np.abs(v))), 3)
        for k, v in zip(("reach", "rate", "acceleration"), values, strict=True)
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="six steps of the search")
    parser.add_argument("--steps", type=int, default=300, help="of the search, at most")
    arguments = parser.parse_args()
    began, coarse, fine = time.perf_counter(), planned(None), planned(0.005)
    by_hand = within(FAR, sine(1.0, 2))
    told = lambda step, value: print(f"step {step:3d}  criterion {value:.3f}", flush=True)
    steps = 6 if arguments.quick else arguments.steps
    found = identify.design(coarse, within(REACH, sine(1.0, 2)), max_steps=steps, progress=told)
    F = fine.information(found.curve)
    hand = per_parameter(fine.information(by_hand))
    sines = [(a, k, within(FAR, sine(a, k))) for a in (0.6, 0.9, 1.15) for k in (1, 2, 4)]
    known = [(per_parameter(fine.information(curve)), a, k) for a, k, curve in sines]
    best = max(known)
    print(found)
    print(json.dumps({
        "benchmark": "experiment_design",
        "ratio": round(float(np.exp(per_parameter(F) - hand)), 2),
        "target": 3.0,
        "ratio_best": round(float(np.exp(per_parameter(F) - best[0])), 2),
        "best_sine": {"amplitude": best[1], "hertz": round(best[2] / PERIOD, 2)},
        "by_steps": round(float(np.exp(per_parameter(F) - per_parameter(found.information))), 4),
        "largest": largest(found.curve),
        "largest_by_hand": largest(by_hand),
        "steps": len(found.history) - 1,
        "seconds": round(time.perf_counter() - began, 1),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
