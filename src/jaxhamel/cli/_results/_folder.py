"""The folder to which a command writes: only one process at a time may write to it, and links in it are not followed."""

import errno
import os
from contextlib import suppress
from pathlib import Path

from jaxhamel._files import Lock, real, remove_partial, sync
from jaxhamel.cli._scenario._validate import ScenarioError

# Files of a stopped command from which `--resume` continues: the trajectories of `montecarlo`; the last point of a search of
# `control`, and the state of the training of its policy, which exists only beside that point. FITTED is a scenario with the
# parameter values of a stopped `identify`, with which another `identify` may start.
ENSEMBLE, SEARCH, TRAINING, FITTED = "values.zarr", "search.npz", "training.npz", "fitted.toml"
_HELD: dict[Path, Lock] = {}
_MADE: list[Path] = []


def folder(out: Path, *, of_ensemble: bool = False) -> Path:
    """Makes the folder to write to if it is absent, and locks it for this command until `release`.

    The summary of an earlier run is removed, since a summary states that all files beside it belong to its run. All other
    files stay. `of_ensemble`: whether the command is `montecarlo`.

    **Raises:** `ScenarioError` if the folder cannot be made, if another command is writing to it, or if it has an ensemble
    (which takes long to compute) and this command is not `montecarlo`; `montecarlo` likewise refuses a folder with the
    result of another command. `FileNotFoundError` if this command has locked the folder and somebody has removed it.
    """
    if real(out) in _HELD and not out.is_dir():  # a new one would lack its files, and the lock
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(out))
    what = "made"
    check_place(out, of_ensemble=of_ensemble)
    try:
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
    """Removes the summary, which states that all files in the folder belong to its run."""
    (out / "summary.json").unlink(missing_ok=True)
    sync(out)


def release() -> None:
    """Unlocks all folders, and removes a folder that was made by this command and is still empty."""
    while _HELD:
        _HELD.popitem()[1].close()
    while _MADE:
        with suppress(OSError):  # it is not empty
            _MADE.pop().rmdir()


def _lock(out: Path) -> None:
    if real(out) not in _HELD:
        _HELD[real(out)] = Lock(out)


def _check_writable(out: Path) -> None:
    if not os.access(out, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(out))


def check_place(out: Path, *, of_ensemble: bool = False) -> None:
    """Checks that `out` is a writable folder or absent, and has no result of a command of the other kind (`of_ensemble`).

    **Raises:** `ScenarioError`; nothing is changed.
    """
    what = "made"
    try:
        _check_kind(out, of_ensemble)
        if out.exists() and not out.is_dir():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        what = "written to"
        if out.is_dir():
            _check_writable(out)
    except OSError as error:
        raise ScenarioError(
            f"--out {out}: the folder cannot be {what} ({error.strerror}). Give another one."
        ) from None


def _check_kind(out: Path, of_ensemble: bool) -> None:
    ensemble, result = (out / ENSEMBLE).exists(), (out / "summary.json").exists()
    if (result and not ensemble) if of_ensemble else ensemble:
        there = "another command's result" if of_ensemble else f"an ensemble ({ENSEMBLE})"
        raise ScenarioError(
            f"--out {out}: the folder has {there}; nothing was changed. Give another one."
        )


def over_at_first(seconds: float, resumed: Path | None) -> str:
    """The message if the time limit ends the command before the first iteration of its search."""
    over = f"the {seconds:g} s were over before the first iteration"
    if resumed is None:
        return (
            f"{over}; nothing was found. Give it more time by --max-seconds, or a smaller problem."
        )
    return f"{over}; the point of the search before is still in {resumed}: go on with --resume and more time, --max-seconds."
