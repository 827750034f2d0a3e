"""The results of closed loops in the form in which they are written to summary.json and to the report."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jaxhamel._words import counted
from jaxhamel.cli._closed_loop._consistency import Consistency
from jaxhamel.cli._closed_loop._loop_measured import HeldCoordinates, LoopMeasures
from jaxhamel.cli._commands._training import PLAN, TrainedPolicy
from jaxhamel.cli._results._folder import TRAINING
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.control import LoopGrowth
from jaxhamel.ensemble._study._statistics import probability
from jaxhamel.viz import (
    Chart,
    consistency_figure,
    cost_figure,
    held_coordinates_figure,
    held_errors_figure,
    held_paths_figure,
    histograms_figure,
    landing_figure,
)
from jaxhamel.viz._motion._charts_of import symbol, with_unit
from jaxhamel.viz._motion._scene_of import Companion

PATHS_SHOWN = 200  # number of robots whose paths are drawn
UNSTABLE = 10.0  # a loop counts as unstable if small deviations grow by this factor until the end of the plan
AVERAGED = 25  # number of updates over which the learning curve is averaged, since their costs contain noise
DRAWN = 400  # approximate number of points of each path that is drawn


class ClosedLoop(NamedTuple):
    """Many robots with feedback (`closed`), and the same robots under the plan's control alone (`open_loop`).

    - `tolerance`: a robot has followed the plan if its tracking error is at most this, in `unit`.
    - `size`: the extent of the path; for a task without a path, the size of the plan in exponential coordinates; in `unit`.
    - `unit`, `unit_of_commands`: units, several with ", " between them; empty if the system's class does not give them.
    - `shown`: the motion of the robot of median error.
    - `path`: the path of the task or of the planned motion, `(K, d)`, or None; `labels`: the names of its axes.
    - `coordinates`: the coordinates of all robots over time, for a task without a path, else None.
    - `growth`: the growth of small deviations from the plan, under the regulator; `prompt`: without its delay, None if
      it has none.
    - `policy`: the trained policy of `closed`, or None; `regulated`: the same robots under its regulator alone.
    - `estimated`: the consistency of the estimator of `closed`, None without one.
    """

    closed: LoopMeasures
    open_loop: LoopMeasures
    tolerance: float
    size: float
    unit: str
    unit_of_commands: str
    shown: Companion
    path: np.ndarray | None
    labels: tuple[str, str]
    coordinates: HeldCoordinates | None
    growth: LoopGrowth
    prompt: LoopGrowth | None = None
    policy: TrainedPolicy | None = None
    regulated: LoopMeasures | None = None
    estimated: Consistency | None = None


def summary_of(found: ClosedLoop, seed: int) -> dict[str, Any]:
    """The entry `closed_loop` of summary.json: results of the robots with feedback, and of the same robots in open loop."""
    return {
        **_loop_numbers(found.closed, found.tolerance),
        "tolerance": found.tolerance,
        "size": found.size,
        "unit": found.unit,
        "unit_of_commands": found.unit_of_commands,
        "growth": float(found.growth.growth[-1]),
        "largest_multiplier": float(np.max(found.growth.multipliers)),
        "seed": seed,
        "open_loop": _loop_numbers(found.open_loop, found.tolerance),
        **(
            {"regulator": _loop_numbers(found.regulated, found.tolerance)}
            if found.regulated is not None
            else {}
        ),
        **({} if found.estimated is None else {"estimator": found.estimated.numbers}),
    }


def unstable(found: LoopGrowth, prompt: LoopGrowth | None = None) -> str:
    """A sentence on the instability if small deviations grow by `UNSTABLE` or more along the plan; else an empty text.

    `prompt`: the growth without the delay, which shows whether the delay is the reason.
    """
    growth, worst = float(found.growth[-1]), int(np.argmax(found.multipliers))
    if growth < UNSTABLE:
        return ""
    return (
        f"the loop is unstable: by the end of the plan small deviations grow {growth:.2g} times (linearised); largest "
        f"multiplier of a period {found.multipliers[worst]:.4g}, at t = {found.ts[worst]:.3g} s. {_advice(prompt)}"
    )


def _advice(prompt: LoopGrowth | None) -> str:
    """A sentence on what to change; `prompt`: the growth without the delay, None if there is no delay."""
    weights = "change the weights; larger `feedback.control_weights` make the gains smaller."
    if prompt is None:
        return f"Shorten `feedback.period`, or {weights}"
    growth = float(prompt.growth[-1])
    if growth < UNSTABLE:
        return (
            f"Without the delay they grow {growth:.2g} times: set `feedback.predict = true`, shorten `feedback.delay`, or "
            f"{weights}"
        )
    return f"Without the delay they grow {growth:.2g} times, too: shorten `feedback.period`, or {weights}"


def _loop_numbers(motions: LoopMeasures, tolerance: float) -> dict[str, Any]:
    followed, rms = motions.followed(tolerance), motions.rms
    whole = np.isfinite(rms)  # motions that did not break down
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
    """Adds the results of the robots in closed loop to the outcome of the search."""
    numbers, policy = summary_of(found, seed), found.policy
    outcome = replace(
        outcome,
        tiles=(*tiles_of(numbers), *outcome.tiles),
        lead=outcome.lead + lead_of(numbers) + _of_estimator(found),
        top={**outcome.top, "closed_loop": numbers},
    )
    return outcome if policy is None else with_policy(outcome, policy)


def with_policy(outcome: Outcome, policy: TrainedPolicy) -> Outcome:
    """Adds the numbers and the files of a training to the outcome of the search."""
    return replace(
        outcome,
        files=(*outcome.files, TRAINING, PLAN),
        top={**outcome.top, "policy": dict(policy.summary)},
    )


def interrupted(outcome: Outcome, policy: TrainedPolicy) -> Outcome:
    """The outcome of a command whose training was ended by Ctrl-C."""
    words = f"interrupted after {counted(policy.summary['updates'], 'update')} of the policy; go on with --resume"
    return replace(with_policy(outcome, policy), status="interrupted", message=words)


def curve_of(policy: TrainedPolicy) -> Chart:
    """The learning curve of a policy."""
    figure = cost_figure(
        policy.costs,
        title="The policy's cost before every update",
        ylabel="cost, relative to the regulator's",
        averaged=AVERAGED,
    )
    figure.axes[0].set_xlabel("update")
    return Chart("policy", figure, "The cost of the policy before every update of its training")


def tiles_of(numbers: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The headline numbers of the closed loops as (value, meaning), for the report."""
    share, rms = numbers["failed_share"], numbers["tracking_rms"]
    between = f"{100 * (1 - share['high']):.3g} to {100 * (1 - share['low']):.3g} %"
    return (
        (f"{100 * numbers['completed']:.3g} %", f"of the robots follow the plan ({between})"),
        (_distance(rms, numbers), f"tracking error of a robot, median{_share(numbers)}"),
    )


