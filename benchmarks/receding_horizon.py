"""Time of one step of receding-horizon controllers on one core, and the tracking errors of their closed loops.

`taskset -c 0 python benchmarks/receding_horizon.py [--problems NAME …] [--samples N] [--intervals N] [--degree N]
[--iterations N]` prints a table for docs/feedback.md: unicycle, sleigh, and the ball with three masses on its figure-eight,
each over 2 s with all limits. Times are those of steps after the first, compiled and called from Python, by the clock and of
the processor. `--picture FILE` draws the loops of the sleigh: as planned, and two robots with other parameters.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

HORIZON = 2.0


def circle(t):
    """A pose (angle, x, y) that goes round a circle of 1 m at 0.5 m/s."""
    return jnp.stack([0.5 * t, jnp.sin(0.5 * t), 1.0 - jnp.cos(0.5 * t)])


def limited(size):
    from jaxhamel.control import PathLimit

    return PathLimit(lambda t, q, u, c: c(t), -jnp.asarray(size), jnp.asarray(size), "control")


def posed(system, u0, weight, limit):
    """Holding a pose on the circle, 0.2 m off at the start."""
    from jaxhamel.control import ControlEnergy, ControlProblem, Running

    space = system.space
    off = lambda t, q, u, c: space.local(circle(t), q)  # noqa: E731
    costs = (Running(off, weight), ControlEnergy(0.1))
    zero = lambda t: jnp.zeros(2)  # noqa: E731
    q0 = jnp.array([0.0, 0.0, 0.2])
    ts = jnp.linspace(0.0, HORIZON, 3)
    return ControlProblem(system, q0, u0, ts, zero, costs, (limited(limit),)), 0.05


def unicycle():
    from jaxhamel import Kinematic
    from jaxhamel.systems import KnifeEdge

    return posed(Kinematic(KnifeEdge(1.0, 1.0, 0.0)), jnp.zeros(0), 10.0, [0.7, 1.0])


def sleigh(limit=2.0):
    from jaxhamel.systems import ChaplyginSleigh

    return posed(ChaplyginSleigh(1.0, 1.0, 0.2), jnp.array([0.5, 0.5]), 10.0, [limit, limit])


def ball():
    """The figure-eight held by θ̈ up to 60 rad/s² with a normal force of 8 N or more, a third of the weight."""
    from types import SimpleNamespace

    from jaxhamel.control import (
        ControlProblem,
        FinalCost,
        PathLimit,
        Running,
        figure_eight_solution,
        plan_of,
        regulate,
        replay,
    )

    problem, curve = figure_eight_solution()
    result = SimpleNamespace(problem=problem, control=curve, trajectory=replay(problem, curve))
    plan = plan_of(result)
    driven = plan.system
    weights = jnp.array([10.0] * 3 + [1000.0] * 2 + [1.0] * 6 + [0.1] * 3)
    law = regulate(*plan, state_cost=weights, control_cost=jnp.full(3, 3e-4))

    def error(t, q, u):
        q1, u1, _ = law.plan(t)
        return jnp.concatenate([driven.space.local(q1, q), u - u1])

    def off(t, q, u, c):
        return jnp.concatenate(
            [jnp.sqrt(weights) * error(t, q, u), jnp.sqrt(3e-4) * (c(t) - law.control(t))]
        )

    last = len(law.ts) - 1

    def rest(t, q, u, c):
        delta = error(t, q, u)
        place = jnp.clip(jnp.floor(t / law.ts[-1] * last).astype(int), 0, last)
        return 0.5 * delta @ (law.values[place] @ delta)

    def normal(t, q, u, c):
        return driven.system.contact_force(t, *driven.inside(t, q, u, c))[2:]

    q0, u0 = jax.tree.map(lambda x: x[0], (plan.q, plan.u))
    ts = jnp.linspace(0.0, HORIZON, 41)
    guess = jax.vmap(lambda t: law.plan(t)[:2])(ts)
    limits = (limited([60.0] * 3), PathLimit(normal, lower=8.0, name="normal force"))
    costs = (Running(off), FinalCost(rest))
    return ControlProblem(driven, q0, u0, ts, law.control, costs, limits, guess), 0.02


def timed(name, asked):
    import equinox as eqx

    from jaxhamel.control import RecedingHorizon, Sampled, closed_loop

    problem, period = globals()[name]()
    law = RecedingHorizon(
        problem,
        period,
        intervals=asked.intervals,
        degree=asked.degree,
        iterations=asked.iterations,
        barrier=asked.barrier,
    )
    step = eqx.filter_jit(lambda law, *given: law.step(*given))
    found = closed_loop(problem.system, problem.q0, problem.u0, Sampled(law, period), asked.samples)
    memory, times, used = law.start(), [], []
    for k in range(asked.samples):
        q, u = jax.tree.map(lambda x, k=k: x[k], (found.q, found.u))
        begun, cpu = time.perf_counter(), time.process_time()
        command, memory = step(law, memory, found.ts[k], q, u)
        command.block_until_ready()
        times.append(1e3 * (time.perf_counter() - begun))
        used.append(1e3 * (time.process_time() - cpu))
    times, used = np.array(times[2:]), np.array(used[2:])
    kept = found.control.memory
    print(
        f"| {name} | {problem.system.space.dim + problem.u0.shape[0]} | {1e3 * period:.0f} ms | {asked.intervals} x "
        f"{asked.degree} | {asked.iterations} | {np.median(times):.2f} | {np.quantile(times, 0.99):.2f} | "
        f"{np.median(used):.2f} | {np.quantile(used, 0.99):.2f} | "
        f"{int(kept.failed)} of {int(kept.samples)} | {float(kept.violation):.1e} |",
        flush=True,
    )
    commands = np.asarray(found.control.commands)
    print(
        "largest commands", np.abs(commands).max(axis=0), "end", found.succeeded, kept.search.errors
    )
    return found, law


def picture(file, samples=250):
    """Sleighs held to the circle: the one that the plans are made with, heavier and lighter ones, and their commands."""
    import equinox as eqx
    import matplotlib.pyplot as plt

    from jaxhamel.control import RecedingHorizon, Sampled, closed_loop

    problem, period = sleigh(limit := 0.4)
    law = Sampled(RecedingHorizon(problem, period, intervals=20, degree=2), period)
    figure, (plane, over) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    path = np.asarray(jax.vmap(circle)(jnp.linspace(0.0, 4 * np.pi, 200)))
    plane.plot(path[:, 1], path[:, 2], color="0.6", label="asked for")
    for words, share in (("as planned", 1.0), ("30 % heavier", 1.3), ("30 % lighter", 0.7)):
        of = lambda s: (s.mass, s.inertia)  # noqa: E731
        robot = eqx.tree_at(of, problem.system, tuple(share * x for x in of(problem.system)))
        found = closed_loop(robot, problem.q0, problem.u0, law, samples)
        q, commands = np.asarray(found.q), np.asarray(found.control.commands)
        where = np.asarray(jax.vmap(circle)(found.ts))
        off = np.hypot(*(q - where)[:, 1:].T)
        kept = found.control.memory
        print(
            f"{words}: distance from the circle's point {off[0]:.3f} m at the start, RMS from 5 s on "
            f"{1e3 * np.sqrt(np.mean(off[100:] ** 2)):.2f} mm, largest commands {np.abs(commands).max(axis=0)}, "
            f"{int(kept.failed)} plans failed, violation {float(kept.violation):.1e}",
            flush=True,
        )
        plane.plot(q[:, 1], q[:, 2], label=words, lw=1)
        over.plot(found.ts[:-1], commands[:, 1], label=words, lw=1)
    for bound in (limit, -limit):
        over.axhline(bound, color="0.6", ls=":")
    plane.set(xlabel="x / m", ylabel="y / m", aspect="equal")
    over.set(xlabel="t / s", ylabel="moment / N m", xlim=(0, 6))
    plane.legend(fontsize="small")
    over.legend(fontsize="small")
    figure.savefig(file, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="*", default=["unicycle", "sleigh", "ball"])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--intervals", type=int, default=20)
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--barrier", type=float, default=1e-4)
    parser.add_argument("--picture")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    if asked.picture:
        picture(asked.picture)
        return
    print(
        "| problem | numbers of a state | period | mesh | iterations | median [ms] | 99 % [ms] | processor, median | 99 % | "
        "failed | violation |"
    )
    print("|" + 11 * "---|")
    for name in asked.problems:
        timed(name, asked)


if __name__ == "__main__":
    main()
