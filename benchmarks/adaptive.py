"""Steps by tolerance where a few trajectories need many: `jaxhamel.ensemble.rollout` beside diffrax under vmap.

    python benchmarks/adaptive.py [--quick]

Free rigid bodies in double precision, Tsit5, rtol 1e-7, to t = 1 s. Of 20,000 bodies one in a hundred turns thirty times as
fast as the others and needs about thirty times as many steps. Four programs alternate, times are medians: the whole
ensemble and the ensemble without the fast ones, each by `rollout` and by diffrax's `diffeqsolve` of the same equations under
`jax.vmap`, where every trajectory waits for the slowest. The last line is one JSON object: `ratio` is the time of vmap over
that of `rollout`, the whole ensemble; `ratio_alike` the same without the fast ones; `extra` is what the fast ones add to
the time of `rollout`, over the share that their steps add to the steps: 1 where time goes with steps.

Then gradients. Of a cost of the bodies without the fast ones by their initial velocities: value and gradient by `rollout`,
its value alone, value and gradient by diffrax under vmap; `gradient_ratio` is the last over the first,
`gradient_over_value` the first over the second. Without `--quick` (compiling takes 25 s) the same of 1,024 rolling balls
with three masses, each with its own masses and swing, by these 6,144 numbers, rtol 1e-6, 4 s, eleven times: `of_balls`.
"""

import argparse
import json
import statistics
import time
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rhs_tax import BATCH, Swing, make_ball, states

from jaxhamel import VectorField, ensemble, simulate
from jaxhamel.systems import FreeRigidBody

RTOL, ATOL, FASTER, EVERY = 1e-7, 1e-9, 30.0, 100


def bodies(size: int):
    """Initial states (q0, u0), and the indices of the fast bodies."""
    omega = np.random.default_rng(0).normal(size=(size, 3))
    fast = np.arange(size) % EVERY == 0
    omega[fast] *= FASTER
    return np.tile([1.0, 0, 0, 0], (size, 1)), omega, fast


def programs(body, q0, u0):
    """Programs for the final states, by `rollout` and by diffrax under `vmap`."""
    ts = np.array([0.0, 1.0])

    def in_lanes():
        axes = (None, 0, 0, None)
        q, u = ensemble.rollout(body, q0, u0, ts, rtol=RTOL, atol=ATOL, in_axes=axes)
        return jnp.concatenate([q[:, -1], u[:, -1]], axis=1)

    def one(y):
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(VectorField()),
            diffrax.Tsit5(),
            0.0,
            1.0,
            None,
            y,
            (body, None),
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=None,
        )
        q, u = found.ys  # pyright: ignore
        return jnp.concatenate([body.space.normalise(q[0]), u[0]])

    mapped = jax.jit(jax.vmap(one))
    start = (jnp.asarray(q0), jnp.asarray(u0))
    return in_lanes, lambda: mapped(start)


def steps(body, q0, u0) -> int:
    """The number of trial steps of all bodies together."""
    axes = (None, 0, 0, None)
    motion = ensemble.simulate(body, q0, u0, [0.0, 1.0], in_axes=axes, rtol=RTOL, atol=ATOL)
    return int(np.sum(motion.stats["num_steps"]))


def three(in_lanes, mapped, at):
    """Three programs with flat results: value and gradient in lanes, value in lanes, and value and gradient of the
    reference."""
    places = tuple(range(len(at)))
    of = {"gradient": jax.value_and_grad(in_lanes, places), "value": in_lanes}
    of |= {"vmap, gradient": jax.value_and_grad(mapped, places)}
    flat = lambda found: jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(found)])
    compiled = {name: ensemble.jit(f) for name, f in of.items()}
    return {name: lambda f=f: flat(f(*at)) for name, f in compiled.items()}


def gradients_of_bodies(body, q0, u0):
    """Programs for the gradient of the bodies' cost by their initial velocities."""
    ts, options = np.array([0.0, 1.0]), dict[str, Any](rtol=RTOL, atol=ATOL)

    def in_lanes(u0):
        axes = (None, 0, 0, None)
        return jnp.mean(ensemble.rollout(body, q0, u0, ts, in_axes=axes, **options)[0][:, -1, 1])

    def mapped(u0):
        one = lambda q, u: simulate(body, q, u, ts, **options).q[-1, 1]
        return jnp.mean(jax.vmap(one)(jnp.asarray(q0), u0))

    return three(in_lanes, mapped, (jnp.asarray(u0),))


