"""An ensemble of closed loops in lanes.

Between two samples each number of a loop's state is a vector with one entry for each trajectory: reading it from an array of
states and writing it back in each period takes as long as a short motion (docs/performance.md#closed-loops).
"""

from functools import partial
from operator import itemgetter
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._columns import ColumnLayout, Columns, spare_lanes, widened
from jaxhamel._lanes._described import is_described
from jaxhamel._lanes._transform import lanes
from jaxhamel.control._loop._periods._noise import noise_in
from jaxhamel.control._loop._periods._period import (
    Periods,
    begun,
    decided,
    sampled_at,
    through_period,
    trajectory_of,
)
from jaxhamel.control._loop._periods._reverse_mode import Motion, differentiable
from jaxhamel.simulate import Trajectory


class Lane(eqx.Module):
    """The arguments of a closed loop, put together from one trajectory's own numbers and the arrays that all share.

    `own`: the layout of a trajectory's own arrays; `shared`: all arrays, with None in the place of a trajectory's own.
    """

    own: ColumnLayout
    shared: list[Any]
    structure: Any = eqx.field(static=True)
    others: Any = eqx.field(static=True)

    @classmethod
    def of(cls, arrays: Any, others: Any, axes: tuple[int | None, ...]) -> tuple["Lane", Columns]:
        """A lane, and the columns of the trajectories' own numbers."""
        leaves, structure = jax.tree.flatten(arrays)
        pairs = list(zip(leaves, axes, strict=True))
        own = [jnp.moveaxis(x, axis, 0) for x, axis in pairs if axis is not None]
        layout = ColumnLayout.of(own)
        shared = [x if axis is None else None for x, axis in pairs]
        return cls(layout, shared, structure, others), layout.columns(own)

    def parts(self, mine: Columns) -> tuple[Any, ...]:
        """System, initial state and controller of the trajectory whose own numbers are `mine`."""
        own = iter(self.own.entries(mine))
        leaves = [next(own) if x is None else x for x in self.shared]
        return eqx.combine(jax.tree.unflatten(self.structure, leaves), self.others)


# An ensemble runs in blocks of at most this many lanes: their states at all samples, their commands and the numbers that
# the loops of a period pass on stay in the cache (docs/performance.md#closed-loops).
BLOCK = 256


