"""The closed loop of `control`: many robots held to the plan, their statistics, and what the report shows of them."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._words import counted
from jaxhamel.cli._objects._loop import (
    Robots,
    compile_motions,
    controller_of,
    flat_axes_of,
    loop_table,
    motions_of,
    regulator_of,
    robots_of,
)
from jaxhamel.cli._objects._loop_measured import HeldMotions, LoopMeasures, measured, motions_in
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.control import ControlProblem, MotionPlan, Regulator, Result, plan_of, replay
from jaxhamel.control._loop._plan import plan_of_motion
from jaxhamel.ensemble._study._statistics import probability
from jaxhamel.simulate import Trajectory
from jaxhamel.viz import (
    Chart,
    held_errors_figure,
    held_paths_figure,
    histograms_figure,
    landing_figure,
)
from jaxhamel.viz._motion._companion import Companion

SHARE = (
    0.02  # of the size of the path: the tracking error up to which a robot has followed the plan
)
SHOWN = 200  # number of robots whose paths are drawn


class ClosedLoop(NamedTuple):
    """Many robots with feedback (`closed`), and the same robots under the plan's control alone (`open_loop`).

    `tolerance`: the tracking error up to which a robot has followed the plan [m]; `shown`: the motion of the robot of
    median error, `path`: what was asked for, `(K, d)`, or None.
    """

    closed: LoopMeasures
    open_loop: LoopMeasures
    tolerance: float
    shown: Companion
    path: np.ndarray | None


def close_loop(scenario: Scenario, result: Result, seed: int) -> ClosedLoop:
    """Designs the regulator about the plan that was found, and simulates all robots with and without it."""
    plan = plan_of(result)
    law = regulator_of(scenario, plan)
    return _closed(scenario, result.problem, plan, law, seed)


def close_at_first(scenario: Scenario, problem: ControlProblem, seed: int) -> None:
    """Compiles what `close_loop` runs, for the control that the search begins with."""
    curve = problem.curve
    plan = plan_of_motion(problem, replay(problem, curve), curve)
    law = regulator_of(scenario, plan)
    robots = robots_of(scenario, problem, plan, seed)
    samples, controller = _samples(scenario, law), controller_of(scenario, law, robots.bias)
    compile_motions(scenario, robots, controller, samples, seed)
    kept = lambda x: jnp.broadcast_to(x[:, None], (len(x), samples + 1, *x.shape[1:]))  # noqa: E731
    ts = law.ts[0] + scenario["feedback"]["period"] * jnp.arange(samples + 1)
    commands = jnp.zeros((robots.count, samples, *controller.start.shape), robots.u0.dtype)
    q, u = jax.tree.map(kept, (robots.q0, robots.u0))
    still = HeldMotions(ts, q, u, commands)
    measured(problem, robots, still, law)


def _closed(
    scenario: Scenario, problem: ControlProblem, plan: MotionPlan, law: Regulator, seed: int
) -> ClosedLoop:
    robots = robots_of(scenario, problem, plan, seed)

    def run(law: Regulator) -> tuple[LoopMeasures, Trajectory]:
        found = _motions(scenario, robots, law, seed)
        return measured(problem, robots, motions_in(found), law), found

    closed, found = run(law)
    shown = _shown(robots, found, int(np.argsort(closed.rms)[len(closed.rms) // 2]))
    del found  # some hundred megabytes
    loose, _ = run(eqx.tree_at(lambda law: law.gains, law, jnp.zeros_like(law.gains)))
    path = None
    if problem.tracking is not None:
        path = np.asarray(jax.vmap(problem.tracking.path)(jnp.asarray(closed.ts)))
    size = 1.0 if path is None else float(np.max(np.ptp(path, axis=0)))
    tolerance = loop_table(scenario)["tolerance"] or SHARE * size
    return ClosedLoop(closed, loose, tolerance, shown, path)


def _samples(scenario: Scenario, law: Regulator) -> int:
    """The number of sampling periods in the plan."""
    span = float(law.ts[-1] - law.ts[0])
    return int(span / scenario["feedback"]["period"] * (1 + 1e-9))


def _motions(scenario: Scenario, robots: Robots, law: Regulator, seed: int) -> Trajectory:
    controller = controller_of(scenario, law, robots.bias)
    return motions_of(scenario, robots, controller, _samples(scenario, law), seed)


def _shown(robots: Robots, motions: Trajectory, number: int) -> Companion:
    ts, q, u = jax.tree.map(lambda x: np.asarray(x[number]), (motions.ts, motions.q, motions.u))
    leaves, structure = jax.tree.flatten(robots.system)
    axes = flat_axes_of(robots.axes[0], robots.system)
    one = [x if axis is None else x[number] for x, axis in zip(leaves, axes, strict=True)]
    return Companion(jax.tree.unflatten(structure, one), ts, q, u)


# --- in summary.json and in the report ------------------------------------------------------------


def summary_of(found: ClosedLoop, seed: int) -> dict[str, Any]:
    """The entry `closed_loop` of summary.json: with feedback, and the same robots in open loop."""
    return {
        **_numbers(found.closed, found.tolerance),
        "tolerance": found.tolerance,
        "seed": seed,
        "open_loop": _numbers(found.open_loop, found.tolerance),
    }


def _numbers(motions: LoopMeasures, tolerance: float) -> dict[str, Any]:
    followed, rms = motions.followed(tolerance), motions.rms
    whole = np.isfinite(rms)  # the motion did not break down
    failed = probability(~followed)
    found = {
        "trajectories": len(rms),
        "failed": int(np.count_nonzero(~followed)),
        "completed": 1.0 - failed["probability"],
        "failed_share": failed,
        "broken_down": int(np.count_nonzero(~whole)),
        "tracking_rms": float(np.median(rms)),
        "tracking_rms_95": float(np.quantile(rms, 0.95, method="higher")),
        "tracking_rms_max": _extreme(np.max, rms[whole]),
        "largest_command": _extreme(np.max, motions.command[whole]),
    }
    if motions.normal is not None and motions.friction is not None:
        found["min_normal_force"] = _extreme(np.min, motions.normal[whole])
        found["min_normal_force_completed"] = _extreme(np.min, motions.normal[followed])
        found["max_friction"] = _extreme(np.max, motions.friction[whole])
    return found


def _extreme(of: Callable[..., Any], values: np.ndarray) -> float | None:
    return float(of(values)) if values.size else None


def with_loop(outcome: Outcome, found: ClosedLoop, seed: int) -> Outcome:
    """The outcome of the search with that of the closed loop."""
    numbers = summary_of(found, seed)
    return replace(
        outcome,
        tiles=(*tiles_of(numbers), *outcome.tiles),
        lead=outcome.lead + lead_of(numbers),
        top={**outcome.top, "closed_loop": numbers},
    )


def tiles_of(numbers: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The headline numbers of the report."""
    share, rms = numbers["failed_share"], numbers["tracking_rms"]
    between = f"{100 * (1 - share['high']):.3g} to {100 * (1 - share['low']):.3g} %"
    return (
        (f"{100 * numbers['completed']:.3g} %", f"of the robots follow the plan ({between})"),
        (f"{1e3 * rms:.3g} mm", "tracking error of a robot, median"),
    )


