"""Trains the policy of `[policy]` about a plan, keeps the state of the training on disk, and reports how it ended."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Float

from jaxhamel._files import written
from jaxhamel._saved_arrays import saved_arrays
from jaxhamel._search._loop import Progress
from jaxhamel._words import counted
from jaxhamel.cli._closed_loop._loop import controller_of, robots_of
from jaxhamel.cli._closed_loop._policy import (
    CorrectedRegulator,
    LoopCost,
    Scales,
    first_network,
    loop_cost,
)
from jaxhamel.cli._interrupt import SEARCH_SHARE, guard
from jaxhamel.cli._results._folder import TRAINING
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.control import ControlProblem, MotionPlan, Regulator, Training, train

PLAN = "plan.npz"  # the plan about which the policy is trained
OTHER_ROBOTS = 7000  # added to the seed for the robots of the training, which differ from those of [closed_loop]
AVERAGED = 10  # the costs at the start and at the end are means over this many updates


class TrainingFolder(NamedTuple):
    """The folder of a training's state, and its time limit.

    `resume`: whether the training continues from the state in the folder; `started`: the time on the monotonic clock at
    which the command began; `max_seconds`: the time limit of the command, or None if only that of `[policy]` counts.
    """

    out: Path
    terminal: Terminal
    resume: bool
    started: float
    max_seconds: float | None

    def begin(self) -> None:
        """Removes the state of an earlier training, unless this one continues it."""
        if not self.resume:
            for name in (TRAINING, PLAN):
                (self.out / name).unlink(missing_ok=True)

    def plan(self, plan: MotionPlan) -> MotionPlan:
        """The plan about which the policy is trained: the one in the folder or, if there is none, `plan`, which is written.

        A search that continues from its solution may end at another point within its tolerance; but a training that
        continues must give the same numbers as one without interruption.
        """
        leaves, structure = jax.tree.flatten(plan)
        path = self.out / PLAN
        if not path.exists():
            arrays: dict[str, Any] = {f"plan {i}": np.asarray(x) for i, x in enumerate(leaves)}
            with written(path, binary=True) as file:
                np.savez(file, **arrays)
            return plan
        try:
            with saved_arrays(path) as file:
                found = [file.read(f"plan {i}") for i in range(len(leaves))]
        except ValueError as error:
            raise ScenarioError(
                f"--resume: {path} cannot be read ({error}). Start without --resume."
            ) from None
        return jax.tree.unflatten(structure, [jnp.asarray(x) for x in found])

    def seconds(self, table: Mapping[str, Any]) -> float:
        """The time limit of the training [s]."""
        if self.max_seconds is None:
            return table["max_seconds"]
        left = SEARCH_SHARE * self.max_seconds - (time.monotonic() - self.started)
        return min(table["max_seconds"], max(left, 0.0))


class TrainedPolicy(NamedTuple):
    """A trained policy.

    `network`, `scales`: those of its law; `costs`: the cost before each update, relative to the regulator's; `summary`: the
    entry `policy` of summary.json.
    """

    network: eqx.nn.MLP
    scales: Scales
    costs: Float[np.ndarray, " K"]
    summary: Mapping[str, Any]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the training."""
        return self.summary["outcome"] == "interrupted"

    def law(self, regulator: Regulator) -> CorrectedRegulator:
        """The regulator with the network's correction."""
        return CorrectedRegulator(regulator, self.network, self.scales)


class _ProgressShown:
    """Shows the progress of a training, and ends it at its time limit as Ctrl-C would; `late`: whether it has ended it."""

    def __init__(self, terminal: Terminal, updates: int, seconds: float):
        self.terminal, self.updates, self.late = terminal, updates, False
        self.deadline = time.monotonic() + seconds

    def __call__(self, progress: Progress) -> None:
        """Shows the cost after an update."""
        done = progress.iteration
        self.terminal.update(
            f"update {done:4d} of {self.updates}  cost {progress.cost:.4f} of the regulator's  "
            f"{progress.elapsed:.0f} s, about {progress.time_left:.0f} s left"
        )
        if done < self.updates and time.monotonic() > self.deadline:
            self.late = True
            raise KeyboardInterrupt


def trained_policy(
    scenario: Scenario,
    problem: ControlProblem,
    plan: MotionPlan,
    law: Regulator,
    samples: int,
    seed: int,
    folder: TrainingFolder,
) -> TrainedPolicy:
    """Trains the network of `[policy]` about the regulator `law` of the plan, on robots drawn with a seed of their own.

    **Raises:** `ScenarioError` if a robot breaks down under the regulator, or the state on disk is of another policy.
    """
    table, own = scenario["policy"], seed + OTHER_ROBOTS
    folder.terminal.say(f"{scenario.name}: training a policy, {table['updates']} updates …")
    robots = robots_of(scenario, problem, plan, own, table["robots"])
    controller = controller_of(scenario, law, robots.bias, plan.system)
    first, noise, updates = jax.random.split(jax.random.key(own), 3)
    cost = loop_cost(scenario, robots, controller, samples, noise)
    began = time.monotonic()
    found = _trained(table, cost, first_network(scenario, cost, first), updates, folder)
    folder.terminal.say(_ended(scenario.name, found))
    summary = {
        "updates": len(found.losses),
        "outcome": found.outcome,
        "cost_at_start": _mean(found.losses[:AVERAGED]),
        "cost_at_end": _mean(found.losses[-AVERAGED:]),
        "seconds": time.monotonic() - began,
    }
    return TrainedPolicy(found.policy, cost.scales, found.losses, summary)


def _trained(
    table: Mapping[str, Any],
    cost: LoopCost,
    network: eqx.nn.MLP,
    key: jax.Array,
    folder: TrainingFolder,
) -> Training:
    """Trains the network, from the state on disk if there is one; the outcome is `"stopped"` at the time limit."""
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(table["rate"]))
    shown = _ProgressShown(folder.terminal, table["updates"], folder.seconds(table))
    path = folder.out / TRAINING
    guard.keep()  # Ctrl-C ends the training, which then writes its state
    try:
        with folder.terminal.updating():
            found = train(
                cost, network, table["updates"], key=key, optimiser=optimiser, checkpoint=path, progress=shown
            )  # fmt: skip
    except ValueError as error:
        raise ScenarioError(f"--resume: {error} Start without --resume.") from None
    guard.kept(
        f"the time was over before the figures were written; the policy is in {path}: go on with --resume."
    )
    return found._replace(outcome="stopped") if shown.late else found


def _ended(name: str, found: Training) -> str:
    """A sentence on the end of a training."""
    words = {
        "finished": "the training has ended",
        "stopped": "the time limit ended the training; --resume goes on",
        "interrupted": "the training is interrupted; --resume goes on",
        "not finite": "the cost or its gradient is not finite, and the policy before is kept; lower policy.rate",
    }[found.outcome]
    return f"{name}: {words}, after {counted(len(found.losses), 'update')}."


def _mean(costs: np.ndarray) -> float | None:
    return float(np.mean(costs)) if costs.size else None
