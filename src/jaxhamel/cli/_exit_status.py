"""Start and end of a command: its exit status, and the message that explains it."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

import typer

from jaxhamel._words import visible, with_short_words
from jaxhamel.cli._interrupt import STOPPED, guard
from jaxhamel.cli._results._folder import FITTED, release
from jaxhamel.cli._results._outcome import Outcome
from jaxhamel.cli._scenario._given_class import GivenClassError, of_given_class
from jaxhamel.cli._scenario._validate import ScenarioError, brief
from jaxhamel.cli._terminal import Terminal

CommandResult = TypeVar("CommandResult")
SUCCESS, FAILURE, BAD_SCENARIO = 0, 1, 2
EXIT_STATUS = """
[bold]Exit status[/bold]: 0 success; 1 the computation failed (the message says why,
at what time and what to try; results up to then are written), or a search was
stopped and its best point is written; 2 bad scenario or option (the message
names the key). Without a point of a search on disk a command ends with 130
by Ctrl-C, 143 by kill, 129 by a closed terminal. A search has two seconds to
write its best result; a second Ctrl-C or kill ends it at once.
"""
REPORT = "Set JAXHAMEL_TRACEBACK=1 to see the traceback, and please report it."


def started_at(context: typer.Context) -> float:
    """The time at which the process began, on the monotonic clock; the current time if it is unknown."""
    return time.monotonic() if context.obj is None else context.obj


def finish(
    scenario: str,
    terminal: Terminal,
    out: Path,
    job: Callable[[], Outcome],
    given: str | None = None,
    resumable: str | None = None,
) -> None:
    """Runs the job, reports how it ended, and exits with the matching status.

    `given`: the option --system; `resumable`: see `reported`.
    """
    outcome = reported(scenario, terminal, job, out, given, resumable)
    scenario = brief(scenario, 200, quoted=False)
    if outcome.status == "interrupted":
        hint = _resume_hint(out, resumable)
        message = f"{scenario}: {outcome.message}. The results so far are in {out}{hint}."
        _leave(terminal, STOPPED, message)
    if outcome.status == "failed":
        _leave(terminal, FAILURE, f"{outcome.message} The results so far are in {out}.")
    hint = _resume_hint(out, resumable) if outcome.status == "stopped" else ""
    report = out / "report.html"
    terminal.say(f"{outcome.message}; {outcome.seconds:.1f} s in all. See {report}{hint}")


def reported(
    name: str,
    terminal: Terminal,
    job: Callable[[], CommandResult],
    out: Path | None = None,
    given: str | None = None,
    resumable: str | None = None,
) -> CommandResult:
    """Runs the job and returns its result. An error ends the command, with one line that begins with `name`.

    `resumable`: the file in `out` from which the command continues; None for a command that cannot.
    """
    name = brief(name, 200, quoted=False)

    def interrupted() -> str:
        return f"{name}: interrupted. {_what_was_written(out, resumable)}"

    guard.command(lambda: with_short_words(visible(interrupted())))
    try:
        return _run_job(job, given)
    except ScenarioError as error:
        if isinstance(error, GivenClassError):
            terminal.show(error.details)
        _leave(terminal, BAD_SCENARIO, f"{name}: {error}")
    except OSError as error:
        _leave(terminal, FAILURE, f"{name}: {_message_of(error, out, resumable)}")
    except KeyboardInterrupt:
        _leave(terminal, guard.status, interrupted())
    except MemoryError:
        words = _what_was_written(out, resumable)
        _leave(terminal, FAILURE, f"{name}: there is not enough memory. {words}")
    except ModuleNotFoundError:
        raise
    except Exception as error:
        if "JAXHAMEL_TRACEBACK" in os.environ:
            raise
        words = " ".join(f"{type(error).__name__}: {error}".split())
        short = brief(words, 300, quoted=False)
        _leave(terminal, FAILURE, f"{name}: an error in jaxhamel itself, {short} {REPORT}")
    finally:
        release()


def _leave(terminal: Terminal, status: int, message: str) -> NoReturn:
    """Prints the message and exits with this status.

    A process that runs the command alone ends at once, without waiting for threads.
    """
    terminal.complain(message)
    if guard.active():
        guard.end(status)
    raise typer.Exit(status) from None


def _message_of(error: OSError, out: Path | None, resumable: str | None) -> str:
    """The message for an `OSError`: the system's own text, and the files that have been written."""
    reason = error.strerror or error
    if out is None:
        return f"{reason}."
    if not _exists(out):
        return f"--out {out}: the folder is gone or was replaced by another one ({reason}). Run the command again."
    hint = _resume_hint(out, resumable) if "resume" not in str(error) else ""
    return f"{reason}. The results so far are in {out}{hint}."


def _exists(out: Path) -> bool:
    try:
        return out.is_dir()
    except OSError:
        return False


def _has_files(out: Path) -> bool:
    """Whether the folder is there and not empty."""
    try:
        return any(out.iterdir())
    except OSError:
        return False


def _what_was_written(out: Path | None, resumable: str | None = None) -> str:
    """A sentence on the files of a command that was ended."""
    if out is None or not _has_files(out):
        return "Nothing was written."
    return f"The results so far are in {out}{_resume_hint(out, resumable)}."


def _run_job(job: Callable[[], CommandResult], given: str | None) -> CommandResult:
    """Runs the job; an error in the file of `--system` (option `given`) becomes a `GivenClassError`."""
    try:
        return job()
    except Exception as error:
        if (found := of_given_class(error, given)) is not None:
            raise found from None
        raise


def _resume_hint(out: Path, resumable: str | None) -> str:
    """The hint how the command continues, if the file that it needs is there; otherwise empty."""
    try:
        found = resumable is not None and (out / resumable).exists()
    except OSError:
        return ""
    if not found:
        return ""
    if resumable == FITTED:
        return f"; go on from the values so far by jaxhamel identify {out / FITTED} and the same options"
    return "; go on with --resume"
