"""Equal steps of an explicit Runge–Kutta method in XLA's lanes.

    k_i = f(t + c_i h, y + h Σ_j a_ij k_j) ,     y₁ = N(y + h Σ_i b_i k_i)

One loop runs over the steps; a step is one program, or another loop over its stages. Reverse mode: `_adjoint_sweep`.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._lanes._nodes import Unsupported
from jaxhamel._lanes._own_derivative import differentiated_as
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._adjoint_sweep import Steps, path, with_adjoint
from jaxhamel.ensemble._at_once import is_at_once
from jaxhamel.ensemble._columns import Columns
from jaxhamel.ensemble._group_steps import GroupMethod
from jaxhamel.ensemble._kernel_options import Kernel
from jaxhamel.ensemble._pieces import in_pieces
from jaxhamel.ensemble._tableaus import Tableau
from jaxhamel.simulate._step_size import steps_in

_AXES = (None, None, 0, 0, None)  # of t, h, y, mine, shared


class Plan(NamedTuple):
    """All that decides which program is compiled."""

    method: Tableau | GroupMethod
    counts: tuple[int, ...]
    checkpoint: bool | None
    kernel: Kernel | None

    @classmethod
    def of(cls, ts, dt, method: Tableau | GroupMethod, checkpoint: bool | None, kernel) -> "Plan":
        """Checked; the times decide how many steps there are."""
        _checks.check_rollout_times(ts, dt)
        counts = tuple(steps_in(np.asarray(ts, float), float(dt)))
        return cls(method, counts, checkpoint, Kernel.chosen(kernel))


class Motion(NamedTuple):
    """Functions of one lane's numbers, (t, y, mine, shared) ↦ ẏ and (y, shared) ↦ N(y), and the columns of all lanes.

    A group method has a step of its own, (t, h, y, mine, shared) ↦ y₁.
    """

    rate: Callable
    unit: Callable
    y: Columns
    mine: Columns
    shared: Any  # a pytree of arrays
    step: Callable | None = None


def in_lanes(motion: Motion, ts: Float[Array, " T"], plan: Plan) -> list[Float[Array, "T B"]]:
    """By XLA."""
    y, rows = motion.y, [tuple(x[None] for x in motion.y)]
    checkpoint = _checkpoint(motion, plan)
    for count, part in neighbours(plan.counts):
        advance = advancing(motion, plan, count, checkpoint)
        y, path = jax.lax.scan(partial(_interval, advance), y, intervals(ts, part, count))
        rows.append(path)
    return [jnp.concatenate(each) for each in zip(*rows, strict=True)]


# Bytes of the states of all steps and of what is kept of their ends, up to which reverse mode does keep them unless told
# otherwise. Beyond it is no faster: 8,192 lanes of the ball with three masses, 85 MB, 1.67 ms a step both ways.
KEPT = 2**26


def _checkpoint(motion: Motion, plan: Plan) -> bool:
    """Whether reverse mode computes the states between `ts` again. Of group methods JAX would keep all values there are."""
    if plan.checkpoint is not None:
        return plan.checkpoint
    if not isinstance(plan.method, Tableau):
        return True
    columns = [*motion.y, *(motion.y[i] for i in _ends_that_matter(motion))]
    return sum(plan.counts) * sum(x.size * x.dtype.itemsize for x in columns) > KEPT


def neighbours(counts: tuple[int, ...]) -> Iterator[tuple[int, slice]]:
    """Neighbouring intervals of as many steps, which share a loop: the number of steps, which intervals."""
    first = 0
    for count, group in groupby(counts):
        last = first + len(list(group))
        yield count, slice(first, last)
        first = last


def intervals(ts: Float[Array, " T"], part: slice, count) -> tuple[Array, Array]:
    """Where each starts and how long its steps are."""
    start, end = ts[:-1][part], ts[1:][part]
    return start, (end - start) / count


def advancing(motion: Motion, plan: Plan, count: int, checkpoint: bool = True) -> Callable:
    """(y, start, h) ↦ the state `count` steps later.

    With `checkpoint` reverse mode keeps few states in between, else, of the steps of a tableau, that before each of them.
    """
    some = partial(_some, _stepping(motion, plan.method), checkpoint)
    advance = in_pieces(some, count, sum(plan.counts)) if checkpoint else some(count)
    return lambda y, start, h: advance(y, start, h, motion.mine, motion.shared)


def _some(step: Steps | Callable, checkpoint: bool, count: int) -> Callable:
    """(y, start, h, mine, shared) ↦ the state `count` steps later, with its reverse mode."""
    if isinstance(step, Steps):
        return with_adjoint(partial(_advance, step.step, count), step, count, not checkpoint)
    advance = partial(_advance, step, count)
    return jax.checkpoint(advance) if checkpoint else advance


def _interval(advance: Callable, y: Columns, at: tuple[Array, Array]) -> tuple[Columns, Columns]:
    end = advance(y, *at)
    return end, end


def _advance(step: Callable, count: int, *at) -> Columns:
    """`count` steps of size h from (y, start, h, mine, shared)."""
    return path(step, count, *at)[0]


def _stepping(motion: Motion, method: Tableau | GroupMethod) -> Steps | Callable:
    """What one step is made of, forward and backward; of a method on groups the step itself.

    A step is one program where that is small enough, else a stage at a time. Derivatives go a stage at a time, too: the
    whole step backward, a program of six thousand operations, compiled for more than 90 s.
    """
    if not isinstance(method, Tableau):
        of_group = lanes(cast(Callable, motion.step), _AXES)
        return lambda *at: (of_group(*at),)
    rate, unit = jax.jit(motion.rate), motion.unit
    ends = _ends_that_matter(motion)
    some = lambda z: tuple(z[i] for i in ends)  # noqa: E731

    def written_out(t, h, y, mine, shared):
        return _written_out(lambda t, y: rate(t, y, mine, shared), method, t, h, y)

    def one_step(t, h, y, mine, shared):
        z = written_out(t, h, y, mine, shared)[1]
        return unit(z, shared), some(z)

    def in_turn(run, t, h, y, mine, shared):
        slope = lambda t, y: lanes(rate, (None, 0, 0, None))(t, y, mine, shared)  # noqa: E731
        return run(slope, method, t, h, y)

    def by_stages(*at):
        z = in_turn(_chained, *at) if method.chained else in_turn(_full, *at)[1]
        return tuple(lanes(unit, (0, None))(z, at[-1])), some(z)

    if not is_at_once(rate, motion, method):
        return Steps(motion.rate, unit, lambda *at: in_turn(_full, *at)[0], by_stages, ends, method)
    step = differentiated_as(lanes(one_step, _AXES), by_stages)
    stages = lanes(lambda *at: written_out(*at)[0], _AXES)
    return Steps(motion.rate, unit, stages, step, ends, method)


def _ends_that_matter(motion: Motion) -> list[int]:
    """The numbers of z on which N′ may depend: those of which N makes others (of a quaternion all four)."""
    y = [jax.ShapeDtypeStruct((), x.dtype) for x in motion.y]
    closed = jax.make_jaxpr(motion.unit)(y, motion.shared)
    try:
        program = scalarise(closed, [True] * len(y) + [False] * (len(closed.in_avals) - len(y)))
    except Unsupported:
        return list(range(len(y)))
    numbers = [int(x) for x in program.inputs[: len(y)]]
    made = [int(x) for x, number in zip(program.outputs, numbers, strict=True) if x != number]
    used = set(program.graph.needed(made))
    return [i for i, number in enumerate(numbers) if number in used]


def _written_out(slope: Callable, method: Tableau, t, h, y: Columns):
    """One stage after the other, for one trajectory: the stages, and the end."""
    slopes: list[Columns] = []
    stages: list[Columns] = []

    def along(weights):
        used = [(w, k) for w, k in zip(weights, slopes, strict=False) if w]
        rates = (sum(h.dtype.type(w) * k[i] for w, k in used) for i in range(len(y)))
        return tuple(x + h * rate for x, rate in zip(y, rates, strict=True)) if used else y

    for row, c in zip(method.a, method.c, strict=True):
        stages.append(along(row))
        slopes.append(slope(t + h.dtype.type(c) * h, stages[-1]))
    return stages, along(method.b)


def _chained(slope: Callable, method: Tableau, t, h, y: Columns) -> Columns:
    """Stages that need only the one before: two vectors for each number of the state."""
    ahead = [*(row[i] for i, row in enumerate(method.a[1:])), 0.0]

    def stage(carry, numbers):
        here, total = carry
        ahead, b, c = numbers
        k = slope(t + c * h, here)
        here = tuple(x + (ahead * h) * k for x, k in zip(y, k, strict=True))
        return (here, tuple(s + (b * h) * k for s, k in zip(total, k, strict=True))), None

    numbers = tuple(jnp.asarray(x, y[0].dtype) for x in (ahead, method.b, method.c))
    return jax.lax.scan(stage, (y, y), numbers)[0][1]


def _full(slope: Callable, method: Tableau, t, h, y: Columns):
    """All slopes so far are kept, `(s, B)` for each number of the state; the stages, and the end."""
    a, b, c = (jnp.asarray(x, y[0].dtype) for x in method)
    stages = len(method.b)

    def along(weights, slopes):
        sums = (jnp.tensordot(weights, k, 1) for k in slopes)
        return tuple(jnp.broadcast_to(x, s.shape) + h * s for x, s in zip(y, sums, strict=True))

    def stage(slopes, numbers):
        i, weights, c = numbers
        k = slope(t + c * h, along(weights, slopes))
        return tuple(all_k.at[i].set(k) for all_k, k in zip(slopes, k, strict=True)), None

    slopes = tuple(jnp.zeros((stages, *x.shape), x.dtype) for x in y)
    slopes, _ = jax.lax.scan(stage, slopes, (jnp.arange(stages), a, c))
    found = along(a, slopes)
    return [tuple(x[i] for x in found) for i in range(stages)], along(b, slopes)
