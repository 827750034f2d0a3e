"""The figure-eight in closed loop: how many of 1,000 robots with wrong parameters and noisy sensors stay on the path.

`python benchmarks/closed_loop.py [--robots N] [--seeds S …] [--set key=value …]` prints a table for docs/feedback.md: the
built-in scenario `figure-eight` with its tables `[feedback]`, `[sensors]` and `[closed_loop]`, about the stored solution.
`--slopes 0.5 1 2` puts the robots on ground that rises by as many degrees along x, which neither plan nor regulator know.
`--lanes 65536` compares the time of as many balls, carts with a pole and chains with masses 2 % off, under the regulator and
under the plan's control alone, and that of a gradient of a quarter of them by their first states and the regulator's gains
with that of their motion; `--quick` does so for 4,096 carts. The last line is a JSON object.
Times are those of a second run: programs are compiled in the first.
"""

import argparse
import json
import math
import time
from types import SimpleNamespace

import jax


def timed(run):
    """The result, and wall-clock and processor seconds of a second run."""
    jax.block_until_ready(run())
    begun, used = time.perf_counter(), time.process_time()
    found = jax.block_until_ready(run())
    return found, time.perf_counter() - begun, time.process_time() - used


def in_turns(runs, turns=4):
    """The least processor seconds of each of `runs`, which are made in turns; the first turn compiles."""
    used = {key: [] for key in runs}
    for _ in range(turns):
        for key, run in runs.items():
            begun = time.process_time()
            jax.block_until_ready(run())
            used[key].append(time.process_time() - begun)
    return {key: min(times[1:]) for key, times in used.items()}


class Robots:
    """Robots at the start of a plan, with masses 2 % off, under its regulator."""

    def __init__(self, plan, law, masses, lanes, period=0.01):
        import equinox as eqx
        import jax.numpy as jnp

        shares = 1 + 0.02 * jax.random.normal(
            jax.random.key(0), (lanes, *jnp.shape(masses(plan.system)))
        )
        none = jax.tree.map(lambda x: None, plan.system)
        self.system = eqx.tree_at(masses, plan.system, shares * masses(plan.system))
        self.axes = eqx.tree_at(masses, none, 0, is_leaf=lambda x: x is None)
        self.start = jax.tree.map(lambda x: x[0], (plan.q, plan.u))
        self.wide = jax.tree.map(lambda x: jnp.broadcast_to(x, (lanes, *x.shape)), self.start)
        self.plan, self.law, self.period = plan, law, period

    def open_loop(self, ts):
        """Their motion under the plan's control alone."""
        from jaxhamel.ensemble import rollout

        axes, control = (self.axes, None, None, None), self.plan.control
        return rollout(self.system, *self.start, ts, control, dt=0.5001 * self.period, in_axes=axes)

    def closed(self, samples, sensors=None, key=None, law=None, states=None):
        """Their motion under the digital regulator, which sees the state or, with a key, `sensors`."""
        from jaxhamel.control import Sampled, closed_loop

        q, u = self.wide if states is None else states
        held = Sampled(self.law if law is None else law, self.period, delay=1, sensors=sensors)
        return closed_loop(
            self.system, q, u, held, samples, key=key, in_axes=(self.axes, 0, 0, None)
        )


