"""Time of one step of receding-horizon controllers on one core, and the tracking errors of their closed loops.

`taskset -c 0 python benchmarks/receding_horizon.py [--problems NAME …] [--samples N] [--intervals N] [--degree N]
[--iterations N] [--hessian NAME] [--heavier SHARE]` prints a table for docs/feedback.md: unicycle, sleigh, and the ball with
three masses on its figure-eight, each over 2 s with all limits. In each sample the law computes a command, which acts one
period later, and the plant, simulated by itself with masses that are heavier by SHARE, moves on by one period. Times are
those of the law's steps after the second, by the clock and of the processor; a step that takes longer than the deadline of
10 ms is counted as late. `--quick` takes the sleigh on a coarse mesh, within 30 s. The last line is one
JSON object. `--picture FILE` draws the loops of the sleigh: as planned, and two robots with other parameters.
"""

import argparse
import json
import time
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

HORIZON, DEADLINE = 2.0, 10.0  # s, ms
FRICTION = 0.6  # the largest ratio of tangential to normal force
OFF = 0.005  # initial offset of the ball [m]


def circle(t):
    """A pose (angle, x, y) that goes round a circle of 1 m at 0.5 m/s."""
    return jnp.stack([0.5 * t, jnp.sin(0.5 * t), 1.0 - jnp.cos(0.5 * t)])


def limited(size):
    from jaxhamel.control import PathLimit

    return PathLimit(lambda t, q, u, c: c(t), -jnp.asarray(size), jnp.asarray(size), "control")


def posed(system, u0, weight, limit):
    """The task to hold a moving pose on the circle, from a start 0.2 m beside it."""
    from jaxhamel.control import ControlEnergy, ControlProblem, Running

    space = system.space
    off = lambda t, q, u, c: space.local(circle(t), q)
    costs = (Running(off, weight), ControlEnergy(0.1))
    zero = lambda t: jnp.zeros(2)
    q0 = jnp.array([0.0, 0.0, 0.2])
    ts = jnp.linspace(0.0, HORIZON, 3)
    beside = lambda t, q: (q - circle(t))[1:]
    return ControlProblem(system, q0, u0, ts, zero, costs, (limited(limit),)), 0.05, beside


def unicycle():
    from jaxhamel import Kinematic
    from jaxhamel.systems import KnifeEdge

    return posed(
        Kinematic(KnifeEdge(*map(jnp.array, (1.0, 1.0, 0.0)))), jnp.zeros(0), 10.0, [0.7, 1.0]
    )


def sleigh(limit=2.0):
    from jaxhamel.systems import ChaplyginSleigh

    return posed(
        ChaplyginSleigh(*map(jnp.array, (1.0, 1.0, 0.2))),
        jnp.array([0.5, 0.5]),
        10.0,
        [limit, limit],
    )


def ball():
    """The task to follow the figure-eight with θ̈ up to 60 rad/s² and a normal force of at least 8 N, a third of the
    weight."""
    from jaxhamel import MovingParts
    from jaxhamel.control import (
        ControlProblem,
        FinalCost,
        PathLimit,
        Running,
        figure_eight_solution,
        regulate,
        replay,
    )
    from jaxhamel.control._loop._plan import plan_of_motion
    from jaxhamel.systems import RollingBall

    problem, curve = figure_eight_solution()
    plan = plan_of_motion(problem, replay(problem, curve), curve)
    rolling = cast(RollingBall, problem.system)
    driven = MovingParts(rolling)
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

    def forces(t, q, u, c):
        force = rolling.contact_force(t, *driven.inside(t, q, u, c))
        return jnp.stack(
            [force[2], FRICTION * force[2] - jnp.sqrt(1e-6 + force[0] ** 2 + force[1] ** 2)]
        )

    (turn, place, theta), u0 = jax.tree.map(lambda x: x[0], (plan.q, plan.u))
    q0 = turn, place + jnp.array([0.0, OFF]), theta
    ts = jnp.linspace(0.0, HORIZON, 41)
    guess = jax.vmap(lambda t: law.plan(t)[:2])(ts)
    limits = (
        limited([60.0] * 3),
        PathLimit(forces, lower=jnp.array([8.0, 0.0]), name="normal force and friction"),
    )
    costs = (Running(off), FinalCost(rest))
    problem = ControlProblem(driven, q0, u0, ts, law.control, costs, limits, guess)
    beside = lambda t, q: q[1] - law.plan(t)[0][1]
    return problem, 0.02, beside


