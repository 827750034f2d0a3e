"""How the kernel of an ensemble is compiled and where it runs."""

import dataclasses
from typing import Any

import jax

from jaxhamel import _checks


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One GPU kernel for a whole ensemble instead of XLA's lanes.

    **Arguments:**

    - `block`: lanes in a block, a power of two; 32 a warp, so that a thread holds one lane.
    - `longest`: the most operations of a step that are written out; beyond that its stages share one right-hand side.
    - `interpret`: whether to run in Pallas' interpreter, on any machine: for tests.

    Rather many small blocks than few large ones: what limits a right-hand side of hundreds of operations is the number
    of registers (65,536 for a multiprocessor of Hopper, at most 255 for a thread), not the number of blocks.
    """

    block: int = 128
    longest: int = 1500
    interpret: bool = False

    @classmethod
    def chosen(cls, kernel: Any) -> "Kernel | None":
        """What `kernel=None`, True, False or a `Kernel` mean here."""
        _checks.check_kernel(kernel, cls)
        if kernel is None:
            return cls() if jax.default_backend() == "gpu" else None
        if isinstance(kernel, cls):
            return kernel
        return cls() if kernel else None

    @property
    def warps(self) -> int:
        """Of 32 threads each."""
        return max(self.block // 32, 1)
