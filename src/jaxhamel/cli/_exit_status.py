"""How a command begins and ends: its exit status, and the sentence that goes with it."""

import time
from collections.abc import Callable
from pathlib import Path

import typer

from jaxhamel.cli._results._folder import release
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.cli._terminal import Terminal

SUCCESS, FAILURE, BAD_SCENARIO, INTERRUPTED = 0, 1, 2, 130
EXIT_STATUS = """
[bold]Exit status[/bold]: 0 success; 1 the numbers failed (the message says what,
at what time and what to try; what was reached is written); 2 bad scenario
or option (the message names the key); 130 interrupted by Ctrl-C (a
search writes what it had found by then).
"""


def started_at(context: typer.Context) -> float:
    """On the monotonic clock: when the process began, where that is known."""
    return time.monotonic() if context.obj is None else context.obj


def finish(scenario: str, terminal: Terminal, out: Path, job: Callable[[], Outcome]) -> None:
    """Do the job, say how it ended, and leave with the exit status for that."""
    try:
        outcome = job()
    except ScenarioError as error:
        terminal.complain(f"{scenario}: {error}")
        raise typer.Exit(BAD_SCENARIO) from None
    except OSError as error:
        kept = _to_go_on(out) if "resume" not in str(error) else ""
        what = f"{error.strerror or error}. What was written is in {out}{kept}."
        terminal.complain(f"{scenario}: {what}")
        raise typer.Exit(FAILURE) from None
    except KeyboardInterrupt:
        terminal.complain(f"{scenario}: interrupted. What was written is in {out}{_to_go_on(out)}.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        release()
    if outcome.status == "interrupted":
        terminal.complain(f"{scenario}: {outcome.message}. What was reached is in {out}.")
        raise typer.Exit(INTERRUPTED)
    if outcome.status == "failed":
        terminal.complain(f"{outcome.message} What was reached is in {out}.")
        raise typer.Exit(FAILURE)
    terminal.say(f"{outcome.message}; {outcome.seconds:.1f} s in all. See {out / 'report.html'}")


def _to_go_on(out: Path) -> str:
    return "; go on with --resume" if (out / "values.zarr").exists() else ""
