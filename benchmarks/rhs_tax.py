"""What autodiff costs: the rolling ball's equations from its Lagrangian data against the closed form, time per step.

    python benchmarks/rhs_tax.py [--quick]

The ball with three masses, double precision, 1,024 trajectories with states and controls of their own, Runge-Kutta of
order 4 in one `lax.scan`, its four stages in another. Four programs: closed form (Putkaradze-Rogers B.8) and autodiff
(Gauss' principle, what `jaxhamel` uses by default), each under `jax.vmap` and under `jaxhamel.ensemble.lanes`. The runs
alternate; times are medians, `spread` is (largest - smallest) / median. The last line is one JSON object; its `ratio` is
autodiff over closed form, both in lanes; `ratio_single` the same for one trajectory.
"""

import argparse
import json
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel.ensemble import lanes
from jaxhamel.mechanics import VectorField, velocity
from jaxhamel.systems import CircularRails, RollingBall

jax.config.update("jax_enable_x64", True)
BATCH, DT = 1024, 1e-3


class Swing(eqx.Module):
    amplitude: jax.Array

    def __call__(self, t):
        return self.amplitude * jnp.sin(2.0 * t) - jnp.pi / 2


def make_ball() -> RollingBall:
    normal = jnp.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    zero = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    return RollingBall(
        radius=jnp.array(1.0),
        shell_mass=jnp.array(4.0),
        shell_inertia=jnp.array([1.0, 1.1, 1.2]),
        shell_com=jnp.array([0.0, 0.0, -0.05]),
        masses=jnp.ones(3),
        rails=CircularRails(radius=jnp.full(3, 0.8), normal=normal, zero=zero),
        gravity=jnp.array(9.81),
    )


def closed_form(ball):
    def rate(t, q, u, control):
        v = velocity(ball, t, q, u)
        return ball.space.rate(q, v), ball.closed_form(t, q, u, control)

    return rate


def autodiff(ball):
    return lambda t, q, u, control: VectorField("gauss")(t, (q, u), (ball, control))


def on_scalars(rate):
    """The rate as a function of nine scalars, so that lanes need neither split nor join arrays."""

    def scalars(t, y, control):
        q = (jnp.stack(y[:4]), jnp.stack(y[4:6]))
        (quaternion, position), u = rate(t, q, jnp.stack(y[6:]), Swing(jnp.stack(control)))
        return (*quaternion, *position, *u)

    return scalars


def runge_kutta(rate, steps):
    """y after `steps` steps. The four stages share one loop body, so XLA compiles one right-hand side."""
    to, weight = jnp.array([0.5, 0.5, 1.0, 0.0]) * DT, jnp.array([1.0, 2.0, 2.0, 1.0]) * (DT / 6)
    at = jnp.array([0.0, 0.5, 0.5, 1.0]) * DT

    def step(y, n):
        def stage(carry, which):
            here, total = carry
            to, weight, at = which
            slope = rate(n * DT + at, here)
            ahead = jax.tree.map(lambda y, k: y + to * k, y, slope)
            return (ahead, jax.tree.map(lambda s, k: s + weight * k, total, slope)), None

        (_, y), _ = jax.lax.scan(stage, (y, y), (to, weight, at))
        return y, None

    return lambda y: jax.lax.scan(step, y, jnp.arange(steps) * 1.0)[0]


def make_program(rate, transform, control, steps):
    mapped = transform(on_scalars(rate), (None, 0, 0))
    return jax.jit(runge_kutta(lambda t, y: mapped(t, y, control), steps))


def states(batch):
    rng = np.random.default_rng(0)
    quaternion = rng.normal(size=(4, batch))
    quaternion /= np.linalg.norm(quaternion, axis=0)
    rest = rng.normal(size=(5, batch))
    y = tuple(jnp.asarray(row) for row in np.concatenate([quaternion, rest]))
    return y, tuple(jnp.asarray(row) for row in rng.uniform(0.1, 0.5, (3, batch)))


def measure(programs, y, repeats):
    """Seconds of each program's runs in turns, after a first run that compiles."""
    compiled = {}
    for name, program in programs.items():
        started = time.perf_counter()
        jax.block_until_ready(program(y))
        compiled[name] = time.perf_counter() - started
    seconds = {name: [] for name in programs}
    for _ in range(repeats):
        for name, program in programs.items():
            started = time.perf_counter()
            jax.block_until_ready(program(y))
            seconds[name].append(time.perf_counter() - started)
    return seconds, compiled


def multiplications(program, y) -> int:
    """Number of products in XLA's optimised program; one that is computed twice counts twice."""
    return program.lower(y).compile().as_text().count(" multiply(")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter runs, within 30 s")
    arguments = parser.parse_args()
    steps, repeats = (50, 5) if arguments.quick else (200, 15)
    ball, (y, control) = make_ball(), states(BATCH)
    programs = {
        f"{how} {what.__name__}": make_program(what(ball), transform, control, steps)
        for what in (closed_form, autodiff)
        for how, transform in {"vmap": jax.vmap, "lanes": lanes}.items()
    }
    seconds, compiled = measure(programs, y, repeats)
    median = {name: statistics.median(each) for name, each in seconds.items()}
    for name, each in seconds.items():
        spread = (max(each) - min(each)) / median[name]
        print(
            f"{name:<18} {median[name] / steps * 1e6:8.1f} us/step {BATCH * steps / median[name]:10.3g} "
            f"trajectory-steps/s   spread {spread:4.0%}   first call {compiled[name]:5.1f} s   "
            f"{multiplications(programs[name], y)} multiplications in HLO"
        )
    ends = [program(y) for program in programs.values()]
    error = max(
        float(jnp.max(jnp.abs(a - b))) for end in ends for a, b in zip(end, ends[0], strict=True)
    )
    single = {
        what.__name__: make_program(what(ball), lanes, tuple(c[:1] for c in control), 20 * steps)
        for what in (closed_form, autodiff)
    }
    alone, _ = measure(single, tuple(x[:1] for x in y), repeats)
    alone = {name: statistics.median(each) for name, each in alone.items()}
    ratio = {
        how: median[f"{how} autodiff"] / median[f"{how} closed_form"] for how in ("vmap", "lanes")
    }
    result = {
        "benchmark": "rhs_tax",
        "ratio": round(ratio["lanes"], 3),
        "target": 1.1,
        "ratio_single": round(alone["autodiff"] / alone["closed_form"], 3),
        "ratio_vmap": round(ratio["vmap"], 3),
        "batch": BATCH,
        "trajectory_steps_per_second": {n: round(BATCH * steps / t) for n, t in median.items()},
        "largest_difference": error,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