class Given(eqx.Module):
    """A constant command, as a law."""

    command: jax.Array

    def __call__(self, t, q, u):
        return self.command


def heavier(system: Any, share: float) -> Any:
    """The system with all masses and inertias larger by a given share."""
    names = ("mass", "masses", "inertia")
    grow = lambda path, x: (1 + share) * x if getattr(path[-1], "name", "") in names else x
    return jax.tree_util.tree_map_with_path(grow, system)


def looped(problem, law, plant, samples):
    """States, commands and times [ms] of a loop whose commands act one period after their samples."""
    from jaxhamel.control import Sampled, closed_loop

    step = eqx.filter_jit(lambda law, *given: law.step(*given))
    memory, state, period = law.start(), (problem.q0, problem.u0), float(law.period)
    acting, rows, times = memory.waiting[0], [], []
    for k in range(samples):
        t = problem.ts[0] + k * period
        begun, cpu = time.perf_counter(), time.process_time()
        command, memory = jax.block_until_ready(step(law, memory, t, *state))
        times.append([1e3 * (time.perf_counter() - begun), 1e3 * (time.process_time() - cpu)])
        held = Sampled(Given(acting), period)
        found = closed_loop(plant, *state, held, 1, t0=t, steps=4)
        rows.append((t, *state, acting))
        state, acting = (jax.tree.map(lambda x: x[-1], (found.q, found.u))), command
    together = jax.tree.map(lambda *x: np.stack(x), *rows)
    return together, np.array(times), memory


