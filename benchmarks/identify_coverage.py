"""Do the standard errors of `jaxhamel.identify` hold? Simulated experiments with a rolling ball, each fitted.

    python benchmarks/identify_coverage.py [--quick] [--experiments 200] [--store FILE]

Each experiment draws a ball (a thin shell with a few lumps inside, so that its ten inertial parameters are those of a
body that exists), an orientation and an angular velocity to start with; three weighed masses swing along known rails for
20 s. The motion is simulated by diffrax with error control, measured at 50 Hz (position, orientation, gyroscope,
accelerometer off the centre) with normal noise of 1 % of each signal's RMS (0.01 rad of an orientation). The fit
knows neither the start nor the noise, and begins at the same drawing each time.

A score is (estimate - truth) / standard error. Of the last line's figures

- `coverage` is the share of scores within two standard errors, over parameters and experiments: 0.954 if they are normal
  and the standard errors right;
- `jointly` the share of experiments with all ten within two at once (0.62 to 0.65 for independent normal scores);
- `ellipsoid` the share of experiments whose truth lies in the 95 % ellipsoid of confidence (chi-square, ten degrees).

A fit that does not converge counts as missing all ten. With --store, experiments are kept in a file of JSON lines and
those that are there already are not repeated.
"""

import argparse
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxhamel
from jaxhamel import identify
from jaxhamel.control import FourierSeries
from jaxhamel.geometry import SO3
from jaxhamel.systems import CircularRails, RollingBall

