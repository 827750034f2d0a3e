"""What a reverse-mode gradient costs: cost and gradient over the cost alone, of an ensemble and of one trajectory.

    python benchmarks/gradient.py [--quick]

Ensemble: 1,024 rolling balls with three masses, double precision, 100 equal Runge-Kutta steps by
`jaxhamel.ensemble.rollout` in ten intervals; each ball has its own state and, in `own`, masses and control of its own; in
`shared` all have the same. The mean cost is differentiated by masses and control: 6,144 numbers, and 6. Single:
`jaxhamel.simulate` (adaptive, its defaults) of one ball for 5 s by 16 numbers, in reverse mode. Runs alternate; times are
medians, `spread` is (largest - smallest) / median; `ratio_in_a_row` is of as many runs of the one, then of the other, which
find their memory in the cache. `compile_seconds` are those of the gradient, tracing included. The last
line is one JSON object; its `ratio` is the larger one of the two ensembles'.
"""

import argparse
import json
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rhs_tax import BATCH, Swing, make_ball, states

import jaxhamel
from jaxhamel import ensemble

jax.config.update("jax_enable_x64", True)
STEPS, DT = 100, 1e-2
TS = np.linspace(0.0, STEPS * DT, 11)


def with_masses(masses):
    return eqx.tree_at(lambda ball: ball.masses, make_ball(), masses)


def of_ensemble(own: bool):
    """The mean cost of the balls as a function of masses and amplitudes, and the point at which it is differentiated."""
    y, amplitude = states(BATCH)
    q0, u0 = (jnp.stack(y[:4], axis=1), jnp.stack(y[4:6], axis=1)), 0.1 * jnp.stack(y[6:], axis=1)
    drawn = np.random.default_rng(1).uniform(0.5, 1.5, (BATCH, 3))
    at = (jnp.asarray(drawn), jnp.stack(amplitude, axis=1))
    at = at if own else tuple(x[0] for x in at)
    batched = jax.tree.map(lambda _: None, make_ball())
    of_system = eqx.tree_at(lambda b: b.masses, batched, 0, is_leaf=lambda x: x is None)
    axes = (of_system, 0, 0, 0) if own else (None, 0, 0, None)

    def cost(masses, amplitude):
        ball, swing = with_masses(masses), Swing(amplitude)
        q, u = ensemble.rollout(ball, q0, u0, TS, swing, dt=1.0001 * DT, in_axes=axes)
        return jnp.mean(q[1][:, -1] ** 2) + jnp.mean(u**2)

    return cost, at


def of_one():
    """A cost of the end of one trajectory, as a function of masses, amplitudes, start and the shell's inertia; and the
    point."""
    q0, u0, ts = (jnp.array([1.0, 0, 0, 0]), jnp.zeros(2)), jnp.zeros(3), jnp.linspace(0, 5, 51)

    def cost(masses, amplitude, position, u0, inertia):
        ball = eqx.tree_at(lambda b: b.shell_inertia, with_masses(masses), inertia)
        motion = jaxhamel.simulate(ball, (q0[0], position), u0, ts, Swing(amplitude))
        return jnp.mean(motion.q[1][-1] ** 2)

    inertia = jnp.array([1.0, 1.1, 1.2])
    return cost, (jnp.array([1.0, 1.1, 0.9]), jnp.full(3, 0.3), jnp.ones(2), u0, inertia)


def measure(cost, at, repeats):
    """Seconds of the cost, and of cost and gradient, in turns; medians of consecutive runs; seconds to compile each."""
    gradient = jax.value_and_grad(cost, tuple(range(len(at))))
    programs, compiled, seconds = {}, {}, {"forward": [], "gradient": []}
    for name, function in {"forward": cost, "gradient": gradient}.items():
        started = time.perf_counter()
        programs[name] = jax.jit(function).lower(*at).compile()
        compiled[name] = time.perf_counter() - started
        jax.block_until_ready(programs[name](*at))
    for _ in range(repeats):
        for name, program in programs.items():
            seconds[name].append(timed(program, at))
    in_a_row = {
        name: statistics.median(timed(program, at) for _ in range(repeats))
        for name, program in programs.items()
    }
    return seconds, in_a_row, compiled


def timed(program, at) -> float:
    started = time.perf_counter()
    jax.block_until_ready(program(*at))
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs, within 30 s")
    repeats = 7 if parser.parse_args().quick else 31
    result = {}
    cases = {"own": of_ensemble(True), "shared": of_ensemble(False), "single": of_one()}
    for name, (cost, at) in cases.items():
        seconds, in_a_row, compiled = measure(cost, at, repeats)
        median = {what: statistics.median(each) for what, each in seconds.items()}
        spread = {w: (max(each) - min(each)) / median[w] for w, each in seconds.items()}
        ratio = median["gradient"] / median["forward"]
        print(
            f"{name:<7} forward {median['forward'] * 1e3:7.2f} ms   gradient {median['gradient'] * 1e3:7.2f} ms   "
            f"ratio {ratio:5.2f}   spread {spread['forward']:4.0%} {spread['gradient']:4.0%}   "
            f"compiled in {compiled['forward']:4.1f} s and {compiled['gradient']:4.1f} s"
        )
        result[name] = {
            "ratio": round(ratio, 2),
            "ratio_in_a_row": round(in_a_row["gradient"] / in_a_row["forward"], 2),
            "forward_ms": round(median["forward"] * 1e3, 3),
            "gradient_ms": round(median["gradient"] * 1e3, 3),
            "compile_seconds": round(compiled["gradient"], 2),
            "compile_seconds_forward": round(compiled["forward"], 2),
        }
    head = {
        "benchmark": "gradient",
        "ratio": max(result[name]["ratio"] for name in ("own", "shared")),
        "target": 4.0,
        "compile_seconds": max(result[name]["compile_seconds"] for name in ("own", "shared")),
    }
    print(json.dumps(head | result))


if __name__ == "__main__":
    main()
