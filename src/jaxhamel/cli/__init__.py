"""The command `jaxhamel`. Needs `pip install 'jaxhamel[cli]'`."""

import io
import os
import sys
import time
import warnings

from jaxhamel.cli._interrupt import guard

EXTRAS = ("typer", "rich", "matplotlib", "zarr")


def main() -> None:
    """Entry point of the command `jaxhamel`."""
    started = time.monotonic()
    guard.begin()
    warnings.filterwarnings(
        "ignore", category=RuntimeWarning
    )  # NumPy's, of numbers that files show
    warnings.filterwarnings("ignore", module="matplotlib")  # of names too long for their place
    for stream in (
        sys.stdout,
        sys.stderr,
    ):  # a name that the terminal's alphabet has not is no error
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        from jaxhamel.cli._app import run

        run(started)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        sys.exit(
            f"jaxhamel: the command line needs {error.name}, which is not installed; "
            "get it with: pip install 'jaxhamel[cli]'"
        )
    except OSError as error:  # of standard output: full, or closed by its reader
        _without_output()
        sys.exit(f"jaxhamel: standard output: {error.strerror or error}.")
    finally:
        guard.finish()
        _without_output()


def _without_output() -> None:
    """What could not be written is not tried again when Python ends."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (AttributeError, ValueError):  # closed before
            continue
