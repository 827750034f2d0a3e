"""Whether a step is one program, or goes a stage at a time.

One program reads and writes the state once in a step, and needs few kernels. A long one is several loops
(`_lanes._pieces`) with values handed from one to the next, and compiles as many times as long: there a stage at a time,
the same loop for all of them, is faster.

Rolling ball, RK4, 1,024 lanes, trajectory-steps/s at once and by stages, and seconds of CPU for the first call: 5 masses
2.1e7 and 1.3e7 (1.6 and 1.2 s), 10 masses 1.7e7 and 1.2e7 (2.5 and 1.2 s), 20 masses 4.3e6 and 8.1e6 (9.9 and 2.0 s); with
rails in any planes 5 masses 1.3e7 and 1.1e7, 10 masses 8.0e6 and 8.9e6, 20 masses 1.2e6 and 6.3e6. 128 lanes: 10 masses
8.0e6 and 5.6e6, 20 masses 2.4e6 and 3.6e6. Tsit5 with 10 masses 5.4e6 and 5.6e6 (4.2 and 1.3 s), Dopri8 with 3 masses 4.5e6
and 3.4e6 (medians of 9 runs on two quiet cores).
"""

from typing import Any

from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PIECE
from jaxhamel.simulate._runge_kutta import Tableau

# A step of so many stages is one program. Rolling ball with three masses, 1,024 lanes, µs a step at once and by stages:
# RK4 69 and 174, Tsit5 176 and 270, Dopri8 289 and 610 (one run each on two quiet cores).
AT_ONCE = 13
# With fewer lanes than this a step of more stages than RK4 has goes a stage at a time. Rolling ball with two masses, 25
# steps of Tsit5, ms at once and by stages: 0.38 and 0.20 with one lane, 0.39 and 0.27 with four, 0.43 and 1.02 with
# sixteen; RK4 is faster at once with one lane, too (3.9 and 5.5 µs a step).
FEW_LANES = 8
# A step of more loops than this goes a stage at a time, in so many lanes or in fewer.
MANY, MOST_LOOPS, MOST_LOOPS_OF_FEW = 512, 3, 4


def is_at_once(length: int, motion: Any, method: Tableau) -> bool:
    """Whether a step of the motion, whose f is so many operations, is one program."""
    stages, size = len(method.b), len(motion.y[0])
    if stages > (AT_ONCE if size >= FEW_LANES else 4):
        return False
    most = MOST_LOOPS if size >= MANY else MOST_LOOPS_OF_FEW
    return stages * length <= most * LONGEST_PIECE
