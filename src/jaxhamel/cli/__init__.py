"""The command `jaxhamel`. Needs `pip install 'jaxhamel[cli]'`."""

import sys
import time

EXTRAS = ("typer", "rich", "matplotlib")


def main() -> None:
    """Entry point of the command `jaxhamel`."""
    started = time.monotonic()
    try:
        from ._app import run
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        sys.exit(
            f"jaxhamel: the command line needs {error.name}, which is not installed; "
            "get it with: pip install 'jaxhamel[cli]'"
        )
    run(started)
