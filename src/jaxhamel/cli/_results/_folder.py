"""The folder that a command writes to: one writer at a time, and no link in it is followed."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from jaxhamel._files import Lock, remove_partial, sync
from jaxhamel.cli._scenario._validate import ScenarioError

_HELD: dict[Path, Lock] = {}
_MADE: list[Path] = []


def folder(out: Path, *, of_ensemble: bool = False) -> Path:
    """The folder to write to, made when absent, and this command's alone until `release`.

    The summary of a run before is removed: it says that all files beside it are of one run. Files of other names are left
    alone.

    **Raises:** `ScenarioError` where it cannot be, where another command writes there, or where the files would take the
    place of an ensemble's, which took longer than they; an ensemble's take no others' place.
    """
    what = "made"
    try:
        _check_kind(out, of_ensemble)
        if not out.is_dir():
            out.mkdir(parents=True)
            _MADE.append(out)
        what = "written to"
        _lock(out)
        remove_partial(out)
        if not of_ensemble:
            remove_summary(out)
    except BlockingIOError:
        raise ScenarioError(
            f"--out {out}: another command is writing there; nothing was changed. Give another one, or wait."
        ) from None
    except OSError as error:
        raise ScenarioError(
            f"--out {out}: the folder cannot be {what} ({error.strerror}). Give another one."
        ) from None
    return out


def remove_summary(out: Path) -> None:
    """Nothing says any longer that the files in the folder are of one run."""
    (out / "summary.json").unlink(missing_ok=True)
    sync(out)


def release() -> None:
    """Leave all folders to others; one that was made and has nothing in it goes."""
    while _HELD:
        _HELD.popitem()[1].close()
    while _MADE:
        with suppress(OSError):  # as it is where something was written
            _MADE.pop().rmdir()


def _lock(out: Path) -> None:
    if out.resolve() not in _HELD:
        _HELD[out.resolve()] = Lock(out)
    if not os.access(out, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(out))


def _check_kind(out: Path, of_ensemble: bool) -> None:
    ensemble, result = (out / "values.zarr").exists(), (out / "summary.json").exists()
    if (result and not ensemble) if of_ensemble else ensemble:
        there = "another command's result" if of_ensemble else "an ensemble (values.zarr)"
        raise ScenarioError(
            f"--out {out}: the folder holds {there}; nothing was changed. Give another one."
        )
