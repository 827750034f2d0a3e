"""The commands: their options, their help texts, and the calls of the functions that do the work."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jaxhamel.cli._app_identify import identify, predict
from jaxhamel.cli._commands._early import (
    accuracies,
    check_of_control,
    check_of_montecarlo,
    check_of_simulate,
    limit_search,
    seconds_of,
)
from jaxhamel.cli._exit_status import EXIT_STATUS, finish, reported, started_at
from jaxhamel.cli._options import (
    AccuracyOption,
    IndexOption,
    NameArgument,
    NewFolderOption,
    OutOption,
    QuietOption,
    ResumeOption,
    ScenarioArgument,
    SecondsOption,
    SeedOption,
    SetOption,
    SystemOption,
    TrajectoriesOption,
)
from jaxhamel.cli._results._folder import ENSEMBLE, SEARCH
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._scenario._given_class import given_class
from jaxhamel.cli._scenario._scenario import built_in, load
from jaxhamel.cli._start import start_jax
from jaxhamel.cli._terminal import Terminal

app = typer.Typer(
    name="jaxhamel",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EXIT_STATUS,
)


@app.callback()
def jaxhamel() -> None:
    """Mechanical systems with constraints: simulate one or many, find controls and parameters.

    A [bold]scenario[/bold] describes it: a system with its parameters, an
    initial state, how its masses move, a time span, and for
    [bold]control[/bold] a task. Start with a built-in one and change it:

      jaxhamel scenarios
      jaxhamel simulate reference-ball --out out
      jaxhamel control figure-eight --out out
      jaxhamel simulate heavy-top --set time.end=1 --set system.mass=12 --out out

    Then open [bold]out/report.html[/bold] in a browser: the motion in 3-D,
    its plots, its numbers.
    """


@app.command(epilog=EXIT_STATUS)
def simulate(
    context: typer.Context,
    scenario: ScenarioArgument,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    system: SystemOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate a scenario and show the motion.

    Writes into DIR:

      summary.json     scenario, results, versions, run time
      trajectory.csv   one row for each time, with a header; SI units
      *.png            path, positions of the masses, contact force, …
      report.html      one self-contained page with the motion in 3-D

    Examples:

      jaxhamel simulate figure-eight --out out
      jaxhamel simulate mine.toml --set solver.rtol=1e-10 --out out
      jaxhamel simulate trolley.toml --system trolley.py:Trolley --out out

    The keys of a scenario are described in docs/scenarios.md.
    """
    terminal = Terminal(quiet)
    started = started_at(context)

    def job() -> Outcome:
        check = check_of_simulate(out)
        loaded = load(scenario, changes or (), given_class(system), check)
        start_jax()
        from jaxhamel.cli._commands._simulate import run_simulate

        return run_simulate(loaded, out, terminal, started)

    finish(scenario, terminal, out, job, system)


@app.command(epilog=EXIT_STATUS)
def control(
    context: typer.Context,
    scenario: ScenarioArgument,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    system: SystemOption = None,
    seed: SeedOption = 0,
    max_seconds: SecondsOption = None,
    resume: ResumeOption = False,
    quiet: QuietOption = False,
) -> None:
    """Find a control that makes the system do its task.

    The scenario's \\[task] describes it: a path to follow or a state to reach,
    the time for it, the weights of error and effort, and the method.
    The search uses derivatives of the simulation itself. It writes
    search.npz every two seconds until it succeeds: --resume goes on from
    it, however the search was stopped.
    With a table \\[policy] a network is trained about the plan; its state
    is in training.npz, and --resume goes on from it, too.

    Writes into DIR:

      solution.toml    the solution, a scenario for jaxhamel simulate
      summary.json     scenario, results, versions, run time
      trajectory.csv   one row for each time, with a header; SI units
      *.png            path, error, masses, contact force, cost
      report.html      one self-contained page with the motion in 3-D

    Examples:

      jaxhamel control figure-eight --out out
      jaxhamel control disk-to-point --out out --max-seconds 60
      jaxhamel control disk-to-point --out out --resume
      jaxhamel control figure-eight --set task.width=1.5 --set task.height=0.75 --max-seconds 60 --out out

    The keys of a scenario are described in docs/scenarios.md.
    """
    terminal = Terminal(quiet)
    started = started_at(context)

    def job() -> Outcome:
        check = check_of_control(out, max_seconds, resume)
        before = out / SEARCH if resume else None
        limit_search(scenario, max_seconds, started, before)
        loaded = load(scenario, changes or (), given_class(system), check)
        limit_search(loaded.name, seconds_of(loaded, max_seconds), started, before)
        start_jax()
        from jaxhamel.cli._commands._control import run_control

        return run_control(loaded, out, terminal, started, seed, max_seconds, resume)

    finish(scenario, terminal, out, job, system, SEARCH)


