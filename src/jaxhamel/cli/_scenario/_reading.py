"""Files and options as text and values: whatever is wrong with them is one line."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxhamel.cli._scenario._sizes import memory
from jaxhamel.cli._scenario._validate import ScenarioError, brief

LARGEST = 64 * 2**20  # bytes of a scenario
AS_OBJECTS = 15  # bytes in memory for a byte of a table of text, while it is read


def file_text(path: Path) -> str:
    """The text of a file, a byte-order mark left out.

    **Raises:** `ScenarioError` where it cannot be read, is no file, too large or not UTF-8.
    """
    try:
        about = os.stat(path)
        if not stat.S_ISREG(
            about.st_mode
        ):  # a pipe would wait for a writer, a device may never end
            raise ScenarioError("the file cannot be read (it is not a regular file).")
        if about.st_size > LARGEST:
            raise ScenarioError(
                f"the file has {about.st_size:,} bytes; a scenario may have {LARGEST:,}."
            )
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, ScenarioError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ScenarioError(f"the file cannot be read ({reason}).") from None


def check_data_file(path: Path) -> None:
    """A regular file of measurements whose numbers fit into memory.

    **Raises:** `ScenarioError` for a pipe, which would wait for a writer, a device, which may never end, a file too large.
    """
    try:
        about = os.stat(path)
    except OSError as error:
        raise ScenarioError(f"{path}: the file cannot be read ({error.strerror}).") from None
    if not stat.S_ISREG(about.st_mode):
        raise ScenarioError(f"{path}: the file cannot be read (it is not a regular file).")
    if AS_OBJECTS * about.st_size > memory():
        raise ScenarioError(
            f"{path}: the file has {about.st_size:,} bytes; to read it takes {AS_OBJECTS} times that, and this machine has "
            f"{memory():,.0f}."
        )


def is_file(path: Path) -> bool:
    """Whether it is there; a path that is too long, or in a folder that cannot be searched, is not."""
    try:
        return path.is_file()
    except OSError:
        return False


def parsed(parse: Callable[[str], Any], text: str, form: str) -> Any:
    """What a parser makes of a text.

    **Raises:** `ScenarioError`, one line, whatever the parser meets: nesting, digits and memory have their limits, too.
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
