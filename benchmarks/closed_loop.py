"""The figure-eight in closed loop: how many of 1,000 robots with wrong parameters and noisy sensors stay on the path.

`python benchmarks/closed_loop.py [--robots N] [--seeds S …] [--set key=value …]` prints a table for docs/feedback.md: the
built-in scenario `figure-eight` with its tables `[feedback]`, `[sensors]` and `[closed_loop]`, about the stored solution.
`--slopes 0.5 1 2` puts the robots on ground that rises by as many degrees along x, which neither plan nor regulator know.
`--lanes 65536` compares rollouts of as many balls with masses 2 % off, under the regulator and under the plan's θ̈ alone.
Times are those of a second run: programs are compiled in the first.
"""

import argparse
import time
from types import SimpleNamespace

import jax


def timed(run):
    """The result, and the seconds of a second run on the clock and of the processor."""
    jax.block_until_ready(run())
    begun, used = time.perf_counter(), time.process_time()
    found = jax.block_until_ready(run())
    return found, time.perf_counter() - begun, time.process_time() - used


def rollouts(plan, law, lanes: int, steps: int = 20):
    """CPU seconds of `steps` steps of RK4 with the regulator and without, and their ratio."""
    import equinox as eqx

    from jaxhamel import Feedback
    from jaxhamel.ensemble import rollout

    masses = lambda s: s.system.masses  # noqa: E731
    shares = 1 + 0.02 * jax.random.normal(jax.random.key(0), (lanes, 1))
    system = eqx.tree_at(masses, plan.system, shares * masses(plan.system))
    none = jax.tree.map(lambda x: None, plan.system)
    axes = eqx.tree_at(masses, none, 0, is_leaf=lambda x: x is None), None, None, None
    start = jax.tree.map(lambda x: x[0], (plan.q, plan.u))

    ts, dt = plan.ts[: steps + 1 : steps], 1.001 * float(plan.ts[1] - plan.ts[0])

    def run(control):
        return rollout(system, *start, ts, control, dt=dt, in_axes=axes)

    used = [
        min(timed(lambda c=c: run(c))[2] for _ in range(3)) for c in (plan.control, Feedback(law))
    ]
    print(f"{lanes} lanes: open loop {used[0]:.3f} s, regulator {used[1]:.3f} s of processor time")


def on_slopes(scenario, result, degrees, seed):
    """A table of the same robots, with the regulator of level ground, on ground that rises along x."""
    import equinox as eqx
    import jax.numpy as jnp

    from jaxhamel import MovingParts
    from jaxhamel.cli._closed_loop._loop import regulator_of
    from jaxhamel.cli._commands._closed_loop import _closed
    from jaxhamel.cli._commands._closed_loop_report import _numbers
    from jaxhamel.control import plan_of

    plan = plan_of(result)
    law = regulator_of(scenario, plan)
    absent = lambda x: x is None  # noqa: E731
    print("| slope | failed | RMS: median | 95 % | largest command, median |")
    print("|" + 5 * "---|")
    for angle in degrees:
        slope = jnp.array([jnp.tan(jnp.deg2rad(angle)), 0.0])
        problem = eqx.tree_at(lambda p: p.system.slope, result.problem, slope, is_leaf=absent)
        tilted = plan._replace(system=MovingParts(problem.system))
        found = _closed(scenario, problem, tilted, law, seed)
        numbers = _numbers(found.closed, found.tolerance)
        print(
            f"| {angle:g}° | {numbers['failed']} of {numbers['trajectories']} | {1e3 * numbers['tracking_rms']:.3g} mm | "
            f"{1e3 * numbers['tracking_rms_95']:.3g} mm | {float(jnp.nanmedian(found.closed.command)):.3g} rad/s² |",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--slopes", type=float, nargs="*", help="degrees")
    parser.add_argument("--set", action="append", default=[], dest="changes")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    from jaxhamel.cli._closed_loop._loop import regulator_of
    from jaxhamel.cli._commands._closed_loop import close_loop
    from jaxhamel.cli._commands._closed_loop_report import summary_of
    from jaxhamel.cli._objects._task import build_problem
    from jaxhamel.cli._scenario._scenario import load
    from jaxhamel.control import plan_of, replay
    from jaxhamel.control._figure_eight import figure_eight_curve

    changes = [*asked.changes, f"closed_loop.trajectories={asked.robots}"]
    scenario = load("figure-eight", changes)
    problem, curve = build_problem(scenario, 0), figure_eight_curve()
    result = SimpleNamespace(problem=problem, control=curve, trajectory=replay(problem, curve))
    plan = plan_of(result)
    _, clock, used = timed(lambda: regulator_of(scenario, plan))
    print(f"regulator of {len(plan.ts)} times: {clock:.3f} s, {used:.3f} s of processor time")
    if asked.slopes:
        on_slopes(scenario, result, asked.slopes, asked.seeds[0])
        return
    if asked.lanes:
        rollouts(plan, regulator_of(scenario, plan), asked.lanes)
    print(
        "| seed | | failed | RMS: median | 95 % | smallest normal force | of those that complete | seconds |"
    )
    print("|" + 8 * "---|")
    for seed in asked.seeds:
        begun = time.perf_counter()
        numbers = summary_of(close_loop(scenario, result, seed), seed)
        seconds = time.perf_counter() - begun
        for name, found in (("with feedback", numbers), ("open loop", numbers["open_loop"])):
            least = found["min_normal_force_completed"]
            of_completed = "" if least is None else f"{least:.3g} N"
            print(
                f"| {seed} | {name} | {found['failed']} of {found['trajectories']} | "
                f"{1e3 * found['tracking_rms']:.3g} mm | {1e3 * found['tracking_rms_95']:.3g} mm | "
                f"{found['min_normal_force']:.3g} N | {of_completed} | {seconds:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
