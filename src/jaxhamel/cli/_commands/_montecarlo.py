"""The command `montecarlo`: simulates a scenario with random parameters and writes statistics, figures and the report."""

import hashlib
import inspect
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxhamel._words import counted
from jaxhamel.cli._commands._montecarlo_report import charts, tiles
from jaxhamel.cli._commands._simulate import instability_of, progress_of, simulated, status
from jaxhamel.cli._objects._ensemble_model import EnsembleModel
from jaxhamel.cli._objects._prepared import PreparedRun
from jaxhamel.cli._objects._spread import check_sample, distributions, member, nominal_of
from jaxhamel.cli._results._folder import ENSEMBLE, folder, remove_summary
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._results._outputs import write_all
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal
from jaxhamel.ensemble import Samples, Study
from jaxhamel.ensemble._checks._quantities import check_accuracy
from jaxhamel.ensemble._study._monte_carlo import asked_of
from jaxhamel.ensemble._study._progress import Progress
from jaxhamel.ensemble._study._run import EnsembleRun
from jaxhamel.ensemble._study._statistics import probability
from jaxhamel.mechanics import Feedback
from jaxhamel.viz._motion._run import ShownMotion

BETWEEN_LINES = 0.5  # least time between two progress lines [s]


def run_montecarlo(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    trajectories: int | None = None,
    seed: int = 0,
    resume: bool = False,
    accuracy: Mapping[str, float] | None = None,
) -> Outcome:
    """Runs the scenario's ensemble and writes the files of the command; all computed trajectories stay in `values.zarr`.

    **Raises:** `ScenarioError` before anything is written, also if the folder has another run.
    """
    table, prepared, spread = _ensemble(scenario)
    size = table["trajectories"] if trajectories is None else trajectories
    model = EnsembleModel(scenario, nominal_of(prepared))
    with _as_one_line():
        samples = Samples(spread, size, seed, table["sampler"])
        samples.check(lambda x: check_sample(x, model.nominal))
        if accuracy:
            check_accuracy(accuracy, list(jax.eval_shape(model, samples[:1])[0]))
    folder(out, of_ensemble=True)
    terminal.say(
        f"{scenario.name}: {counted(size, 'trajectory')} of {model.ts[-1]:g} s; compiling …"
    )
    with _as_one_line():
        asked = asked_of(samples, _about(scenario))
        run = EnsembleRun(model, samples, asked, None, out, resume, accuracy, has_aux=True)
    remove_summary(out)
    instability_of(prepared, terminal)
    nominal_run = _in_a_thread(lambda: prepared.shown(simulated(prepared)))
    with terminal.updating(), _as_one_line():
        study = Study.of(run.values(_progress_shown_on(terminal)), samples, run.first(), run.events)
    terminal.say(str(study))
    return _write_results(out, scenario, study, model, nominal_run.result(), started)


def run_one(
    scenario: Scenario,
    out: Path,
    terminal: Terminal,
    started: float,
    index: int,
    trajectories: int | None = None,
    seed: int = 0,
) -> Outcome:
    """Simulates one trajectory of an ensemble alone, with the scenario's own solver.

    **Raises:** `ScenarioError` before anything is written, also for an index outside the ensemble.
    """
    table, prepared, spread = _ensemble(scenario)
    size = table["trajectories"] if trajectories is None else trajectories
    with _as_one_line():
        sample = Samples(spread, size, seed, table["sampler"])[index]
    one = prepared.but(*member(sample, nominal_of(prepared)))
    folder(out)
    terminal.say(f"{scenario.name}: trajectory {index} of {size}, seed {seed}")
    trajectory = simulated(one)
    drawn = {name: x.tolist() for name, x in sample.items()}
    outcome = Outcome(
        "montecarlo",
        scenario,
        *status(trajectory),
        started,
        reached=progress_of(trajectory),
        lead=f"Trajectory {index} of {size}, drawn with seed {seed}.",
        top={"index": index, "trajectories": size, "seed": seed, "sample": drawn},
    )
    return write_all(out, outcome, one.shown(trajectory))