def _distance(x: float, numbers: Mapping[str, Any]) -> str:
    """A tracking error: in mm, or relative to the size of the plan where its coordinates have several units."""
    return f"{1e3 * x:.3g} mm" if numbers["unit"] == "m" else f"{100 * x / numbers['size']:.2g} %"


def _share(numbers: Mapping[str, Any]) -> str:
    return "" if numbers["unit"] == "m" else " of the plan's size"


def lead_of(numbers: Mapping[str, Any]) -> str:
    """The sentence about the closed loops under the heading of the report."""
    without, rms = numbers["open_loop"], _distance(numbers["tracking_rms_95"], numbers)
    robots = counted(numbers["trajectories"], "robot")
    return (
        f" With feedback {100 * numbers['completed']:.3g} % of {robots} follow it, 95 % of them within {rms}"
        f"{_share(numbers)} (RMS); without, {100 * without['completed']:.3g} %. One robot in closed loop is drawn in "
        "outline."
    )


def _of_estimator(found: ClosedLoop) -> str:
    """The sentence about the estimator under the heading of the report."""
    return "" if found.estimated is None else f" {found.estimated.words}".replace("`", "")


def charts_of(found: ClosedLoop) -> list[Chart]:
    """Charts of the robots' paths, coordinates and errors over time, and histograms of their errors and forces."""
    closed, loose = found.closed, found.open_loop
    title = "Distance from the plan" if found.coordinates else "Distance from the reference path"
    errors = held_errors_figure(closed.ts, closed.error, loose.error, title=title, unit=found.unit)
    return [
        *_ground_charts(found),
        *_coordinate_charts(found),
        Chart("closed-loop-errors", errors, "Tracking errors with and without feedback over time"),
        *_estimator_charts(found),
        *_histograms(closed, found.unit, found.unit_of_commands),
        *([] if found.policy is None else [curve_of(found.policy)]),
    ]


def _estimator_charts(found: ClosedLoop) -> Iterator[Chart]:
    """A chart of the normalised squared errors of the estimates over time."""
    if found.estimated is not None:
        ts, mean, band, robots = found.estimated
        figure = consistency_figure(
            ts, mean, band, f"Errors of the estimates, mean over {robots} robots"
        )
        words = "Normalised squared errors of the estimates over time"
        yield Chart("closed-loop-estimates", figure, words)


def _coordinate_charts(found: ClosedLoop) -> Iterator[Chart]:
    """A chart of the coordinates of all robots over time, for a task without a path."""
    if found.coordinates is not None and found.coordinates.names:
        names, units, closed, loose, plan = found.coordinates
        labels = [with_unit(symbol(x), unit) for x, unit in zip(names, units, strict=True)]
        figure = held_coordinates_figure(found.closed.ts, closed, loose, plan, labels)
        words = "Coordinates of the robots with and without feedback over time"
        yield Chart("closed-loop-coordinates", figure, words)


def _ground_charts(found: ClosedLoop) -> Iterator[Chart]:
    """Charts of the paths in the plane and of their end points."""
    closed, loose, path = found.closed.position, found.open_loop.position, found.path
    if closed is None or loose is None or path is None or path.shape[1] != 2:
        return
    some = slice(None, None, max(1, closed.shape[1] // DRAWN))
    shown = closed[:PATHS_SHOWN, some], loose[:PATHS_SHOWN, some], path
    figure = held_paths_figure(*shown, labels=found.labels)
    yield Chart("closed-loop-paths", figure, "Paths of robots with and without feedback")
    ends = closed[found.closed.followed(found.tolerance), -1]
    title = "Where the robots that follow end"
    figure = landing_figure(ends, path[-1], title=title, labels=found.labels)
    yield Chart("closed-loop-ends", figure, "Where the robots end")


def _histograms(closed: LoopMeasures, unit: str, of_commands: str) -> Iterator[Chart]:
    quantities = {
        with_unit("tracking error, RMS", unit): closed.rms,
        "smallest normal force / N": closed.normal,
        "friction coefficient needed": closed.friction,
        with_unit("largest command", of_commands): closed.command,
    }
    finite = {k: x[np.isfinite(x)] for k, x in quantities.items() if x is not None}
    shown = {k: x for k, x in finite.items() if len(x)}
    if shown:
        figure = histograms_figure(shown, title="The robots in closed loop")
        yield Chart("closed-loop-robots", figure, "Histograms over the robots in closed loop")
