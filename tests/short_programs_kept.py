"""The folder of compiled programs that all workers of one run share keeps the programs that compile quickly.

Of 1,136 files of more than 40 kB, 12 were read again, of 7,231 smaller ones 1,279; writing the large ones took a
thirtieth of the time of the control tests (docs/performance.md#time-of-the-tests).
"""

from functools import partial
from typing import Any

import jax
from jax._src import compiler

ONE_RUN = "-of-one-run"  # the end of the name of a folder that is removed at the end
LONGEST = 0.1  # time to compile a program of some 150 kB [s]


def keep_short_programs() -> None:
    """Leaves programs that took longer to compile out of the folder, unless it stays for the next run. If JAX's private
    function is missing, all are kept."""
    write = getattr(compiler, "_cache_write", None)
    folder = jax.config.jax_compilation_cache_dir  # pyright: ignore
    if write is not None and str(folder).endswith(ONE_RUN):
        compiler._cache_write = partial(_written, write)


def _written(write: Any, key: str, seconds: float, *rest: Any) -> None:
    if seconds <= LONGEST:
        write(key, seconds, *rest)