def gradients_of_balls():
    """Programs for the gradient of the balls' cost by their masses and swings."""
    y, amplitude = (jnp.stack(x) for x in states(BATCH))
    q0, u0 = (y[:4].T, y[4:6].T), 0.1 * y[6:].T
    masses = jnp.asarray(np.random.default_rng(1).uniform(0.5, 1.5, (BATCH, 3)))
    of_masses = lambda tree: tree.masses
    with_masses = lambda masses: eqx.tree_at(of_masses, make_ball(), masses)
    none = jax.tree.map(lambda _: None, make_ball())
    of_system = eqx.tree_at(of_masses, none, 0, is_leaf=lambda x: x is None)
    ts, options = np.linspace(0.0, 4.0, 11), dict[str, Any](rtol=1e-6, atol=1e-8)

    def cost(q, u):
        return jnp.mean(q[1][:, -1] ** 2) + jnp.mean(u**2)

    def in_lanes(masses, amplitude):
        given = (with_masses(masses), q0, u0, ts, Swing(amplitude))
        return cost(*ensemble.rollout(*given, in_axes=(of_system, 0, 0, 0), **options))

    def one(masses, amplitude, q0, u0):
        motion = simulate(with_masses(masses), q0, u0, ts, Swing(amplitude), **options)
        return motion.q, motion.u

    def mapped(masses, amplitude):
        return cost(*jax.vmap(one)(masses, amplitude, q0, u0))

    return three(in_lanes, mapped, (masses, amplitude.T))


def of_gradients(named: dict, repeats: int) -> dict:
    """Measures the programs of a gradient and computes their figures."""
    seconds, found = measure(named, repeats)
    for name, value in seconds.items():
        print(f"{name:16} {1e3 * value:9.1f} ms")
    return {
        "gradient_ratio": round(seconds["vmap, gradient"] / seconds["gradient"], 1),
        "gradient_over_value": round(seconds["gradient"] / seconds["value"], 1),
        "gradient_milliseconds": {name: round(1e3 * value, 1) for name, value in seconds.items()},
        "gradient_difference": float(np.abs(found["gradient"] - found["vmap, gradient"]).max()),
    }


def measure(named: dict, repeats: int):
    """Median seconds of each program, run in turns, and their results."""
    ends = {name: np.asarray(run()) for name, run in named.items()}
    seconds = {name: [] for name in named}
    for _ in range(repeats):
        for name, run in named.items():
            started = time.perf_counter()
            jax.block_until_ready(run())
            seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}, ends


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions and bodies")
    quick = parser.parse_args().quick
    jax.config.update("jax_enable_x64", True)
    size = 5_000 if quick else 20_000
    body, (q0, u0, fast) = FreeRigidBody([1.0, 2.0, 2.5]), bodies(size)
    whole, alike = programs(body, q0, u0), programs(body, q0[~fast], u0[~fast])
    named = {"rollout": whole[0], "vmap": whole[1]}
    named |= {"rollout, alike": alike[0], "vmap, alike": alike[1]}
    seconds, ends = measure(named, 3 if quick else 7)
    taken, without = steps(body, q0, u0), steps(body, q0[~fast], u0[~fast])
    for name, value in seconds.items():
        print(f"{name:16} {1e3 * value:9.1f} ms")
    extra = seconds["rollout"] / seconds["rollout, alike"] - 1
    result = {
        "benchmark": "adaptive",
        "ratio": round(seconds["vmap"] / seconds["rollout"], 1),
        "ratio_alike": round(seconds["vmap, alike"] / seconds["rollout, alike"], 1),
        "extra": round(extra / (taken / without - 1), 2),
        "bodies": size,
        "steps": taken,
        "steps_alike": without,
        "milliseconds": {name: round(1e3 * value, 1) for name, value in seconds.items()},
        "largest_difference": float(np.abs(ends["rollout"] - ends["vmap"]).max()),
    }
    result |= of_gradients(gradients_of_bodies(body, q0[~fast], u0[~fast]), 3 if quick else 7)
    if not quick:
        result["of_balls"] = of_gradients(gradients_of_balls(), 7)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
