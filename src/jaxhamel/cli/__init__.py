"""The command `jaxhamel`. Needs `pip install 'jaxhamel[cli]'`."""

import os
import sys

from jaxhamel.cli._interrupt import guard

EXTRAS = ("typer", "rich", "matplotlib", "zarr")


def main() -> None:
    """Entry point of the command `jaxhamel`."""
    _open_streams()
    guard.begin()
    import time

    started = time.monotonic()
    _drop_warnings_and_escape_characters()
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
    except OSError as error:  # standard output is on a full disk, or a closed pipe
        _without_output()
        sys.exit(f"jaxhamel: standard output: {error.strerror or error}.")
    finally:
        guard.finish()
        _without_output()


def _open_streams() -> None:
    """Replaces closed standard streams by the null device. Otherwise the files opened next would get their descriptors."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _drop_warnings_and_escape_characters() -> None:
    """Drops warnings that tell the user nothing, and prints characters that the terminal cannot encode as escapes."""
    import io
    import warnings

    # NumPy warns of overflow and NaN; the files show these numbers anyway. Matplotlib warns of labels that do not fit.
    warnings.filterwarnings("ignore", category=RuntimeWarning)
    warnings.filterwarnings("ignore", module="matplotlib")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _without_output() -> None:
    """Flushes the standard streams; one that cannot be written to becomes the null device, so that Python exits without
    an error.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        except (AttributeError, ValueError):  # the stream is absent or closed
            continue
