"""The command `jaxhamel`. Needs `pip install 'jaxhamel[cli]'`."""

import gc
import sys
import time

EXTRAS = ("typer", "rich", "matplotlib", "zarr")


def main() -> None:
    """Entry point of the command `jaxhamel`."""
    started = time.monotonic()
    try:
        from jaxhamel.cli._app import run

        # a million objects of what was imported, which stay: looked through at each collection they took 0.9 s of 7;
        # what tracing makes is gone with its last reference, mostly
        gc.freeze()
        gc.set_threshold(100_000, 20, 20)
        run(started)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        sys.exit(
            f"jaxhamel: the command line needs {error.name}, which is not installed; "
            "get it with: pip install 'jaxhamel[cli]'"
        )
