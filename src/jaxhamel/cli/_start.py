"""JAX, when a scenario has been read: what is wrong with its words and numbers is said without waiting for imports."""

import gc
import os

from jaxhamel.cli._scenario._validate import ScenarioError


def start_jax() -> None:
    """Double precision, in the command's own process; the devices that JAX was asked for are there.

    **Raises:** `ScenarioError` where it cannot be started, as with a platform that does not exist.
    """
    os.environ["MPLBACKEND"] = (
        "agg"  # pictures are files; a backend that does not exist is an error of matplotlib's
    )
    try:
        import jax

        # Here, and never when the package is imported.
        jax.config.update("jax_enable_x64", True)
        jax.devices()
    except (RuntimeError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())
        raise ScenarioError(
            f"JAX cannot be started: {reason[:300]}. Look at the environment variables JAX_PLATFORMS and JAX_…."
        ) from None
    import jaxhamel.viz as _  # noqa: F401

    # a million objects of what was imported, which stay: looked through at each collection they took 0.9 s of 7;
    # what tracing makes is gone with its last reference, mostly
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
