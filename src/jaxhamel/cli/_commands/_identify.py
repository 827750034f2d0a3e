"""The command `identify`: estimates parameters and their uncertainty from measured runs."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import identify
from jaxhamel._files import made
from jaxhamel._words import counted
from jaxhamel.cli._commands._early import seconds_of
from jaxhamel.cli._commands._identify_report import fits_of, status, write_identification
from jaxhamel.cli._interrupt import search_seconds
from jaxhamel.cli._objects._build import build_control
from jaxhamel.cli._objects._identification import (
    build_identified_system,
    build_measurements,
    build_problem,
    make_runs,
    on_clock,
    read_run,
    runs_in,
)
from jaxhamel.cli._objects._priors import own_quantities
from jaxhamel.cli._objects._recorded_control import check_not_of_runs
from jaxhamel.cli._objects._stages import build_stages
from jaxhamel.cli._objects._truth import given_truth
from jaxhamel.cli._results._folder import folder
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._solution import SoFar, write_tables
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._sizes import check_fit_step
from jaxhamel.cli._terminal import Terminal
from jaxhamel.identify import Problem
from jaxhamel.identify._fit_stages import leaves_of
from jaxhamel.identify._parameters._paths import leaf_of
from jaxhamel.mechanics import System


def run_identify(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    data: Path | None = None,
    seed: int = 0,
    max_seconds: float | None = None,
) -> Outcome:
    """Fits the scenario's parameters to the runs in `data`, or to synthetic runs, and writes the files of the command.

    **Raises:** `ScenarioError` before anything but synthetic data is written.
    """
    budget = seconds_of(scenario, max_seconds)
    system = build_identified_system(scenario)
    control, measurements = build_control(scenario, system), build_measurements(scenario, system)
    if data is None:
        check_not_of_runs(control)
        data, paths = _synthetic_runs(scenario, out, measurements, control, seed)
    else:
        paths = runs_in(scenario, data)
    runs = {
        path: on_clock(scenario, read_run(scenario, path, measurements, control)) for path in paths
    }
    check_fit_step(scenario["fit"]["dt"], sum(_duration(run) for run in runs.values()), budget)
    problems = _problems(scenario, system, measurements, runs, data)
    folder(out)
    source = f"{counted(len(runs), 'run')} from {data}"
    terminal.say(f"{scenario.name}: {_size_in_words(problems, system)}, {source}; compiling …")
    fitted = FittedSoFar(scenario, problems)
    so_far = SoFar(
        lambda z: write_tables(out / "fitted.toml", fitted.at(z)), _not_ended(scenario, out, budget)
    )

    def shown(state: Any) -> None:
        so_far.reached(state.z)
        terminal.update(str(state))

    with terminal.updating():
        left = search_seconds(budget, started)
        estimate = _fit(scenario, system, fitted.problems, shown, seed, left)
    ended = status(estimate, stopped=max_seconds is not None)
    outcome = Outcome(
        "identify", scenario, *ended, started, reached=_results_by_stage(scenario, estimate)
    )
    outcome = write_identification(out, outcome, estimate, measurements)
    terminal.say(str(estimate))
    return outcome


def _problems(scenario, system, measurements, runs, data) -> Any:
    """The identification problem of the scenario or, with `[[stages]]`, a dictionary of stages.

    For each stage it has a function from the system to the stage's problem, by the stage's name.
    """
    if scenario["stages"]:
        return build_stages(scenario, system, measurements, runs, data)
    return build_problem(scenario, system, measurements, list(runs.values()))


def _size_in_words(problems: Any, system: Any) -> str:
    """The size of the problem, or the names of the stages, in words."""
    if isinstance(problems, identify.Problem):
        return f"{problems.model.coordinates().shape[0]} coordinates"
    return f"stages {', then '.join(problems)}"


def _results_by_stage(scenario: Scenario, estimate: Any) -> dict[str, Any]:
    """The results for summary.json. The status of a stage that was skipped is None."""
    reached = estimate.to_dict()
    if scenario["stages"]:
        left_out = {table["name"]: None for table in scenario["stages"]}
        reached["fit"] = left_out | reached["fit"]
    if scenario["priors"]:
        reached["own_quantities"] = own_quantities(scenario, fits_of(estimate)[-1])
    return reached


def _duration(run: Any) -> float:
    return float(run.ts[-1] - run.ts[0])


def _synthetic_runs(scenario, out, measurements, control, seed) -> tuple[Path, list[Path]]:
    """Writes the synthetic runs; returns their folder and the files of the runs (the folder may have other files)."""
    folder_of_runs = made(folder(out) / "data")
    return folder_of_runs, make_runs(scenario, folder_of_runs, measurements, control, seed)


def _fit(scenario, system, problems, shown, seed, seconds) -> Any:
    table = scenario["fit"]
    options = {
        "max_iterations": table["max_iterations"],
        "max_seconds": seconds,
        "progress": shown,
        "correlated": table["correlated"],
    }
    if not isinstance(problems, identify.Problem):
        return identify.fit_stages(system, problems, **options)
    if table["starts"] == 1:
        return identify.fit(problems, **options)
    key = jax.random.key(seed)
    starts = identify.perturbed_starts(problems, key, table["starts"], table["spread"])
    return identify.fit_many(problems, starts, **options)


def _not_ended(scenario: Scenario, out: Path, seconds: float) -> str:
    """The message if the time limit ends the command during the fit."""
    path = out / "fitted.toml"
    return (
        f"{scenario.name}: the {seconds:g} s were over before the fit had ended; its values so far are in {path}, from "
        f"which jaxhamel identify {path} continues. Give it more time, --max-seconds or fit.max_seconds."
    )


class FittedSoFar:
    """Collects the latest parameter values of an unfinished fit, over all its stages.

    **Arguments:** `problems`: the problem, or for each stage the function from the system to its problem. The attribute of
    the same name must be fitted in its place, because it notes which problem is being fitted.
    """

    def __init__(
        self, scenario: Scenario, problems: Problem | Mapping[str, Callable[[System], Problem]]
    ):
        self.scenario, self.problem = scenario, None
        self.values: dict[str, Any] = {}
        if isinstance(problems, Problem):
            self.problem, self.problems = problems, problems
        else:
            self.problems = {name: self._noted(make) for name, make in problems.items()}

    def _noted(self, make: Callable[[System], Problem]) -> Callable[[System], Problem]:
        """The function `make` of a stage, which also notes its problem as the one that is being fitted."""

        def noted(system: System) -> Problem:
            self.problem = make(system)
            return self.problem

        return noted

    def at(self, z: np.ndarray) -> dict[str, Any]:
        """The tables of the scenario with the parameter values at the coordinates z of the problem that is being fitted."""
        assert self.problem is not None  # no progress is reported before a problem is made
        system = self.problem.model.system_at(jnp.asarray(z))
        for path in leaves_of(self.problem.parameters):
            self.values[path] = np.asarray(leaf_of(system, path), float).tolist()
        fitted = [{"path": path, "value": value} for path, value in self.values.items()]
        return {**self.scenario.tables, "fitted": fitted, "truth": given_truth(self.scenario)}
