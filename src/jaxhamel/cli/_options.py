"""Arguments and options that several commands share."""

import math
from pathlib import Path
from typing import Annotated

import typer

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
        help="Folder to write to. Files of the same names are overwritten, others are left alone; "
        "a folder with an ensemble is not written to by other commands.",
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
SystemOption = Annotated[
    str | None,
    typer.Option(
        "--system",
        metavar="FILE.py:Class",
        help="Use your own subclass of jaxhamel.System: its fields are the keys of "
        "[bold]\\[system][/bold]. The file is run; a scenario alone never runs code.",
        show_default=False,
    ),
]
# The metavar is empty, because flags take no value and typer would show one.
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", metavar="", help="Print errors only.")]


def _check_seed(value: int) -> int:
    """Checks that a seed fits into 63 bits, the range of NumPy and JAX alike."""
    if value >= 2**63:
        raise typer.BadParameter(f"{value} is not in the range 0<=x<2^63.")
    return value


SeedOption = Annotated[
    int,
    typer.Option(
        "--seed",
        metavar="N",
        min=0,
        callback=_check_seed,
        help="Seed of the random starts or samples.",
    ),
]
TrajectoriesOption = Annotated[
    int | None,
    typer.Option(
        "--trajectories",
        "-n",
        metavar="N",
        help="Number of trajectories.",
        show_default="the scenario's montecarlo.trajectories",
    ),
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume", metavar="", help="Continue the run in DIR.", show_default=False),
]
AccuracyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accuracy",
        metavar="QUANTITY=ERROR",
        help="Stop as soon as the mean of a quantity has this standard error, e.g. "
        "[bold]--accuracy tracking_rms=1e-4[/bold]; the quantity [bold]failed[/bold] is the share of trajectories that "
        "fail. May be repeated.",
        show_default=False,
    ),
]
IndexOption = Annotated[
    int | None,
    typer.Option(
        "--index",
        metavar="I",
        help="Run only trajectory I of the ensemble, with the scenario's solver, and show it.",
        show_default=False,
    ),
]


def _check_finite(value: float | None) -> float | None:
    """Checks that a number of seconds is finite."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not a finite number of seconds.")
    return value


def _seconds(key: str):
    """The option of a search's time limit; `key` is the scenario's key that gives its default."""
    return typer.Option(
        "--max-seconds",
        metavar="S",
        min=0.0,
        callback=_check_finite,
        help="Stop after this time and write the best result so far.",
        show_default=f"the scenario's {key}",
    )


SecondsOption = Annotated[float | None, _seconds("task.max_seconds")]
FitSecondsOption = Annotated[float | None, _seconds("fit.max_seconds")]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Folder with the measured runs, CSV files. A scenario with [bold]\\[truth][/bold] makes synthetic runs.",
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
    typer.Option(
        "--seconds",
        metavar="S",
        min=0.0,
        callback=_check_finite,
        help="Length of the first part of the run, from which the initial state is estimated.",
    ),
]
NameArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="Name of the new module, such as trolley.", show_default=False
    ),
]
NewFolderOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder to write to.")]
