"""How the rolling ball's ensemble grows: trajectories from a thousand to a million, masses from one to twenty.

    python benchmarks/scaling.py [--quick]

`jaxhamel.ensemble.rollout`, double precision, Runge-Kutta of order 4, each trajectory with a start of its own, one motion
of the masses for all. First three masses and 10^3 to 10^6 trajectories, then 1,024 trajectories and 1 to 20 masses: seconds
until the first run is through (trace, compile, run) and trajectory-steps a second, median of some runs. The last line is
one JSON object; `exponent` is the slope of log(time for a step) over log(masses) from 5 masses to the most: 1 is linear.
"""

import argparse
import json
import math

import jax
import numpy as np
from reference_ball import first_call, make_ball, median_seconds, start, swing

from jaxhamel import ensemble

jax.config.update("jax_enable_x64", True)
STEP = 1e-2


def program(masses: int, size: int, steps: int):
    """A function that runs `size` balls for a number of steps."""
    ball, ((quaternion, position), u0), control = make_ball(masses), start(), swing(masses)
    rng = np.random.default_rng(0)
    rates = np.asarray(u0) + 0.1 * rng.normal(size=(size, 3))
    q0 = (np.tile(quaternion, (size, 1)), np.tile(position, (size, 1)))
    ts = np.array([0.0, steps * STEP])

    def run():
        return ensemble.rollout(ball, q0, rates, ts, control, dt=STEP, in_axes=(None, 0, 0, None))

    return run


def row(masses: int, size: int, steps: int, repeats: int) -> dict:
    run = program(masses, size, steps)
    first = first_call(run)
    seconds = median_seconds({"run": run}, repeats)["run"]
    found = {"masses": masses, "trajectories": size, "first_call_s": round(first, 2)}
    found["trajectory_steps_per_second"] = float(f"{size * steps / seconds:.3g}")
    print("   ".join(f"{key} {value:,}" for key, value in found.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller, within 30 s")
    quick = parser.parse_args().quick
    sizes = (1_000, 10_000, 100_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    counts, repeats = ((1, 3, 5, 10) if quick else (1, 2, 3, 5, 10, 20)), 3 if quick else 7
    by_size = [row(3, size, 100 if size < 100_000 else 10, repeats) for size in sizes]
    by_masses = [row(masses, 1024, 100, repeats) for masses in counts]
    five = next(each for each in by_masses if each["masses"] == 5)
    rate = "trajectory_steps_per_second"
    slower = math.log(five[rate] / by_masses[-1][rate])
    result = {"exponent": round(slower / math.log(by_masses[-1]["masses"] / 5), 2)}
    result |= {rate: max(each[rate] for each in by_size), "sizes": by_size, "masses": by_masses}
    print(json.dumps({"benchmark": "scaling", **result}))


if __name__ == "__main__":
    main()
