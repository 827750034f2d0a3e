"""Reads files and options as text and values, and turns every error into a message of one line."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxhamel.cli._scenario._sizes import memory
from jaxhamel.cli._scenario._validate import ScenarioError, brief

MOST_BYTES_OF_SCENARIO = 64 * 2**20  # largest size of a scenario in bytes
AS_OBJECTS = 15  # bytes of memory needed per byte of a CSV file while it is read


def file_text(path: Path) -> str:
    """The text of a file, without its byte-order mark.

    **Raises:** `ScenarioError` if the path cannot be read, is not a regular file, is too large, or is not UTF-8.
    """
    try:
        about = os.stat(path)
        if not stat.S_ISREG(about.st_mode):  # to read a pipe or a device might never end
            raise ScenarioError("the file cannot be read (it is not a regular file).")
        if about.st_size > MOST_BYTES_OF_SCENARIO:
            raise ScenarioError(
                f"the file has {about.st_size:,} bytes; a scenario may have {MOST_BYTES_OF_SCENARIO:,}."
            )
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScenarioError(f"the file cannot be read ({reason}).") from None


def check_data_file(path: Path) -> None:
    """Checks that a path is a regular file of measurements that fits into memory.

    **Raises:** `ScenarioError` for a file too large, and for pipes and devices, which might block or never end.
    """
    try:
        about = os.stat(path)
    except OSError as error:
        raise ScenarioError(f"{path}: the file cannot be read ({error.strerror}).") from None
    if not stat.S_ISREG(about.st_mode):
        raise ScenarioError(f"{path}: the file cannot be read (it is not a regular file).")
    if AS_OBJECTS * about.st_size > memory():
        raise ScenarioError(
            f"{path}: the file has {about.st_size:,} bytes; to read it takes {AS_OBJECTS} times as much memory, and this "
            f"machine has {memory():,.0f} bytes."
        )


def is_file(path: Path) -> bool:
    """Whether the path is a file; False for paths that are too long or in a folder without access."""
    try:
        return path.is_file()
    except OSError:
        return False


def parsed(parse: Callable[[str], Any], text: str, form: str) -> Any:
    """Applies the parser `parse` to a text; `form` is the name of the format in messages.

    **Raises:** `ScenarioError` of one line for every error of the parser, also if the text is nested too deeply, has a
    number with too many digits, or needs too much memory.
    """
    try:
        return parse(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except MemoryError:
        reason = "it needs more memory than there is"
    except (ValueError, OverflowError) as error:
        reason = brief(" ".join(str(error).split()), 200, quoted=False)
    raise ScenarioError(f"not valid {form}: {reason}. See docs/scenarios.md for the format.")
