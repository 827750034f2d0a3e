"""The command `jaxhamel`. Needs `pip install 'jaxhamel[cli]'`."""

import io
import sys
import time

from jaxhamel.cli._interrupt import guard

EXTRAS = ("typer", "rich", "matplotlib", "zarr")


def main() -> None:
    """Entry point of the command `jaxhamel`."""
    started = time.monotonic()
    guard.begin()
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
    finally:
        guard.finish()