def rollouts(name, plan, law, noise, masses, lanes, samples=20):
    """The speeds of closed loops relative to open ones, by processor time of trajectories in lanes: under the plan's control
    alone, with the ends or all samples kept, and under the digital regulator, with the state or noisy sensors; and the time
    of a gradient relative to that of its motion."""
    import jax.numpy as jnp

    from jaxhamel.control import StateSensors

    robots, key = Robots(plan, law, masses, lanes), jax.random.key(1)
    every = robots.period * jnp.arange(samples + 1)
    runs = {
        "open loop, ends": lambda: robots.open_loop(every[:: len(every) - 1]),
        "open loop": lambda: robots.open_loop(every),
        "regulator": lambda: robots.closed(samples),
        "noisy sensors": lambda: robots.closed(samples, StateSensors(noise), key),
    }
    least = in_turns(runs)
    words = [
        f"{key} {x:.3f} s ({least['open loop'] / x:.2f} of the speed)" for key, x in least.items()
    ]
    print(f"{name}, {lanes} lanes, {samples} samples: " + ", ".join(words), flush=True)
    ratio = gradient_ratio(name, Robots(plan, law, masses, lanes // 4), samples)
    return {key: least["open loop"] / x for key, x in least.items()} | {"gradient": ratio}


def gradient_ratio(name, robots, samples):
    """Processor time of the gradient of Σ q² + u² by all first states and the regulator's gains, over that of the motion."""
    import equinox as eqx
    import jax.numpy as jnp

    def motion(given):
        gains, states = given
        law = eqx.tree_at(lambda law: law.gains, robots.law, gains)
        return robots.closed(samples, law=law, states=states)

    def numbers(q, u):
        return sum(jnp.sum(x * x) for x in jax.tree.leaves((q, u)))

    def loss(given):
        found = motion(given)
        return numbers(found.q, found.u)

    given = robots.law.gains, robots.wide
    compiled = {"motion": jax.jit(motion), "gradient": jax.jit(jax.grad(loss))}
    least = in_turns({key: lambda f=f: f(given) for key, f in compiled.items()}, turns=8)
    ratio = least["gradient"] / least["motion"]
    lanes = len(robots.wide[1])
    print(
        f"{name}, {lanes} lanes: motion {least['motion']:.3f} s, gradient {least['gradient']:.3f} s ({ratio:.2f} times)",
        flush=True,
    )
    return ratio


def at_rest(system, q, weights):
    """A plan that keeps a system at rest for 2 s, and its regulator."""
    import jax.numpy as jnp

    from jaxhamel.control import MotionPlan, regulate

    size, ts = len(q), jnp.linspace(0.0, 2.0, 201)
    rows = lambda x: jnp.broadcast_to(x, (201, size))
    control = jnp.zeros(system.n_controls)
    plan = MotionPlan(system, ts, rows(jnp.asarray(q)), rows(jnp.zeros(size)), lambda t: control)
    costs = {"state_cost": jnp.asarray(weights), "control_cost": jnp.ones(system.n_controls)}
    return plan, regulate(*plan, **costs)


def cart_pole():
    """The plan and regulator of a cart with its pole upright."""
    from jaxhamel.systems import CartPole

    plan, law = at_rest(CartPole(), [0.0, math.pi], [10.0, 10.0, 1.0, 1.0])
    return plan, law, [0.003, 0.005, 0.01, 0.02], lambda s: s.pole_mass


def chain(links=5):
    """The plan and regulator of hanging links with a torque in each joint."""
    import jax.numpy as jnp

    import jaxhamel

    class Chain(jaxhamel.System):
        masses: jax.Array
        space = jaxhamel.Euclidean(links)
        n_controls = links

        def lagrangian(self, t, q, v):
            across, up = jnp.cumsum(v * jnp.cos(q)), jnp.cumsum(v * jnp.sin(q))
            return 0.5 * self.masses @ (across**2 + up**2) + 9.81 * self.masses @ jnp.cumsum(
                jnp.cos(q)
            )

        def force(self, t, q, v, control):
            return control - jnp.append(control[1:], 0.0)

    plan, law = at_rest(Chain(jnp.ones(links)), [0.1] * links, [1.0] * 2 * links)
    return plan, law, [0.005] * links + [0.02] * links, lambda s: s.masses


def on_slopes(scenario, result, degrees, seed):
    """Prints a table of the same robots on ground that rises along x, with the regulator of level ground."""
    import equinox as eqx
    import jax.numpy as jnp

    from jaxhamel import MovingParts
    from jaxhamel.cli._closed_loop._loop import regulator_of
    from jaxhamel.cli._commands._closed_loop import _closed_and_open_loop
    from jaxhamel.cli._commands._closed_loop_report import _loop_numbers
    from jaxhamel.control import plan_of

    plan = plan_of(result)
    law = regulator_of(scenario, plan)
    absent = lambda x: x is None
    failed = {}
    print("| slope | failed | RMS: median | 95 % | largest command, median |")
    print("|" + 5 * "---|")
    for angle in degrees:
        slope = jnp.array([jnp.tan(jnp.deg2rad(angle)), 0.0])
        problem = eqx.tree_at(lambda p: p.system.slope, result.problem, slope, is_leaf=absent)
        tilted = plan._replace(system=MovingParts(problem.system))
        found = _closed_and_open_loop(scenario, problem, tilted, law, seed)
        numbers = _loop_numbers(found.closed, found.tolerance)
        failed[f"{angle:g}°"] = numbers["failed"]
        print(
            f"| {angle:g}° | {numbers['failed']} of {numbers['trajectories']} | {1e3 * numbers['tracking_rms']:.3g} mm | "
            f"{1e3 * numbers['tracking_rms_95']:.3g} mm | {float(jnp.nanmedian(found.closed.command)):.3g} rad/s² |",
            flush=True,
        )
    return failed


def ended(figures):
    """Prints the last line: speeds relative to the open loop, or numbers of failures."""
    print(json.dumps({"benchmark": "closed_loop", "figures": figures}, ensure_ascii=False))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--robots", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--lanes", type=int)
    parser.add_argument("--slopes", type=float, nargs="*", help="degrees")
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    from jaxhamel.cli._closed_loop._loop import regulator_of
    from jaxhamel.cli._commands._closed_loop import close_loop
    from jaxhamel.cli._commands._closed_loop_report import summary_of
    from jaxhamel.cli._objects._task import build_problem
    from jaxhamel.cli._scenario._scenario import load
    from jaxhamel.control import plan_of, replay
    from jaxhamel.control._figure_eight import figure_eight_curve

    if asked.quick:
        ended({"cart": rollouts("cart with a pole", *cart_pole(), 4096)})
        return
    changes = [*asked.changes, f"closed_loop.trajectories={asked.robots}"]
    scenario = load("figure-eight", changes)
    problem, curve = build_problem(scenario, 0), figure_eight_curve()
    result = SimpleNamespace(
        problem=problem, control=curve, trajectory=replay(problem, curve), states=None
    )
    plan = plan_of(result)
    _, clock, used = timed(lambda: regulator_of(scenario, plan))
    print(f"regulator of {len(plan.ts)} times: {clock:.3f} s, {used:.3f} s of processor time")
    if asked.slopes:
        ended(on_slopes(scenario, result, asked.slopes, asked.seeds[0]))
        return
    if asked.lanes:
        noise, masses = scenario["sensors"]["noise"], lambda s: s.system.masses
        ball = plan, regulator_of(scenario, plan), noise, masses
        cases = {"cart with a pole": cart_pole(), "chain of five links": chain(), "ball": ball}
        ended({name: rollouts(name, *case, asked.lanes) for name, case in cases.items()})
        return
    print(
        "| seed | | failed | RMS: median | 95 % | smallest normal force | of those that complete | seconds |"
    )
    print("|" + 8 * "---|")
    failed = {}
    for seed in asked.seeds:
        begun = time.perf_counter()
        numbers = summary_of(close_loop(scenario, result, seed), seed)
        seconds = time.perf_counter() - begun
        failed[seed] = numbers["failed"]
        for name, found in (("with feedback", numbers), ("open loop", numbers["open_loop"])):
            least = found["min_normal_force_completed"]
            of_completed = "" if least is None else f"{least:.3g} N"
            print(
                f"| {seed} | {name} | {found['failed']} of {found['trajectories']} | "
                f"{1e3 * found['tracking_rms']:.3g} mm | {1e3 * found['tracking_rms_95']:.3g} mm | "
                f"{found['min_normal_force']:.3g} N | {of_completed} | {seconds:.1f} |",
                flush=True,
            )
    ended(failed)


if __name__ == "__main__":
    main()
