"""Decides whether a step is one program or a loop over its stages.

One program reads and writes the state once in a step, and has few kernels. A long program is cut into several loops
(`_lanes/_xla_cpu/_pieces.py`) that pass values on, and its compile time grows: then one loop that all stages share is
faster. Timings behind the limits: docs/performance.md#whole-steps.
"""

from typing import Any

from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PIECE
from jaxhamel.simulate._solvers._runge_kutta import Tableau

# The most stages of a step that is one program (Dopri8 has 13).
AT_ONCE = 13
# With fewer lanes than this, methods with more than four stages loop over the stages.
FEW_LANES = 8
# The most loops of a step that is one program, with at least MANY lanes and with fewer.
MANY, MOST_LOOPS, MOST_LOOPS_OF_FEW = 512, 3, 4


def is_at_once(length: int, motion: Any, method: Tableau) -> bool:
    """Whether a step is one program; `length` is the number of operations of the motion's f."""
    stages, size = len(method.b), len(motion.y[0])
    if stages > (AT_ONCE if size >= FEW_LANES else 4):
        return False
    most = MOST_LOOPS if size >= MANY else MOST_LOOPS_OF_FEW
    return stages * length <= most * LONGEST_PIECE
