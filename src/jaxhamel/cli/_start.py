"""Imports and configures JAX.

Commands call this after they have checked the scenario, so that errors in it are reported without waiting for imports.
"""

import gc
import os
import re
import subprocess
import sys
from functools import cache

from jaxhamel.cli._scenario._validate import ScenarioError, brief

TRY = "from jaxlib import xla_client; xla_client.make_cpu_client()"  # reads XLA_FLAGS


def start_jax() -> None:
    """Sets double precision in the command's own process, and checks that the requested devices exist.

    **Raises:** `ScenarioError` if JAX cannot be started, for instance with an unknown platform.
    """
    _check_flags(os.environ.get("XLA_FLAGS", ""))
    os.environ["MPLBACKEND"] = (
        "agg"  # figures are written to files; matplotlib raises an error for an unknown backend
    )
    try:
        import jax

        # Set here, and never when the package is imported.
        jax.config.update("jax_enable_x64", True)
        jax.devices()
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(
            f"JAX cannot be started: {reason[:300]}. Look at the environment variables JAX_PLATFORMS and JAX_…."
        ) from None
    import jaxhamel.viz as _  # noqa: F401

    # exclude the million objects of the imported modules from garbage collection, which is a large share of the run
    # time otherwise; objects made by tracing are mostly freed by reference counting
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@cache
def _check_flags(flags: str) -> None:
    """Tries the flags in another process: XLA aborts the process that gives it a flag it does not know."""
    if not flags:
        return
    tried = subprocess.run([sys.executable, "-c", TRY], capture_output=True, check=False)
    said = tried.stderr.decode("utf-8", "replace")
    if tried.returncode and (found := re.search(r"flags\w*\.cc:\d+\] (.*)", said)):
        raise ScenarioError(
            f"JAX cannot be started: {brief(found[1], 300, quoted=False)} Look at the environment variable XLA_FLAGS."
        )