@app.command(epilog=EXIT_STATUS)
def montecarlo(
    context: typer.Context,
    scenario: ScenarioArgument,
    trajectories: TrajectoriesOption = None,
    out: OutOption = Path("out"),
    changes: SetOption = None,
    system: SystemOption = None,
    seed: SeedOption = 0,
    resume: ResumeOption = False,
    accuracy: AccuracyOption = None,
    index: IndexOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate a scenario many times with spread parameters.

    The scenario's \\[\\[montecarlo.spread]] tables list the values that differ
    from trajectory to trajectory. Each block of trajectories is written to
    disk when it is done: --resume continues a run that was interrupted in
    any way, and ends with the same bytes.

    Writes into DIR:

      summary.json     trajectories, failed, statistics with standard errors
      values.zarr      the results, one row for each trajectory
      trajectory.csv   the nominal motion
      *.png            paths, end points, histograms, the nominal motion
      report.html      one self-contained page with the motion in 3-D

    Examples:

      jaxhamel montecarlo figure-eight --trajectories 2000 --seed 1 --out out
      jaxhamel montecarlo figure-eight --trajectories 2000 --seed 1 --out out --resume
      jaxhamel montecarlo figure-eight --trajectories 2000 --seed 1 --index 17 --out one

    The keys of a scenario are described in docs/scenarios.md.
    """
    terminal = Terminal(quiet)
    started = started_at(context)

    def job() -> Outcome:
        wanted = accuracies(accuracy or ())
        check = check_of_montecarlo(out, trajectories, index)
        loaded = load(scenario, changes or (), given_class(system), check)
        start_jax()
        from jaxhamel.cli._commands._montecarlo import run_montecarlo, run_one

        if index is not None:
            return run_one(loaded, out, terminal, started, index, trajectories, seed)
        return run_montecarlo(loaded, out, terminal, started, trajectories, seed, resume, wanted)

    finish(scenario, terminal, out, job, system, ENSEMBLE)


app.command(epilog=EXIT_STATUS)(identify)
app.command(epilog=EXIT_STATUS)(predict)


@app.command()
def bench(
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", metavar="", help="One JSON object instead of a table.", show_default=False
        ),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Benchmark this machine on the rolling ball with three masses and print a table.

    The table has the cost of autodiff relative to the closed form, the steps
    per second of an ensemble in double and single precision, the cost of its
    reverse-mode gradient, and the time that a fresh process takes to its
    first trajectory. The benchmark takes about 15 s. Run it on an idle machine.

    Examples:

      jaxhamel bench
      jaxhamel bench --json --quiet
    """
    terminal = Terminal(quiet)

    def job() -> str:
        start_jax()
        from jaxhamel.cli._commands import _bench

        found = _bench.run_bench(terminal)
        return json.dumps(_bench.as_json(found)) if as_json else _bench.as_table(found)

    print(reported("bench", terminal, job))


@app.command(epilog=EXIT_STATUS)
def new(
    name: NameArgument,
    out: NewFolderOption = Path(),
) -> None:
    """Write template files for a system of your own.

    Writes into DIR; files that exist already are never overwritten:

      NAME.py        a working class: its Lagrangian, force, parameters
      NAME.toml      a scenario of it
      test_NAME.py   a test of its equations against hand-written ones

    Examples:

      jaxhamel new trolley
      jaxhamel simulate trolley.toml --system trolley.py:Trolley --out out
      pytest test_trolley.py
    """
    from jaxhamel.cli._commands._new import class_name, run_new

    terminal = Terminal(quiet=False)
    paths = reported(name, terminal, lambda: run_new(name, out), out)
    terminal.say(f"wrote {', '.join(map(str, paths))}")
    system = f"{paths[0]}:{class_name(name)}"
    terminal.say(f"try: jaxhamel simulate {paths[1]} --system {system} --out out")


@app.command()
def scenarios() -> None:
    """List the built-in scenarios."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    table.add_column(style="dim", no_wrap=True)
    for name, about in sorted(built_in().items()):
        table.add_row(name, about.description, ", ".join(about.commands))
    Console().print(table)


def run(started: float) -> None:
    """Runs the command line; `started` is the time on the monotonic clock at which the process began."""
    app(obj=started)
