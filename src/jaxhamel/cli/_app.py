"""Commands and options, and what their exit status means."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from ._outputs import Outcome
from ._scenario import WITHOUT_FILE, built_in, load, load_identification
from ._terminal import Terminal
from ._validate import ScenarioError

SUCCESS, FAILURE, BAD_SCENARIO = 0, 1, 2
EXIT_STATUS = """
[bold]Exit status[/bold]: 0 success; 1 the numbers failed (the message says what,
at what time and what to try; what was reached is written); 2 bad scenario
or option (the message names the key).
"""

app = typer.Typer(
    name="jaxhamel",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_STATUS,
)

ScenarioArgument = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help="A built-in name (see [bold]jaxhamel scenarios[/bold]) or a TOML file.",
        show_default=False,
    ),
]
OutOption = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Folder to write to. Files of the same names are overwritten, others are left alone.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change a key of the scenario, e.g. [bold]--set time.end=5[/bold] or "
        "[bold]--set system.rails.0.radius=0.06[/bold]. May be repeated.",
        show_default=False,
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but errors.")]
SeedOption = Annotated[
    int, typer.Option("--seed", metavar="N", min=0, help="Seed of the random starts.")
]
TrajectoriesOption = Annotated[
    int | None,
    typer.Option(
        "--trajectories",
        "-n",
        metavar="N",
        min=1,
        help="How many.",
        show_default="the scenario's montecarlo.trajectories",
    ),
]
ResumeOption = Annotated[
    bool, typer.Option("--resume", help="Go on with the run that DIR holds.", show_default=False)
]
AccuracyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accuracy",
        metavar="QUANTITY=ERROR",
        help="Stop when the mean of a quantity has this standard error ([bold]failed[/bold]: the share that "
        "fails), e.g. [bold]--accuracy tracking_rms=1e-4[/bold]. May be repeated.",
        show_default=False,
    ),
]
IndexOption = Annotated[
    int | None,
    typer.Option(
        "--index",
        metavar="I",
        min=0,
        help="Run only trajectory I of that ensemble again, with the scenario's solver, and show it.",
        show_default=False,
    ),
]
SecondsOption = Annotated[
    float | None,
    typer.Option(
        "--max-seconds",
        metavar="S",
        min=0.0,
        help="Stop after this time and write the best found so far.",
        show_default="the scenario's task.max_seconds",
    ),
]


DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with the measured runs, CSV files. A scenario with [bold]\\[truth][/bold] makes its own.",
        show_default=False,
    ),
]
FittedArgument = Annotated[
    str,
    typer.Argument(
        metavar="FITTED",
        help="The folder that [bold]jaxhamel identify[/bold] wrote to, or its fitted.toml.",
        show_default=False,
    ),
]
RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN.csv", help="The run to predict.", show_default=False)
]
FirstSecondsOption = Annotated[
    float,
    typer.Option("--seconds", metavar="S", min=0.0, help="From which the initial state is found."),
]


@app.callback()
def jaxhamel() -> None:
    """Mechanical systems with constraints: simulate them, and find controls for them.

    A [bold]scenario[/bold] says what: a system with its parameters, an
    initial state, how its masses move, a time span, and for
    [bold]control[/bold] a task. Start with a built-in one and change it:

      jaxhamel scenarios
      jaxhamel simulate reference-ball --out out
      jaxhamel control figure-eight --out out
      jaxhamel simulate heavy-top --set time.end=1 --set system.mass=12 --out out

    Then open [bold]out/report.html[/bold] in a browser: the motion in 3-D,
    its plots, its numbers.
    """
    import jax

    # Here, in the command's own process, and never when the package is imported.
    jax.config.update("jax_enable_x64", True)


@app.command(epilog=EXIT_STATUS)
def simulate(
    context: typer.Context,
    scenario: ScenarioArgument,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate a scenario and show the motion.

    Writes into DIR:

      summary.json     what was asked, what was reached, versions, seconds
      trajectory.csv   one row for each time, with a header; SI units
      *.png            path, positions of the masses, contact force, …
      report.html      one self-contained page with the motion in 3-D

    Examples:

      jaxhamel simulate figure-eight --out out
      jaxhamel simulate mine.toml --set solver.rtol=1e-10 --out out

    The keys of a scenario are described in docs/scenarios.md.
    """
    from ._simulate import run_simulate

    terminal = Terminal(quiet)
    started = _started(context)
    _finish(
        scenario,
        terminal,
        out,
        lambda: run_simulate(load(scenario, changes or ()), out, terminal, started),
    )


