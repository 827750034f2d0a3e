"""Imports and configures JAX.

Commands call `start_jax` after they have checked the scenario, so that its errors are reported before the slow import.
"""

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from jaxhamel.cli._scenario._validate import ScenarioError, brief

try:
    import resource
except ImportError:  # Windows has no limits of this kind
    resource = None

LEAST_ADDRESSES = 2**30
TRY = "from jaxlib import xla_client; xla_client.make_cpu_client()"  # reads XLA_FLAGS
# All settings but `jax_enable_x64` are debugging aids that an environment variable may have switched on. With them a command
# fails or does not end.
CONFIGURATION = {
    "jax_enable_x64": True,
    "jax_transfer_guard": "allow",
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_disable_jit": False,
    "jax_check_tracer_leaks": False,
}


def start_jax() -> None:
    """Sets JAX's configuration in the command's own process, and checks that the requested devices exist.

    **Raises:** `ScenarioError` if JAX cannot be started, for instance with an unknown platform.
    """
    _check_flags(os.environ.get("XLA_FLAGS", ""))
    # Figures are only written to files; an unknown backend in the user's environment would be an error of matplotlib.
    os.environ["MPLBACKEND"] = "agg"
    import_jax()
    with _with_advice():
        import jax

        # Set here, and never when the package is imported.
        for name, value in CONFIGURATION.items():
            jax.config.update(name, value)
        jax.devices()
    import jaxhamel.viz as _  # noqa: F401

    # The million objects of the imported modules are excluded from garbage collection, which would otherwise take a large
    # share of the run time; objects made by tracing are mostly freed by reference counting.
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def import_jax() -> None:
    """Imports JAX and Equinox.

    **Raises:** `ScenarioError` if an environment variable that they read has an invalid value, or the process may use too
    little memory.
    """
    _check_address_space()
    with _with_advice():
        import equinox as _  # noqa: F401


@contextmanager
def _with_advice() -> Iterator[None]:
    """Turns an exception raised while JAX starts into a message about the environment variables that JAX reads."""
    try:
        yield
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(
            f"JAX cannot be started: {reason[:300]}. Check the environment variables JAX_PLATFORMS, JAX_… and EQX_…."
        ) from None


def _check_address_space() -> None:
    """Checks that the process may use an address space of `LEAST_ADDRESSES` bytes.

    With less JAX ends the process, or waits forever for threads that cannot be started.
    """
    if resource is None:
        return
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < LEAST_ADDRESSES:
        raise ScenarioError(
            f"JAX cannot be started: the address space of this process is limited to {limit >> 20} MiB, and it needs "
            f"{LEAST_ADDRESSES >> 20} MiB at least. Raise the limit, for example by `ulimit -v 4000000`, or lift it by "
            "`ulimit -v unlimited`."
        )


@cache
def _check_flags(flags: str) -> None:
    """Checks the value of XLA_FLAGS in another process, since XLA aborts a process with an unknown flag."""
    if not flags:
        return
    tried = subprocess.run([sys.executable, "-c", TRY], capture_output=True, check=False)
    words = tried.stderr.decode("utf-8", "replace")
    if tried.returncode and (found := re.search(r"flags\w*\.cc:\d+\] (.*)", words)):
        raise ScenarioError(
            f"JAX cannot be started: {brief(found[1], 300, quoted=False)} Check the environment variable XLA_FLAGS."
        )