jax.config.update("jax_enable_x64", True)
TIMES = jnp.linspace(0.0, 20.0, 1001)
NOISE = 0.01
ELLIPSOID = 18.307  # the 95 % quantile of chi-square with ten degrees of freedom
RAILS = CircularRails(
    radius=[0.07, 0.07, 0.07],
    normal=[[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    zero=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
)
SWING = FourierSeries(
    mean=[0.0, -1.57, -1.57],
    cosine=[[0.3, 0.2, 0.0], [0.0, 0.5, 0.3], [0.4, 0.0, 0.2]],
    sine=[[0.8, 0.5, 0.6], [0.2, 0.0, 0.4], [0.1, 0.3, 0.0]],
    period=5.0,
)
MEASUREMENTS = (
    identify.Position(),
    identify.Orientation(),
    identify.AngularRate(),
    identify.Accelerometer(point=[0.03, 0.02, 0.05]),
)


def ball(mass, com, inertia) -> RollingBall:
    return RollingBall(0.1, mass, inertia, com, [0.5, 0.45, 0.4], RAILS)


DRAWING = ball(1.2, [0.0, 0.0, 0.0], np.diag([6e-3] * 3))
BODY = identify.BodyInertia("shell_mass", "shell_com", "shell_inertia")


def drawn(rng) -> RollingBall:
    """A shell of 0.1 m and 0.6 to 0.8 kg with five lumps of 30 to 110 g within 8 cm of its centre."""
    shell = rng.uniform(0.6, 0.8)
    lumps, at = rng.uniform(0.03, 0.11, 5), rng.normal(size=(5, 3))
    at *= 0.08 * (rng.uniform(size=(5, 1)) ** (1 / 3)) / np.linalg.norm(at, axis=1, keepdims=True)
    mass = shell + lumps.sum()
    com = lumps @ at / mass
    second = shell * 0.1**2 / 3 * np.eye(3) + np.einsum("i,ij,ik->jk", lumps, at, at)
    second -= mass * np.outer(com, com)
    return ball(mass, com, np.trace(second) * np.eye(3) - second)


@jax.jit
def shown(system, motion):
    at = lambda t, q, u: [m(system, t, q, u, SWING) for m in MEASUREMENTS]
    return jax.vmap(at)(motion.ts, motion.q, motion.u)


def measured(system, rng) -> identify.Run:
    """A noisy measurement of 20 s from an unknown start."""
    turn = jnp.asarray(rng.normal(size=3))
    q0 = SO3().retract(SO3().identity(), turn), jnp.zeros(2)
    u0 = jnp.asarray(rng.normal(size=3))
    options = {"rtol": 1e-9, "atol": 1e-10}
    motion = jaxhamel.simulate(system, q0, u0, TIMES, SWING, **options).raise_if_failed()
    values = {}
    for m, exact in zip(MEASUREMENTS, map(np.asarray, shown(system, motion)), strict=True):
        values[m.name] = noisy(m, exact, rng)
    return identify.Run(TIMES, values, SWING)


def noisy(measurement, exact, rng):
    if measurement.error_size != measurement.size:
        turns = jnp.asarray(NOISE * rng.normal(size=(len(exact), 3)))
        return np.asarray(jax.vmap(SO3().retract)(jnp.asarray(exact), turns))
    width = NOISE * np.sqrt(np.mean(exact**2, axis=0))
    return exact + width * rng.normal(size=exact.shape)


def experiment(number: int) -> dict:
    """Scores of the ten parameters, their joint χ², and the fit's seconds."""
    rng = np.random.default_rng([20, number])
    truth = drawn(rng)
    problem = identify.Problem(DRAWING, [BODY], MEASUREMENTS, [measured(truth, rng)])
    began = time.perf_counter()
    found = identify.fit(problem)
    seconds = time.perf_counter() - began
    off = found.values - np.asarray(problem.parameters[0].quantities(truth))
    spread = found.correlation * np.outer(found.errors, found.errors)
    return {
        "number": number,
        "converged": found.converged,
        "scores": (off / found.errors).tolist(),
        "chi_square": float(off @ np.linalg.solve(spread, off)),
        "relative_errors": (found.errors / np.abs(found.values)).tolist(),
        "not_determined": [flat.words for flat in found.flat],
        "iterations": len(found.history["cost"]),
        "seconds": seconds,
    }


def stored(path: Path | None) -> dict[int, dict]:
    if path is None or not path.exists():
        return {}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["number"]: row for row in rows}


def run(count: int, path: Path | None) -> list[dict]:
    """All experiments; those missing in the store are run now, with progress."""
    known = stored(path)
    for number in range(count):
        if number in known:
            continue
        known[number] = row = experiment(number)
        if path is not None:
            with path.open("a") as file:
                file.write(json.dumps(row) + "\n")
        inside = sum(abs(score) <= 2 for score in row["scores"])
        how = f"{row['iterations']} iterations" if row["converged"] else "NOT converged"
        print(
            f"{number:4d}  {inside:2d} of {len(row['scores'])} within two standard errors,"
            f" chi-square {row['chi_square']:5.1f}, {how}, {row['seconds']:.1f} s",
            flush=True,
        )
    return [known[number] for number in range(count)]


def summary(rows: list[dict]) -> dict:
    scores = np.abs([row["scores"] for row in rows])
    scores[[not row["converged"] for row in rows]] = np.inf
    chi = np.where([row["converged"] for row in rows], [row["chi_square"] for row in rows], np.inf)
    inside = scores <= 2
    return {
        "benchmark": "identify_coverage",
        "coverage": round(float(inside.mean()), 4),
        "target": 0.93,
        "by_parameter": np.round(inside.mean(axis=0), 3).tolist(),
        "jointly": round(float(inside.all(axis=1).mean()), 4),
        "ellipsoid": round(float((chi <= ELLIPSOID).mean()), 4),
        "experiments": len(rows),
        "not_converged": int(sum(not row["converged"] for row in rows)),
        "not_determined": int(sum(bool(row["not_determined"]) for row in rows)),
        "iterations_median": float(np.median([row["iterations"] for row in rows])),
        "fit_seconds_median": round(float(np.median([row["seconds"] for row in rows])), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three experiments, within 30 s")
    parser.add_argument("--experiments", type=int, default=200)
    parser.add_argument("--store", type=Path, help="file of JSON lines to keep and continue")
    arguments = parser.parse_args()
    count = 3 if arguments.quick else arguments.experiments
    print(json.dumps(summary(run(count, arguments.store))))


if __name__ == "__main__":
    main()