@app.command(epilog=EXIT_STATUS)
def control(
    context: typer.Context,
    scenario: ScenarioArgument,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    seed: SeedOption = 0,
    max_seconds: SecondsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find motions of the internal masses that make the body do its task.

    The scenario's \\[task] says what: a path to roll along, in what time,
    how it is weighed against effort, and by which method it is solved.
    Derivatives go through the simulation itself.

    Writes into DIR:

      solution.toml    the solution, a scenario for jaxhamel simulate
      summary.json     what was asked, what was reached, versions, seconds
      trajectory.csv   one row for each time, with a header; SI units
      *.png            path, error, masses, contact force, cost
      report.html      one self-contained page with the motion in 3-D

    Examples:

      jaxhamel control figure-eight --out out
      jaxhamel control figure-eight --set task.size=\\[1.5,0.75] --max-seconds 60 --out out

    The keys of a scenario are described in docs/scenarios.md.
    """
    from ._control import run_control

    terminal = Terminal(quiet)
    started = _started(context)

    def job() -> Outcome:
        return run_control(load(scenario, changes or ()), out, terminal, started, seed, max_seconds)

    _finish(scenario, terminal, out, job)


@app.command(epilog=EXIT_STATUS)
def montecarlo(
    context: typer.Context,
    scenario: ScenarioArgument,
    trajectories: TrajectoriesOption = None,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    seed: SeedOption = 0,
    resume: ResumeOption = False,
    accuracy: AccuracyOption = None,
    index: IndexOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate a scenario many times with spread parameters.

    The scenario's \\[\\[montecarlo.spread]] tables say what differs from
    trajectory to trajectory. What is computed is on disk after each block of
    trajectories: a run that was interrupted, however hard, goes on with
    --resume, and ends with the same bytes.

    Writes into DIR:

      summary.json     trajectories, failed, statistics with standard errors
      values.zarr      what each trajectory did, one row for each
      trajectory.csv   the nominal motion
      *.png            paths, where they end, histograms, the nominal motion
      report.html      one self-contained page with the motion in 3-D

    Examples:

      jaxhamel montecarlo figure-eight --trajectories 2000 --seed 1 --out out
      jaxhamel montecarlo figure-eight --trajectories 2000 --seed 1 --out out --resume
      jaxhamel montecarlo figure-eight --trajectories 2000 --seed 1 --index 17 --out one

    The keys of a scenario are described in docs/scenarios.md.
    """
    from ._montecarlo import accuracies, run_montecarlo, run_one

    terminal = Terminal(quiet)
    started = _started(context)

    def job() -> Outcome:
        loaded, wanted = load(scenario, changes or ()), accuracies(accuracy or ())
        if index is not None:
            return run_one(loaded, out, terminal, started, index, trajectories, seed)
        return run_montecarlo(loaded, out, terminal, started, trajectories, seed, resume, wanted)

    _finish(scenario, terminal, out, job)


@app.command(epilog=EXIT_STATUS)
def identify(
    context: typer.Context,
    scenario: ScenarioArgument,
    data: DataOption = None,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    seed: SeedOption = 0,
    max_seconds: SecondsOption = None,
    quiet: QuietOption = False,
) -> None:
    """Find parameters of a system from measured runs, and how sure they are.

    The scenario says what is measured and what is sought; the runs are CSV
    files. What the data cannot determine is said in words.

    Writes into DIR:

      parameters.csv   estimate, standard error, unit, frozen or not
      fitted.toml      the parameters found, for jaxhamel predict
      summary.json     what was asked, what was reached, versions, seconds
      *.png            measured and fitted, errors, correlations
      report.html      one self-contained page

    Examples:

      jaxhamel identify ball-inertia --out out
      jaxhamel identify mine.toml --data runs --out out
      jaxhamel identify roboball --data runs --out out

    The keys of a scenario are described in docs/identification.md.
    """
    from ._identify import run_identify
    from ._roboball import NAME, run_identify_roboball

    terminal = Terminal(quiet)
    started = _started(context)

    def job() -> Outcome:
        if scenario == NAME:
            return run_identify_roboball(out, terminal, started, data, max_seconds, changes or ())
        asked = load_identification(scenario, changes or ())
        return run_identify(asked, out, terminal, started, data, seed, max_seconds)

    _finish(scenario, terminal, out, job)


@app.command(epilog=EXIT_STATUS)
def predict(
    context: typer.Context,
    fitted: FittedArgument,
    run: RunArgument,
    out: OutOption = Path("out"),
    seconds: FirstSecondsOption = 0.5,
    changes: SetOption = None,
    quiet: QuietOption = False,
) -> None:
    """Predict a run that was not fitted, from its first moments on.

    The state at the start is found from the first seconds of the run, with
    the parameters that jaxhamel identify left in FITTED; the rest is
    simulated and compared.

    Writes into DIR:

      summary.json     rms: one number for each measured column
      *.png            measured and predicted, errors
      report.html      one self-contained page

    Example:

      jaxhamel predict out other-run.csv --out prediction
    """
    from ._predict import fitted_file, run_predict
    from ._roboball import fitted_roboball, run_predict_roboball

    terminal = Terminal(quiet)
    started = _started(context)

    def job() -> Outcome:
        if robot := fitted_roboball(fitted):
            return run_predict_roboball(robot, run, out, terminal, started, seconds)
        asked = load_identification(fitted_file(fitted), changes or ())
        return run_predict(asked, run, out, terminal, started, seconds)

    _finish(fitted, terminal, out, job)


@app.command()
def bench(
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object instead of a table.", show_default=False)
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Measure this machine: a table to paste, of the ball with three masses.

    What autodiff costs against the closed form, steps of an ensemble in
    double and single precision, its reverse-mode gradient, and how long a
    fresh process takes to its first trajectory. About half a minute; let the
    machine do nothing else.

    Examples:

      jaxhamel bench
      jaxhamel bench --json --quiet
    """
    from . import _bench

    found = _bench.run_bench(Terminal(quiet))
    print(json.dumps(_bench.as_json(found)) if as_json else _bench.as_table(found))


@app.command()
def scenarios() -> None:
    """List the built-in scenarios."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_column(style="dim", no_wrap=True)
    for name, about in sorted({**built_in(), **WITHOUT_FILE}.items()):
        table.add_row(name, about.description, ", ".join(about.commands))
    Console().print(table)


def run(started: float) -> None:
    """Run the command line; `started` is the time on the monotonic clock at which it began."""
    app(obj=started)


def _started(context: typer.Context) -> float:
    return time.monotonic() if context.obj is None else context.obj


def _finish(scenario: str, terminal: Terminal, out: Path, job: Callable[[], Outcome]) -> None:
    """Do the job, say how it ended, and leave with the exit status for that."""
    try:
        outcome = job()
    except ScenarioError as error:
        terminal.complain(f"{scenario}: {error}")
        raise typer.Exit(BAD_SCENARIO) from None
    except OSError as error:
        terminal.complain(f"{scenario}: {error.strerror or error}. What was written is in {out}.")
        raise typer.Exit(FAILURE) from None
    if outcome.status == "failed":
        terminal.complain(f"{outcome.message} What was reached is in {out}.")
        raise typer.Exit(FAILURE)
    terminal.say(f"{outcome.message}; {outcome.seconds:.1f} s in all. See {out / 'report.html'}")