def in_lanes(
    arrays: Any, others: Any, shared: tuple, words: Array | None, plan: Periods
) -> Trajectory:
    """The motions of all trajectories.

    **Arguments:** `shared`: (the law if it is a table over time, otherwise None; t₀); `words`: the keys of the noise at all
    samples.
    """
    lane, own = Lane.of(arrays, others, plan.axes or ())
    size = cast(int, plan.batch)
    columns = *own, jnp.arange(size, dtype=jnp.uint32)

    def of_block(block: Columns) -> Trajectory:
        *numbers, index = block
        return _of_block(lane, shared, words, plan, tuple(numbers), index)

    count = _blocks(size)
    if count == 1:
        return of_block(columns)
    block = -(-size // count)
    cut = [jnp.reshape(x, (count, block)) for x in widened(columns, count * block - size)]
    found = jax.lax.map(of_block, tuple(cut))
    return jax.tree.map(lambda x: jnp.reshape(x, (count * block, *x.shape[2:]))[:size], found)


def _blocks(size: int) -> int:
    """The number of blocks; 1 with several devices, because the axis may be sharded, and on other devices than a CPU."""
    alone = jax.device_count() == 1 and jax.default_backend() == "cpu" and not is_described()
    return -(-size // BLOCK) if alone else 1


def _of_block(
    lane: Lane, shared: tuple, words: Array | None, plan: Periods, own: Columns, index: Array
) -> Trajectory:
    """The motions of one block of trajectories, from their own numbers and their indices in the ensemble."""
    t0, size = shared[1], len(index)
    spread = partial(jax.vmap, axis_size=size)
    first = spread(lambda own: begun(lane.parts(own), t0.dtype, plan))(own)
    loop, state = ColumnLayout.of(first), ColumnLayout.of((first.q, first.u))
    start = loop.columns(first)
    more = spare_lanes(start)
    given = widened(own, more), widened((index,), more)[0], widened(start, more)
    rows, last = _run(lane, loop, state, shared, words, plan, *given)
    states, applied = (tuple(x[:, :size] for x in part) for part in rows)
    memory = loop.entries(x[:size] for x in last).memory

    def end(own, states, applied, memory):
        q, u = state.entries(states)
        return trajectory_of(lane.parts(own), t0, (q, u, jnp.stack(applied, -1)), memory, plan)

    return spread(end, (0, 1, 1, 0))(own, states, applied, memory)


def _run(
    lane: Lane,
    loop: ColumnLayout,
    state: ColumnLayout,
    shared: tuple,
    words: Array | None,
    plan: Periods,
    own: Columns,
    index: Array,
    start: Columns,
):
    """((columns of q and u at all samples, columns of the commands), columns of the loops after the last period)."""
    controller, dtype = lane.parts(own)[3], shared[1].dtype

    def turn(columns, given):
        k, words = given
        at, fixed = eqx.partition((lane, *sampled_at(lane.parts(own), shared, k)), eqx.is_array)
        columns, applied = of_lanes(at, fixed, columns, _noise(words, index, dtype, plan))
        return columns, (columns[: state.size], applied)

    def of_lanes(at, fixed, columns, noise):
        law = eqx.combine(at, fixed)[3]
        estimates = getattr(controller.estimator, "in_lanes", True)
        in_lanes = estimates and getattr(controller.law if law is None else law, "in_lanes", True)
        decide, move = (partial(f, loop, fixed) for f in (_decided, partial(_moved, plan)))
        decide_all = (lanes if in_lanes else jax.vmap)(decide, _AXES)
        move_all = (lanes if estimates else jax.vmap)(move, _AXES)
        period = partial(_in_turn, decide_all, move_all)
        if in_lanes and controller.estimator is None:
            period = lanes(partial(_in_turn, decide, move), _AXES)
        if controller.estimator is None:
            motion = Motion(state, fixed, plan)
            return differentiable(motion, decide_all, period)(own, columns, at, noise)
        return period(own, columns, at, noise)[0]

    found: Any = jax.lax.scan(turn, start, (jnp.arange(plan.samples), words))
    last, (rows, applied) = found
    pairs = zip(start[: state.size], rows, strict=True)
    return ([jnp.concatenate([x[None], later]) for x, later in pairs], applied), last


def _noise(words: Array | None, index: Array, dtype, plan: Periods) -> Columns | None:
    """The noise of all lanes in one sample, one column for each measured number."""
    if plan.width[1] == 0:
        return None

    def of_one(words, trajectory):
        return tuple(noise_in(words, trajectory, plan.width[1], dtype))

    return lanes(of_one, (None, 0))(words, index)


# lane axes of (a trajectory's own numbers, a loop's numbers, the values that all share at a sample, noise or commands)
_AXES = (0, 0, None, 0)


def _decided(
    loop: ColumnLayout,
    fixed: Any,
    own: Columns,
    columns: Columns,
    at: Any,
    noise: Columns | None,
):
    """The numbers of one loop after a sample, and its commands."""
    lane, *at = eqx.combine(at, fixed)
    at = (*at, None if noise is None else jnp.stack(noise))
    found, applied = decided(lane.parts(own), loop.entries(columns), at)
    return loop.numbers(found), tuple(applied)


def _moved(
    plan: Periods, loop: ColumnLayout, fixed: Any, own: Columns, columns: Columns, at: Any, applied: Columns
):  # fmt: skip
    """(the numbers of one loop a period after a sample, those of its states before all steps but the first)."""
    lane, *at = eqx.combine(at, fixed)[:3]
    command = jnp.stack(applied)
    end, before = through_period(lane.parts(own), loop.entries(columns), at, command, plan)
    each = (jax.tree.map(itemgetter(i), before) for i in range(plan.steps - 1))
    return loop.numbers(end), tuple(map(loop.numbers, each))


def _in_turn(decide, move, own: Columns, columns: Columns, at: Any, noise: Columns | None):
    """((the numbers of loops after a sample and the period that follows it, the commands), `move`'s second result)."""
    columns, applied = decide(own, columns, at, noise)
    end, before = move(own, columns, at, applied)
    return (end, applied), before
