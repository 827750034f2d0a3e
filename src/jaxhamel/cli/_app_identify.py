"""The commands `identify` and `predict`, which start from measurements."""

from pathlib import Path

import typer

from jaxhamel.cli._commands._early import (
    check_of_identify,
    check_of_predict,
    limit_search,
    seconds_of,
)
from jaxhamel.cli._exit_status import finish, started_at
from jaxhamel.cli._options import (
    DataOption,
    FirstSecondsOption,
    FitSecondsOption,
    FittedArgument,
    OutOption,
    QuietOption,
    RunArgument,
    ScenarioArgument,
    SeedOption,
    SetOption,
    SystemOption,
)
from jaxhamel.cli._results._folder import FITTED
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._scenario._given_class import given_class
from jaxhamel.cli._scenario._scenario import fitted_file, load_identification
from jaxhamel.cli._start import start_jax
from jaxhamel.cli._terminal import Terminal


def identify(
    context: typer.Context,
    scenario: ScenarioArgument,
    data: DataOption = None,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    system: SystemOption = None,
    seed: SeedOption = 0,
    max_seconds: FitSecondsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Estimate parameters of a system, with uncertainties, from measured runs.

    The scenario lists the measurements and the unknown parameters; the runs
    are CSV files. The report describes the parameters, and combinations of
    parameters, that the data do not determine.

    Writes into DIR:

      parameters.csv   estimate, standard error, unit, frozen or not
      fitted.toml      the estimated parameters, for jaxhamel predict
      summary.json     scenario, results, versions, run time
      *.png            measured and fitted, errors, correlations
      report.html      one self-contained page

    Examples:

      jaxhamel identify ball-inertia --out out
      jaxhamel identify mine.toml --data runs --out out
      jaxhamel identify roboball --data runs --out out

    The keys of a scenario are described in docs/identification.md.
    """
    terminal = Terminal(quiet)
    started = started_at(context)

    def job() -> Outcome:
        check = check_of_identify(out, data, max_seconds)
        limit_search(scenario, max_seconds, started)
        asked = load_identification(scenario, changes or (), given_class(system), check)
        limit_search(asked.name, seconds_of(asked, max_seconds), started)
        start_jax()
        from jaxhamel.cli._commands._identify import run_identify

        return run_identify(asked, out, terminal, started, data, seed, max_seconds)

    finish(scenario, terminal, out, job, system, FITTED)


def predict(
    context: typer.Context,
    fitted: FittedArgument,
    run: RunArgument,
    out: OutOption = Path("out"),
    seconds: FirstSecondsOption = 0.5,
    changes: SetOption = None,
    system: SystemOption = None,
    quiet: QuietOption = False,
) -> None:
    """Predict a run that was not used in the fit, from its first seconds.

    The initial state is estimated from the first seconds of the run, with
    the parameters that jaxhamel identify wrote to FITTED. The rest of the run
    is simulated and compared with the measurements.

    Writes into DIR:

      summary.json     rms: one number for each measured column
      *.png            measured and predicted, errors
      report.html      one self-contained page

    Example:

      jaxhamel predict out other-run.csv --out prediction
    """
    terminal = Terminal(quiet)
    started = started_at(context)

    def job() -> Outcome:
        check = check_of_predict(out, run)
        asked = load_identification(fitted_file(fitted), changes or (), given_class(system), check)
        start_jax()
        from jaxhamel.cli._commands._predict import run_predict

        return run_predict(asked, run, out, terminal, started, seconds)

    finish(fitted, terminal, out, job, system)
