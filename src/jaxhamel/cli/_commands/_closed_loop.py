"""The closed loop of `control`: simulates many robots about the plan, with feedback and without."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._words import counted
from jaxhamel.cli._closed_loop._consistency import consistency_of
from jaxhamel.cli._closed_loop._loop import (
    Robots,
    compile_motions,
    controller_of,
    flat_axes_of,
    loop_table,
    motions_of,
    regulator_of,
    robots_of,
    weights_of,
)
from jaxhamel.cli._closed_loop._loop_measured import (
    HeldCoordinates,
    HeldMotions,
    LoopMeasures,
    measured,
    motions_in,
    plan_size,
    planned_coordinates,
    unit_of_commands,
    unit_of_distance,
)
from jaxhamel.cli._commands._closed_loop_report import (
    ClosedLoop,
    charts_of,
    curve_of,
    interrupted,
    unstable,
    with_loop,
)
from jaxhamel.cli._commands._training import TrainedPolicy, TrainingFolder, trained_policy
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.control import (
    ControlProblem,
    MotionPlan,
    Regulator,
    Result,
    loop_growth,
    plan_of,
)
from jaxhamel.control._loop._periods._period import with_errors
from jaxhamel.mechanics import System
from jaxhamel.simulate import Trajectory
from jaxhamel.viz import Chart
from jaxhamel.viz._motion._many_motions import TracedPoint, coordinates_of, traced, traced_point
from jaxhamel.viz._motion._scene_of import Companion

# Without `tolerance`, a robot has followed the plan if its tracking error is at most this share of the path's size.
SHARE = 0.02


class TrainingInterrupted(Exception):
    """Ctrl-C or SIGTERM ended the training of `policy`, whose state is on disk."""

    def __init__(self, policy: TrainedPolicy):
        super().__init__()
        self.policy = policy


def closed_about(
    outcome: Outcome,
    result: Result,
    seed: int,
    terminal: Terminal,
    stands: bool,
    folder: TrainingFolder | None = None,
) -> tuple[Outcome, list[Chart], Companion | None]:
    """Simulates robots that follow the plan found by a search, with the feedback of the scenario.

    **Arguments:** `stands`: whether the search found a plan; `folder`: the folder in which the network of `[policy]` is
    trained first, if the scenario has this table.

    **Returns:** the outcome with the numbers of the closed loop, its charts, and the motion of one robot. Without a table
    `[feedback]`, without a plan or without a regulator these are the given outcome, no charts, and None.
    """
    scenario = outcome.scenario
    if scenario["feedback"] is None or not stands or not bool(result.trajectory.succeeded):
        return outcome, [], None
    robots = counted(loop_table(scenario)["trajectories"], "robot")
    terminal.say(f"{scenario.name}: {robots} in closed loop …")
    try:
        found = close_loop(scenario, result, seed, folder)
    except TrainingInterrupted as stopped:
        return interrupted(outcome, stopped.policy), [curve_of(stopped.policy)], None
    except ScenarioError as error:  # the result of the search is written in any case
        terminal.say(f"{scenario.name}: the loop is not closed: {error}")
        return outcome, [], None
    if words := unstable(found.growth, found.prompt):
        terminal.say(f"{scenario.name}: {words}")
    if found.estimated is not None and not found.estimated.consistent:
        terminal.say(f"{scenario.name}: {found.estimated.words}")
    return with_loop(outcome, found, seed), charts_of(found), found.shown


def close_loop(
    scenario: Scenario, result: Result, seed: int, folder: TrainingFolder | None = None
) -> ClosedLoop:
    """Designs the regulator about the plan that the search has found, and simulates all robots with and without feedback.

    With a `folder` it first trains the policy of `[policy]`, if there is one.

    **Raises:** `TrainingInterrupted` if Ctrl-C ended the training.
    """
    plan, policy = plan_of(result), None
    if folder is not None and scenario["policy"] is not None:
        plan = folder.plan(plan)
        law = regulator_of(scenario, plan)
        samples = _samples(scenario, law)
        policy = trained_policy(scenario, result.problem, plan, law, samples, seed, folder)
        if policy.interrupted:
            raise TrainingInterrupted(policy)
    else:
        law = regulator_of(scenario, plan)
    return _closed_and_open_loop(scenario, result.problem, plan, law, seed, policy)


def close_at_first(
    scenario: Scenario, problem: ControlProblem, plan: MotionPlan, seed: int
) -> None:
    """Compiles the programs of `close_loop` before there is a result; `plan` is that of the first control of the search."""
    law = regulator_of(scenario, plan)
    robots = robots_of(scenario, problem, plan, seed)
    point = _point_of(problem, plan)
    samples = _samples(scenario, law)
    controller = controller_of(scenario, law, robots.bias, plan.system)
    compile_motions(scenario, robots, controller, samples, seed)

    def kept(x):
        return jnp.broadcast_to(x[:, None], (len(x), samples + 1, *x.shape[1:]))

    ts = law.ts[0] + scenario["feedback"]["period"] * jnp.arange(samples + 1)
    commands = jnp.zeros((robots.count, samples, *controller.start.shape), robots.u0.dtype)
    q, u = jax.tree.map(kept, (robots.q0, robots.u0))
    still = HeldMotions(ts, q, u, commands)
    measured(problem, robots, still, law, point)


def _closed_and_open_loop(
    scenario: Scenario,
    problem: ControlProblem,
    plan: MotionPlan,
    law: Regulator,
    seed: int,
    policy: TrainedPolicy | None = None,
) -> ClosedLoop:
    robots = robots_of(scenario, problem, plan, seed)
    point = _point_of(problem, plan)

    def run(law: Regulator, policy: TrainedPolicy | None = None) -> tuple[LoopMeasures, Trajectory]:
        found = _motions(scenario, robots, law, plan.system, seed, policy)
        return measured(problem, robots, motions_in(found), law, point), found

    closed, found = run(law, policy)
    estimated = consistency_of(found, len(with_errors(plan.system)))
    shown = _as_companion(robots, found, int(np.argsort(closed.rms)[len(closed.rms) // 2]))
    charted = problem.tracking is None
    first = coordinates_of(plan.system, found.q) if charted else None
    del found  # frees some hundred megabytes before the next run
    regulated = None if policy is None else run(law)[0]
    loose, found = run(eqx.tree_at(lambda law: law.gains, law, jnp.zeros_like(law.gains)))
    path, size = _path_and_size(problem, law, point, closed.ts)
    coordinates = None
    if first is not None:
        planned = planned_coordinates(law, plan.system, closed.ts)
        coordinates = HeldCoordinates(*first, coordinates_of(plan.system, found.q)[-1], planned)
    tolerance = loop_table(scenario)["tolerance"] or SHARE * size
    controller = controller_of(scenario, law, system=plan.system)
    unit = unit_of_distance(plan.system) if charted else "m"
    of_commands = unit_of_commands(plan.system, controller.start.size)
    labels = ("x", "y") if point is None else point.labels
    given = np.asarray(weights_of(law)[0])
    weights = given if np.any(given) else None
    growth, prompt = loop_growth(controller, weights), None
    if controller.delay and controller.model is None:
        prompt = loop_growth(dataclasses.replace(controller, delay=0), weights)
    return ClosedLoop(
        closed, loose, tolerance, size, unit, of_commands, shown, path, labels, coordinates, growth, prompt, policy,
        regulated, estimated,
    )  # fmt: skip


def _point_of(problem: ControlProblem, plan: MotionPlan) -> TracedPoint | None:
    """Returns the point whose path is drawn, or None for a task with a given path, which is drawn instead."""
    return None if problem.tracking else traced_point(plan.system, plan.ts, plan.q)


def _path_and_size(
    problem: ControlProblem, law: Regulator, point: TracedPoint | None, ts: np.ndarray
) -> tuple[np.ndarray | None, float]:
    """(path, size): the task's path and its extent or, for a task without a path, the plan's path of `point` and size."""
    if problem.tracking is not None:
        path = np.asarray(jax.vmap(problem.tracking.path)(jnp.asarray(ts)))
        return path, float(np.max(np.ptp(path, axis=0)))
    path = None if point is None else traced(point, problem.system, law.ts, law.q)
    return path, plan_size(law)


def _samples(scenario: Scenario, law: Regulator) -> int:
    """The number of sampling periods in the plan."""
    span = float(law.ts[-1] - law.ts[0])
    return int(span / scenario["feedback"]["period"] * (1 + 1e-9))


def _motions(
    scenario: Scenario,
    robots: Robots,
    law: Regulator,
    system: System,
    seed: int,
    policy: TrainedPolicy | None,
) -> Trajectory:
    controller = controller_of(scenario, law, robots.bias, system)
    if policy is not None:
        controller = eqx.tree_at(lambda c: c.law, controller, policy.law(controller.law))
    return motions_of(scenario, robots, controller, _samples(scenario, law), seed)


def _as_companion(robots: Robots, motions: Trajectory, number: int) -> Companion:
    ts, q, u = jax.tree.map(lambda x: np.asarray(x[number]), (motions.ts, motions.q, motions.u))
    leaves, structure = jax.tree.flatten(robots.system)
    axes = flat_axes_of(robots.axes[0], robots.system)
    one = [x if axis is None else x[number] for x, axis in zip(leaves, axes, strict=True)]
    return Companion(jax.tree.unflatten(structure, one), ts, q, u)
