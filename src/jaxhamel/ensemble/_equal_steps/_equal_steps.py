"""Integrates an ensemble by equal steps of an explicit Runge–Kutta method, in XLA's lanes.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j) ,     y₁ = N(y + h Σ_i b_i k_i)

N maps the end of a step onto the configuration space. One loop runs over the steps; a step is one program, or another loop
over its stages. Reverse mode: `_adjoint_sweep`.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._columns import Columns
from jaxhamel.ensemble._checks._members import check_rollout_times
from jaxhamel.ensemble._equal_steps._adjoint_groups import Steps
from jaxhamel.ensemble._equal_steps._adjoint_sweep import advanced, with_adjoint
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._equal_steps._step_forms import stepping
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion, in_numbers
from jaxhamel.ensemble._methods._group_steps import GroupMethod
from jaxhamel.simulate._solvers._runge_kutta import Tableau
from jaxhamel.simulate._step_size import steps_in


class Plan(NamedTuple):
    """The static arguments of an integration with equal steps; each combination of their values has a program of its own.

    - `counts`: the number of steps in each interval of `ts`; `checkpoint`, `kernel`: as for `rollout`.
    """

    method: Tableau | GroupMethod
    counts: tuple[int, ...]
    checkpoint: bool | None
    kernel: Kernel | None

    @classmethod
    def of(cls, ts, dt, method: Tableau | GroupMethod, checkpoint: bool | None, kernel) -> "Plan":
        """Checks the arguments; the times decide the number of steps."""
        check_rollout_times(ts, dt)
        counts = tuple(steps_in(np.asarray(ts, float), float(dt)))
        return cls(method, counts, checkpoint, Kernel.chosen(kernel))


def in_lanes(
    motion: SteppedMotion, ts: Float[Array, " T"], plan: Plan, size: int | None = None
) -> list[Float[Array, "T B"]]:
    """Integrates a motion; returns its states at `ts`, one array `(T, B)` for each number of a state.

    `size`: the number of lanes of the whole ensemble, of which this motion may be a part.
    """
    motion = in_numbers(motion)
    y, rows = motion.y, [tuple(x[None] for x in motion.y)]
    step = stepping(motion, plan.method)
    checkpoint = _checkpoint(step, motion, plan, size or motion.y[0].size)
    for count, part in neighbours(plan.counts):
        at = intervals(ts, part, count)
        if isinstance(step, Steps) and not checkpoint:
            path = with_adjoint(step, count, True)(y, *at, motion.mine, motion.shared)
            y = tuple(x[-1] for x in path)
        else:
            several = _advancing(step, motion, plan, count, checkpoint)
            y, path = jax.lax.scan(partial(_interval, several), y, at)
        rows.append(path)
    return [jnp.concatenate(each) for each in zip(*rows, strict=True)]


# Without `checkpoint`, reverse mode stores the needed numbers of all steps if they take at most this many bytes.
KEPT_BYTES = 2**26


def _checkpoint(step: Steps | Callable, motion: SteppedMotion, plan: Plan, size: int) -> bool:
    """Whether reverse mode recomputes the states between `ts`; for group methods it does, unless `plan` says otherwise.

    JAX would store all intermediate values of their steps.
    """
    if plan.checkpoint is not None:
        return plan.checkpoint
    if not isinstance(step, Steps):
        return True
    many = len(step.needed.kept) + (len(step.groups) - 1) * len(step.needed.rate)
    return sum(plan.counts) * many * size * motion.y[0].dtype.itemsize > KEPT_BYTES


def neighbours(counts: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
    """Groups neighbouring intervals with the same number of steps, which share a loop: (steps, slice of intervals)."""
    first = 0
    for count, group in groupby(counts):
        last = first + len(list(group))
        yield count, slice(first, last)
        first = last


def intervals(ts: Float[Array, " T"], part: slice, count) -> tuple[Array, Array]:
    """The start of each interval and the length of its steps."""
    start, end = ts[:-1][part], ts[1:][part]
    return start, (end - start) / count


def advancing(motion: SteppedMotion, plan: Plan, count: int) -> Callable:
    """A function (y, start, h) ↦ the state `count` steps later, whose reverse mode stores few states in between."""
    return _advancing(stepping(motion, plan.method), motion, plan, count, True)


def _advancing(
    step: Steps | Callable, motion: SteppedMotion, plan: Plan, count: int, checkpoint: bool
):
    """As `advancing`, with or without checkpoints.

    Without them, reverse mode of an explicit Runge–Kutta method stores the required entries of each step.
    """
    several = partial(_several_steps, step, checkpoint)
    several_steps = in_pieces(several, count, sum(plan.counts)) if checkpoint else several(count)
    return lambda y, start, h: several_steps(y, start, h, motion.mine, motion.shared)


def _several_steps(step: Steps | Callable, checkpoint: bool, count: int) -> Callable:
    """A function (y, start, h, mine, shared) ↦ the state `count` steps later, with its reverse mode."""
    mine = isinstance(step, Steps)
    run = with_adjoint(step, count, not checkpoint) if mine else partial(advanced, step, count)

    def several_steps(y, start, h, *more):
        return tuple(x[0] for x in run(y, start[None], h[None], *more))

    return jax.checkpoint(several_steps) if checkpoint and not mine else several_steps


def _interval(
    several_steps: Callable, y: Columns, at: tuple[Array, Array]
) -> tuple[Columns, Columns]:
    end = several_steps(y, *at)
    return end, end


# Divides a long interval of equal steps into pieces, so that reverse mode stores √n states instead of n.
#
# The forward pass stores the first state of each piece. The backward pass recomputes one piece at a time, whose states are
# in memory only then (checkpointing with two levels: Griewank, Optimization Methods and Software 1, 1992).


# An interval of up to this many steps is not divided: little memory is saved, and nested loops take longer to compile.
UNDIVIDED = 32


def in_pieces(advancing: Callable[[int], Callable], count: int, total: int) -> Callable:
    """A function (y, start, h, …) ↦ y after `count` steps of size h, which runs piece by piece.

    `advancing(n)` is such a function for n steps; `total` is the number of steps in all intervals.
    """
    length, rest = lengths(count, total)
    if length == count:
        return advancing(count)
    piece, last = advancing(length), advancing(rest) if rest else None

    def several_steps(y, start, h, *more):
        starts = start + h * (length * jnp.arange(count // length)).astype(h.dtype)
        y, _ = jax.lax.scan(lambda y, t: (tuple(piece(y, t, h, *more)), None), tuple(y), starts)
        if last is None:
            return y
        return last(y, start + h * h.dtype.type(count - rest), h, *more)

    return several_steps


def lengths(count: int, total: int) -> tuple[int, int]:
    """The number of steps in each piece, and in a shorter last piece (0: there is none).

    A piece has about √total steps, if possible a divisor of `count`. Since the first state of each interval is stored
    anyway, intervals of at most √total steps are not divided.
    """
    root = math.sqrt(total)
    if count <= max(UNDIVIDED, root):
        return count, 0
    near = [n for n in range(math.ceil(root / 2), int(2 * root) + 1) if count % n == 0]
    best = min(near, key=lambda n: abs(math.log(n / root)), default=round(root))
    return best, count % best
