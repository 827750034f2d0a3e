"""The functions of one Runge–Kutta step, which is compiled either as one program or as a loop over its stages.

One program reads and writes the state once in a step, and has few kernels. A long program is cut into several loops
(`_lanes/_xla_cpu/_pieces.py`) that pass values on, and takes longer to compile. Then a loop over the stages is faster, whose
body all stages share. The timings from which the limits follow: docs/performance.md#whole-steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp

from jaxhamel._lanes._derivatives._own_derivative import differentiated_as
from jaxhamel._lanes._divided._look_ups import MOST_LOOKED_UP
from jaxhamel._lanes._tracing import in_fusions
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._written_out import Written
from jaxhamel._lanes._xla_cpu._loop_fusion import LONGEST_FUSION
from jaxhamel._lanes._xla_cpu._one_kernel import SMALL_BATCH
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PIECE
from jaxhamel.ensemble._equal_steps._adjoint_groups import Steps, groups_of
from jaxhamel.ensemble._equal_steps._needed import Needed, entries_at
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion, written_rate
from jaxhamel.ensemble._members._parameters import MOST_VECTORS
from jaxhamel.ensemble._methods._group_steps import GroupMethod
from jaxhamel.simulate._solvers._runge_kutta import Tableau, incremented, looped, point_of, stages

_AXES = (None, None, 0, 0, None)  # of t, h, y, mine, shared

# A method with more stages than this always loops over its stages (Dopri8 has 13).
STEPS_AT_ONCE = 13
# With fewer lanes than this, methods with more than four stages loop over the stages.
FEW_LANES = 8
# The most loops of a step that is one program, with at least MANY lanes and with fewer.
MANY, MOST_LOOPS, MOST_LOOPS_OF_FEW = 512, 3, 4


def stepping(motion: SteppedMotion, method: Tableau | GroupMethod) -> Steps | Callable:
    """The functions of one step, forward and backward; for a method on groups only the step itself.

    A step is one program if that is short enough, else a loop over its stages. Forward mode is a loop over the stages, and
    reverse mode runs by groups of stages: the transpose of a whole step took more than 90 s to compile.
    """
    if not isinstance(method, Tableau):
        of_group = jax.jit(lanes(cast(Callable, motion.step), _AXES))  # traced once, for all loops
        return lambda *at: (of_group(*at),)
    motion = motion._replace(rate=jax.jit(motion.rate))
    found = written_rate(motion)
    length, needed = 0 if found is None else found.length, Needed.by(motion, found)
    arrays = found is not None and found.apart.operations > 0
    many = sum(x.size for x in jax.tree.leaves(motion.shared)) > MOST_VECTORS
    groups = groups_of(0 if arrays or many else length, method)  # by many numbers: one by one
    forms = _Forms(motion.rate, motion.unit, method, needed, groups)
    if not _is_one_program(found, length, motion, method):
        step, traced = forms.end_by_stages, forms.by_stages
    else:
        whole = lanes(lambda *at: forms.at_once(*at)[:1], _AXES)
        step = jax.jit(differentiated_as(whole, forms.end_by_stages))
        traced = jax.jit(lanes(forms.at_once, _AXES))
    return Steps(motion.rate, motion.unit, step, traced, needed, method, groups, arrays, length)


class _Forms(NamedTuple):
    """One step of a Runge–Kutta method, written in two forms.

    Its arguments are the time t, the step size h, the state y, the trajectory's own inputs `mine`, and `shared`, the
    inputs that all trajectories share.
    """

    rate: Callable
    unit: Callable
    method: Tableau
    needed: Needed
    groups: list[tuple[int, int]]

    def at_once(self, t, h, y, mine, shared) -> tuple:
        """The step of one trajectory with its stages written out; returns (y₁, z, stages) as `Steps.traced`."""
        points, slopes = stages(lambda t, y: self.rate(t, y, mine, shared), self.method, t, h, y)
        z = incremented(y, h, self.method.b, slopes)
        return self._traced(self.unit(z, shared), z, points)

    def by_stages(self, t, h, y, mine, shared) -> tuple:
        """The step of all lanes by a loop over its stages; returns (y₁, z, stages) as `Steps.traced`."""
        z, slopes = self._looped(t, h, y, mine, shared)
        rows = point_of(h, y, jnp.asarray(self.method.a, h.dtype), slopes)
        points = [tuple(x[i] for x in rows) for i in range(len(self.method.b))]
        return self._traced(lanes(self.unit, (0, None))(z, shared), z, points)

    def end_by_stages(self, *at) -> tuple:
        """The step of all lanes by a loop over its stages; returns (y₁,)."""
        return (tuple(lanes(self.unit, (0, None))(self._looped(*at)[0], at[-1])),)

    def _looped(self, t, h, y, mine, shared) -> tuple:
        """z and the slopes of the stages, by a loop over the stages."""

        def slope(t, y):
            return lanes(self.rate, (None, 0, 0, None))(t, y, mine, shared)

        return looped(slope, self.method, t, h, y)

    def _traced(self, y1, z, points) -> tuple:
        heads = [entries_at(points[i], self.needed.rate) for i, _ in self.groups[1:]]
        return tuple(y1), entries_at(z, self.needed.made), tuple(heads)


def _is_one_program(
    found: Written | None, length: int, motion: SteppedMotion, method: Tableau
) -> bool:
    """Whether a step is compiled as one program; `found`: f of the motion as scalar operations, `length` of them."""
    if found is None or len(method.b) * found.look_ups > MOST_LOOKED_UP:
        return False
    return is_at_once(length, motion, method) and not found.apart.operations


def is_at_once(length: int, motion: Any, method: Tableau) -> bool:
    """Whether a step is short enough for one program; `length` is the number of operations of the motion's f."""
    stages, size = len(method.b), len(motion.y[0])
    if stages > (STEPS_AT_ONCE if size >= FEW_LANES else 4):
        return False
    most = MOST_LOOPS if size >= MANY else MOST_LOOPS_OF_FEW
    longest = LONGEST_FUSION if in_fusions() and size > SMALL_BATCH else most * LONGEST_PIECE
    return stages * length <= longest