def lead_of(numbers: Mapping[str, Any]) -> str:
    """The sentence under the heading."""
    without, rms = numbers["open_loop"], numbers["tracking_rms_95"]
    robots = counted(numbers["trajectories"], "robot")
    return (
        f" With feedback {100 * numbers['completed']:.3g} % of {robots} follow it, 95 % of them within {1e3 * rms:.3g} mm "
        f"(RMS); without, {100 * without['completed']:.3g} %. The rings are one of the robots in closed loop."
    )


def charts_of(found: ClosedLoop) -> list[Chart]:
    """Fan of paths, errors over time, ends, and histograms of what differs from robot to robot."""
    closed, loose = found.closed, found.open_loop
    errors = held_errors_figure(closed.ts, closed.error, loose.error)
    return [
        *_ground_charts(found),
        Chart("closed-loop-errors", errors, "Tracking errors with and without feedback over time"),
        *_histograms(closed),
    ]


def _ground_charts(found: ClosedLoop) -> Iterator[Chart]:
    """Paths in the plane and where they end."""
    closed, loose, path = found.closed.position, found.open_loop.position, found.path
    if closed is None or loose is None or path is None or path.shape[1] != 2:
        return
    figure = held_paths_figure(closed[:SHOWN, ::5], loose[:SHOWN, ::5], path)
    yield Chart("closed-loop-paths", figure, "Paths of robots with and without feedback")
    ends = closed[found.closed.followed(found.tolerance), -1]
    figure = landing_figure(ends, path[-1], title="Where the robots that follow end")
    yield Chart("closed-loop-ends", figure, "Where the robots end")


def _histograms(closed: LoopMeasures) -> Iterator[Chart]:
    quantities = {
        "tracking error, RMS / m": closed.rms,
        "smallest normal force / N": closed.normal,
        "friction coefficient needed": closed.friction,
        "largest command": closed.command,
    }
    finite = {k: x[np.isfinite(x)] for k, x in quantities.items() if x is not None}
    shown = {k: x for k, x in finite.items() if len(x)}
    if shown:
        figure = histograms_figure(shown, title="The robots in closed loop")
        yield Chart("closed-loop-robots", figure, "Histograms over the robots in closed loop")
