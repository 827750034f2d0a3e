"""Checks of the folder of a Monte Carlo run: it belongs to the same run of the same program and is writable."""

import errno
import importlib.util
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from jaxhamel._files import Lock
from jaxhamel._words import counted


def check_about(about) -> None:
    """Checks that `about`, further settings of a run, is a dictionary that can be written as JSON, or None."""
    if about is None:
        return
    try:
        fits = isinstance(about, Mapping) and bool(json.dumps(about))
    except (TypeError, ValueError):
        fits = False
    if not fits:
        raise TypeError(
            f"`about` is {about!r}; it must be a dictionary that JSON takes: text, numbers, lists and dictionaries of "
            "those. Write arrays as lists, x.tolist()."
        )


def check_folder(folder, resume) -> None:
    """Checks that the folder is a path or None, and that it is not None if a run is to be resumed."""
    if folder is None and resume:
        raise ValueError(
            "`resume` is True and `folder` is None: there is no run to resume. Give the folder it was written to."
        )
    if folder is not None and (not isinstance(folder, str | os.PathLike) or not os.fspath(folder)):
        raise TypeError(
            f"`folder` is {folder!r}; it must be a path, text or a pathlib.Path, or None to keep nothing on disk."
        )


def check_installed(module, what, extra) -> None:
    """Checks that the package for an optional feature is installed."""
    if importlib.util.find_spec(module) is None:
        raise ModuleNotFoundError(
            f"{what} needs {module}, which is not installed; get it with: pip install 'jaxhamel[{extra}]'",
            name=module,
        )


def check_same_run(folder, there, asked, resume) -> None:
    """Checks that `resume` is set, and that the settings `there` of the run in the folder are those `asked` for."""
    if not resume:
        raise ValueError(
            f"the folder {folder} holds a run already ({counted(there.get('trajectories'), 'trajectory')}, seed "
            f"{there.get('seed')}); nothing was changed. Resume it, or give another folder."
        )
    there, asked = dict(_dotted_entries(there)), dict(_dotted_entries(asked))
    differs = [key for key in {**there, **asked} if there.get(key) != asked.get(key)]
    if differs:
        key = differs[0]
        raise ValueError(
            f"the folder {folder} holds another run: its `{key}` is {there.get(key)!r}, asked for is "
            f"{asked.get(key)!r}; nothing was changed. Ask for the same, or give another folder."
        )


def another_program(folder, differs) -> ValueError:
    """The error for a run of another model.

    `differs`: the first line in which the programs differ: its number, its text in the folder, and its text now.
    """
    _, there, here = differs or (0, "", "")
    where = (
        f": its program has `{_shortened(there)}` where that of the model given has `{_shortened(here)}`"
        if differs
        else ""
    )
    return ValueError(
        f"the folder {folder} holds the run of another model{where}; nothing was changed. Resume with the model that "
        "began it and with the numbers and arrays that it refers to, or give another folder."
    )


def other_numbers(folder, versions, name, by) -> ValueError:
    """The error for a run begun with other versions whose trajectories now differ."""
    return ValueError(
        f"the folder {folder} holds a run begun with {versions}. Programs of two versions cannot be compared line by "
        f"line, so trajectories that are there were computed again: {name!r} differs by up to {by:.2g}. The model is "
        "another one, or its motion magnifies rounding; nothing was changed. Resume with the model and the versions that "
        "began the run, or give another folder."
    )


def begun_elsewhere(folder, versions, same_program: bool, many: int, by: float) -> str:
    """The text of the warning for a run that was begun with other versions and is continued."""
    if same_program:
        finding = "The program is the same"
    else:
        finding = (
            "Programs of two versions cannot be compared line by line. So the model was compared by computing "
            f"{counted(many, 'trajectory')} again, whose numbers agree to {by:.1g}"
        )
    return (
        f"the folder {folder} holds a run begun with {versions}. {finding}; the run goes on, but trajectories from now on "
        "may be rounded in another way than in a run with one version."
    )


def _shortened(line: str) -> str:
    return line if len(line) <= 160 else f"{line[:100]} … {line[-50:]}"


def _dotted_entries(table, path=""):
    """Yields the entries of nested tables and lists of tables as pairs of a dotted key and a value."""
    pairs = table.items() if isinstance(table, Mapping) else enumerate(table)
    for key, value in pairs:
        nested = isinstance(value, Mapping) or (
            isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value)
        )
        if nested:
            yield from _dotted_entries(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def check_no_links(path) -> None:
    """Checks that the table contains no symbolic link, through which data would be written elsewhere."""
    inside = (Path(folder, name) for folder, *names in os.walk(path) for name in chain(*names))
    link = next((entry for entry in chain([Path(path)], inside) if entry.is_symlink()), None)
    if link is not None:
        raise ValueError(
            f"{link} is a symbolic link, which is not followed; nothing was changed. Give another folder."
        )


def only_writer(path) -> Lock:
    """Locks the table of a run for this process, and returns the lock. **Raises:** `ValueError` if it is locked already."""
    try:
        return Lock(path)
    except BlockingIOError:
        raise ValueError(
            f"the folder {path.parent} is written to by another run; nothing was changed. Give another folder, or wait."
        ) from None


def check_no_foreign_folder(path) -> None:
    """Checks that nothing exists at the path of the table, except for files of a run that was killed at its start."""
    begun = path.is_dir() and all(part.name.endswith(".partial") for part in path.iterdir())
    if path.exists() and not begun:
        raise foreign_folder_error(path)


def foreign_folder_error(path) -> ValueError:
    """The error for a path that another program has written."""
    return ValueError(
        f"{path} exists but was not written by jaxhamel; nothing was changed. Give another folder."
    )


@contextmanager
def writing(folder, done) -> Iterator[None]:
    """Turns an `OSError` while writing into a message that says which results are kept and how to go on."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        full = number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        what = "takes no more" if full else "cannot be written to"
        kept = (
            f"the {counted(done, 'trajectory')} written before {'is' if done == 1 else 'are'} kept"
            if done or full
            else "nothing is lost"
        )
        then = "Make room there" if full else "Make it writable"
        then += " and resume the run" if done or full else ", or give another folder"
        raise OSError(number, f"{os.strerror(number)}: {folder} {what}; {kept}. {then}") from error