def timed(name, asked):
    """The row of a problem, and its figures."""
    from jaxhamel.control import RecedingHorizon

    problem, period, beside = globals()[name]()
    law = RecedingHorizon(
        problem,
        period,
        intervals=asked.intervals,
        degree=asked.degree,
        iterations=asked.iterations,
        barrier=asked.barrier,
        hessian=asked.hessian,
        delay=1,
    )
    begun = time.process_time()
    plant = heavier(problem.system, asked.heavier)
    found, times, memory = looped(problem, law, plant, asked.samples)
    compiled, times = 1e-3 * times[:2, 1].sum(), times[2:]
    (clock, most), (used, most_used) = (np.quantile(x, [0.5, 0.99]) for x in times.T)
    late = int(np.sum(times[:, 0] > DEADLINE))
    print(
        f"| {name} | {problem.system.space.dim + problem.u0.shape[0]} | {1e3 * period:.0f} ms | {asked.intervals} x "
        f"{asked.degree} | {asked.iterations} | {clock:.2f} | {most:.2f} | {used:.2f} | {most_used:.2f} | "
        f"{late} of {len(times)} | {int(memory.failed)} | {float(memory.violation):.1e} | {compiled:.0f} s |",
        flush=True,
    )
    whole = time.process_time() - begun
    off = np.linalg.norm(jax.vmap(beside)(found[0], found[1]), axis=1)
    rms = 1e3 * np.sqrt(np.mean(off[len(off) // 3 :] ** 2))
    print(
        f"{name}: {found[0][-1]:.1f} s of motion, {whole:.0f} s of processor time for the whole; distance from the path "
        f"{1e3 * off[0]:.1f} mm at the start, after a third RMS {rms:.2f}, largest {1e3 * off[len(off) // 3 :].max():.2f}; "
        f"largest commands {np.abs(found[-1]).max(axis=0)}; least distance to limits {kept(problem, plant, found)}",
        flush=True,
    )
    figures = {
        "median_ms": clock,
        "most_ms": most,
        "processor_ms": used,
        "rms_mm": rms,
        "late": late,
    }
    return {key: float(f"{value:.3g}") for key, value in figures.items()}


def kept(problem, plant, found):
    """The least distance of the plant's motion from each limit of the problem; negative if the limit is exceeded."""
    from jaxhamel.mechanics import as_control

    def distances(t, q, u, command):
        at = plant, t, q, u, as_control(command)
        gaps = lambda x: (x.residual(*at) - x.lower, x.upper - x.residual(*at))
        return [jnp.min(jnp.concatenate(gaps(x))) for x in problem.constraints]

    given = jax.tree.map(jnp.asarray, found)
    return [float(jnp.min(x)) for x in jax.jit(jax.vmap(distances))(*given)]


def picture(file, samples=250):
    """Sleighs held to the circle: the one that the plans are made with, heavier and lighter ones, and their commands."""
    from matplotlib import rc_context

    from jaxhamel.control import RecedingHorizon, Sampled, closed_loop
    from jaxhamel.viz import save
    from jaxhamel.viz._figures._canvas import canvas, ground_axes, time_axis
    from jaxhamel.viz._style import LIGHT, MATPLOTLIB

    problem, period, _ = sleigh(limit := 0.4)
    law = Sampled(RecedingHorizon(problem, period, intervals=20, degree=2), period)
    with rc_context(MATPLOTLIB):
        figure = canvas(9.0, 3.9)
        plane, over = figure.subplots(1, 2)
    path = np.asarray(jax.vmap(circle)(jnp.linspace(0.0, 4 * np.pi, 200)))
    plane.plot(path[:, 1], path[:, 2], color=LIGHT["reference"], ls="--", label="reference")
    cases = (("as planned", 1.0), ("30 % heavier", 1.3), ("30 % lighter", 0.7))
    for i, (words, share) in enumerate(cases):
        of = lambda s: (s.mass, s.inertia)
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
        colour = LIGHT[f"series{i + 1}"]
        plane.plot(q[:, 1], q[:, 2], color=colour, label=words)
        over.plot(found.ts[:-1], commands[:, 1], color=colour, label=words)
    for bound in (limit, -limit):
        over.axhline(bound, color=LIGHT["limit"], ls=":", label="limit" if bound > 0 else None)
    with rc_context(MATPLOTLIB):
        ground_axes(plane, "Path of the sleigh", "m")
        time_axis(over, np.array([0.0, 6.0]), "Moment", "moment / N m")
        drawn = plane.get_legend_handles_labels()[0] + over.get_legend_handles_labels()[0][-1:]
        figure.legend(drawn, [x.get_label() for x in drawn], loc="outside upper left", ncols=5)
    save(figure, file, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", nargs="*", default=["unicycle", "sleigh", "ball"])
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--intervals", type=int, default=20)
    parser.add_argument("--degree", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=1)
    parser.add_argument("--barrier", type=float, default=1e-4)
    parser.add_argument("--hessian", default="gauss-newton")
    parser.add_argument("--heavier", type=float, default=0.0)
    parser.add_argument("--quick", action="store_true", help="the sleigh on a coarse mesh")
    parser.add_argument("--picture")
    asked = parser.parse_args()
    if asked.quick:
        asked.problems, asked.samples, asked.intervals, asked.degree = (
            ["sleigh"],
            40,
            10,
            1,
        )
    jax.config.update("jax_enable_x64", True)
    if asked.picture:
        picture(asked.picture)
        return
    print(
        "| problem | numbers of a state | period | mesh | iterations | median [ms] | 99 % [ms] | processor, median | 99 % | "
        "late | failed | violation | compiling |"
    )
    print("|" + 13 * "---|")
    found = {name: timed(name, asked) for name in asked.problems}
    print(json.dumps({"benchmark": "receding_horizon", "problems": found}))


if __name__ == "__main__":
    main()
