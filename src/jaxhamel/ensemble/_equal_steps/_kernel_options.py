"""How the kernel of an ensemble is compiled and where it runs."""

import dataclasses
from typing import Any

import jax

from jaxhamel import _checks
from jaxhamel._lanes._described import is_described


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One GPU kernel for a whole ensemble instead of XLA's lanes.

    **Arguments:**

    - `block`: lanes in a block, a power of two; 32 a warp, so that a thread holds one lane.
    - `longest`: the most operations of a step that are written out; beyond that its stages share one right-hand side.
    - `interpret`: whether to run in Pallas' interpreter, on any machine: for tests.

    **Why these defaults.** None of them was measured on a GPU; numbers of registers and instructions are ptxas' for
    compute capability 9.0 and four warps.

    - One lane in each thread: two would double the registers. Other warps hide the latency of an operation (4 cycles):
      four on each of the four schedulers are enough, that is 16 on a multiprocessor with 65,536 registers, 128 for each
      thread. The ball with three masses takes 128 in single precision (242 in double), so four blocks of 128 fit; Lorenz'
      equations take 48, so ten fit.
    - 128 lanes rather than 256 or more: registers are allocated by blocks, and a block of 256 lanes leaves more of them
      unused. Fewer than 64 lanes leave schedulers idle when there are few trajectories.
    - `longest`: the ball's RK4 step, written out, has 2,250 instructions and compiled for 54 s on two busy cores; with one
      right-hand side in a loop it has 611 for each stage, 2,490 for a step, and compiled for 20 s.
    - Sine and cosine are polynomials that share the reduction of their argument: CUDA's own branch into double precision
      and local memory for large arguments; a step of the ball written out with them has 3,900 instructions.
    """

    block: int = 128
    longest: int = 1500
    interpret: bool = False

    @classmethod
    def chosen(cls, kernel: Any) -> "Kernel | None":
        """The options that `kernel=None`, True, False or a `Kernel` stand for on this backend; None for lanes."""
        _checks.check_kernel(kernel, cls)
        if is_described():
            return None
        if kernel is None:
            return cls() if jax.default_backend() == "gpu" else None
        if isinstance(kernel, cls):
            return kernel
        return cls() if kernel else None

    @property
    def warps(self) -> int:
        """The number of warps of a block, 32 threads each."""
        return max(self.block // 32, 1)
