"""`Kernel`: the options of the GPU kernel of an ensemble."""

import dataclasses
from typing import Any

import jax

from jaxhamel._checks._values import type_of
from jaxhamel._lanes._tracing import is_described


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One GPU kernel for a whole ensemble instead of XLA's lanes.

    **Arguments:**

    - `block`: number of lanes in a block, a power of two. Each thread integrates one lane, and a warp has 32 threads.
    - `longest`: the largest number of operations of a step whose stages are unrolled; in longer steps the stages share one
      right-hand side, in a loop.
    - `interpret`: whether to run in Pallas' interpreter, on any machine, for tests.
    - `trusted`: whether to use the kernel without a trial. With False, and with `kernel=None` or True in place of a
      `Kernel`, the kernel of each new program is first compared with lanes over a few steps: if it fails to compile, has
      other results or takes more time, a warning says so and the ensemble runs in lanes.

    The defaults follow from the registers and instructions that ptxas reports (docs/performance.md#gpu-kernel); they were
    not measured on a GPU.
    """

    block: int = 128
    longest: int = 1500
    interpret: bool = False
    trusted: bool = True

    @classmethod
    def chosen(cls, kernel: Any) -> "Kernel | None":
        """The options for `kernel`, which is None, True, False or a `Kernel`, on this backend; None means lanes."""
        _check_kernel(kernel)
        if is_described():
            return None
        if kernel is None:
            kernel = jax.default_backend() == "gpu"
        if isinstance(kernel, cls):
            return kernel
        return cls(trusted=False) if kernel else None

    @property
    def warps(self) -> int:
        """The number of warps of a block, 32 threads each."""
        return max(self.block // 32, 1)


def _check_kernel(kernel: Any) -> None:
    """Checks that `kernel` is None, True, False, or kernel options with a block size that is a power of two."""
    if kernel is not None and not isinstance(kernel, bool | Kernel):
        raise TypeError(
            f"`kernel` is {kernel!r} ({type_of(kernel)}); it must be None (where there is a GPU), True, False, or "
            "jaxhamel.ensemble.Kernel(...)."
        )
    block = getattr(kernel, "block", 1)
    if block < 1 or block & (block - 1):
        raise ValueError(
            f"`block` is {block}; it must be a power of two, at least 1: GPU kernels take no other shapes. Try 128."
        )