def _ensemble(scenario: Scenario):
    """The table `[montecarlo]`, the nominal run, and the distribution of each parameter that is spread."""
    table = scenario["montecarlo"]
    prepared = PreparedRun.of(scenario)
    return table, prepared, distributions(table["spread"], nominal_of(prepared))


def _about(scenario: Scenario) -> dict[str, Any]:
    """All settings of the scenario that determine the numbers of the ensemble."""
    words = ("title", "description")
    found = {key: table for key, table in scenario.tables.items() if key not in words}
    if scenario.given is None:
        return found
    source = Path(inspect.getfile(scenario.given)).read_bytes()
    return {**found, "system_file": hashlib.sha256(source).hexdigest()}


@contextmanager
def _as_one_line() -> Iterator[None]:
    """A context that turns a `ValueError` of the library into a `ScenarioError` of one line."""
    try:
        yield
    except ValueError as error:
        line = " ".join(str(error).split())
        hint = " On the command line: --resume, --out." if "the folder" in line else ""
        raise ScenarioError(line + hint) from None


def _progress_shown_on(terminal: Terminal) -> Callable[[Progress], None]:
    last = -BETWEEN_LINES

    def show(progress: Progress) -> None:
        nonlocal last
        if progress.done == progress.size or time.monotonic() - last >= BETWEEN_LINES:
            last = time.monotonic()
            terminal.update(_progress_line(progress))

    return show


def _progress_line(at: Progress) -> str:
    """The progress line: trajectories done, rate, and the statistics so far."""
    names = list(at.means)
    return at.line("tracking_rms" if "tracking_rms" in names else names[0])


def _write_results(
    out: Path,
    scenario: Scenario,
    study: Study,
    model: EnsembleModel,
    run: ShownMotion,
    started: float,
) -> Outcome:
    statistics = _statistics(study, scenario["montecarlo"]["friction_limit"])
    n, failed = study.trajectories, len(study.failed)
    message = f"{counted(n, 'trajectory')}, {failed} failed"
    numbers = ((f"{n}", "trajectory" if n == 1 else "trajectories"), (f"{failed}", "failed"))
    outcome = Outcome(
        "montecarlo",
        scenario,
        "failed" if failed == n else "success",
        message,
        started,
        reached={"trajectories": n, "failed": failed},
        tiles=(*numbers, *tiles(statistics)),
        lead=f"{message}; the motion shown and its numbers are the nominal ones.{_open_loop(model)}",
        files=(ENSEMBLE,),
        top=_summary(study, statistics),
    )
    return write_all(out, outcome, run, charts=charts(study, model, run))


def _statistics(study: Study, limit: float | None) -> dict[str, Any]:
    """The study's statistics; for a ball also the probabilities that it leaves the ground or exceeds the friction limit."""
    values = {name: x[np.isfinite(x)] for name, x in study.values.items()}
    if "max_friction" not in values:
        return study.statistics
    leaves = values["min_normal_force"] <= 0
    found = {**study.statistics, "lift_off": probability(leaves)}
    if limit:
        found["slip"] = probability(leaves | (values["max_friction"] > limit))
    return found


def _summary(study: Study, statistics: dict[str, Any]) -> dict[str, Any]:
    return {
        "trajectories": study.trajectories,
        "failed": len(study.failed),
        "seed": study.samples.seed,
        "failed_indices": study.failed.tolist(),
        "statistics": statistics,
    }


def _open_loop(model: EnsembleModel) -> str:
    if model.nominal.control is None or isinstance(model.nominal.control, Feedback):
        return ""
    if not model.nominal.system.prescribed_motion:
        return " The control is a function of time alone: nothing is corrected."
    return (
        " The control depends on time alone: nothing is corrected, and a small error grows where the motion "
        "is unstable."
    )


def _in_a_thread(job: Callable[[], Any]) -> Future:
    """Runs `job` in a thread while the ensemble starts; both mostly wait for XLA's compiler."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(job)
    finally:
        pool.shutdown(wait=False)
