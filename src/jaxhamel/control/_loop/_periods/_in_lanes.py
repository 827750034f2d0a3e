"""Runs an ensemble of closed loops in lanes.

From one period to the next, the states of all loops stay columns: one vector for each number, with one entry for each
trajectory. To read the columns from an array of states and write them back would take as long, in each period, as a short
motion (docs/performance.md#closed-loops).
"""

from functools import partial
from operator import itemgetter
from typing import Any, cast

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._columns import ColumnLayout, Columns, spare_lanes, widened
from jaxhamel._lanes._tracing import is_described
from jaxhamel._lanes._transform import lanes
from jaxhamel._lanes._xla_cpu._one_thread import on_one_thread
from jaxhamel.control._loop._periods._law_at_samples import LawAtSamples
from jaxhamel.control._loop._periods._noise import noise_in
from jaxhamel.control._loop._periods._period import (
    Periods,
    decided,
    first_loop,
    through_period,
    time_of_law,
    trajectory_of,
)
from jaxhamel.control._loop._periods._reverse_mode import Motion, differentiable
from jaxhamel.simulate import Trajectory


class Lane(eqx.Module):
    """Puts the arguments of one closed loop together, from the trajectory's own numbers and the arrays that all share.

    - `own`: the layout of a trajectory's own arrays; `shared`: the other arrays, with None in the places of the own ones.
    - `structure`: the pytree of all arrays; `others`: the leaves that are no arrays.
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


# The largest number of lanes that run together. Of this many, the states at all samples, the commands and the intermediate
# results of a period fit into the cache (docs/performance.md#closed-loops).
BLOCK = 256


def in_lanes(
    arrays: Any, others: Any, shared: tuple, keys: Array | None, plan: Periods
) -> Trajectory:
    """The motions of an ensemble of closed loops, computed in blocks of lanes.

    **Arguments:** `arrays`, `others`: the arguments of the loops, arrays and all else; `shared`: (the law if it is a table
    over time, otherwise None; t₀); `keys`: the keys of the noise at all samples, or None.
    """
    lane, own = Lane.of(arrays, others, plan.axes or ())
    size = cast(int, plan.batch)
    columns = *own, jnp.arange(size, dtype=jnp.uint32)
    shared = _looked_up(lane.parts(own)[3], shared, plan), shared[1]

    def of_block(block: Columns) -> Trajectory:
        *numbers, index = block
        return _of_block(lane, shared, keys, plan, tuple(numbers), index)

    count = _blocks(size)
    if count == 1:
        return of_block(columns)
    block = -(-size // count)
    cut = [jnp.reshape(x, (count, block)) for x in widened(columns, count * block - size)]
    found = jax.lax.map(of_block, tuple(cut))
    return jax.tree.map(lambda x: jnp.reshape(x, (count * block, *x.shape[2:]))[:size], found)


def _looked_up(controller: Any, shared: tuple, plan: Periods) -> LawAtSamples | None:
    """Evaluates a law that is a table over time at the times of all samples. Returns None for any other law."""
    table, t0 = shared
    if table is None:
        return None
    samples = jnp.arange(plan.samples).astype(t0.dtype)
    return LawAtSamples.of(table.at, time_of_law(controller, t0, samples))


def _blocks(size: int) -> int:
    """The number of blocks: 1 on devices other than a CPU, and with several devices, because the axis may be sharded."""
    alone = jax.device_count() == 1 and jax.default_backend() == "cpu" and not is_described()
    return -(-size // BLOCK) if alone else 1


def _of_block(
    lane: Lane, shared: tuple, keys: Array | None, plan: Periods, own: Columns, index: Array
) -> Trajectory:
    """Computes the motions of one block of trajectories from its parameters and initial states and from their indices.

    `shared`: (the law at all samples, or None; t₀).
    """
    t0, size = shared[1], len(index)
    spread = partial(jax.vmap, axis_size=size)
    first = spread(lambda own: first_loop(lane.parts(own), t0.dtype, plan))(own)
    loop, state = ColumnLayout.of(first), ColumnLayout.of((first.q, first.u))
    start = loop.columns(first)
    more = spare_lanes(start)
    given = widened(own, more), widened((index,), more)[0], widened(start, more)

    motion = partial(_columns_of_motion, lane, loop, state, shared, keys, plan)
    if size < cast(int, plan.batch):
        motion = partial(on_one_thread, motion, start[0][0])
    rows, last = motion(*given)
    states, applied, errors = jax.tree.map(lambda x: x[:, :size], rows)
    memory = loop.entries(x[:size] for x in last).memory

    def end(own, states, applied, errors, memory):
        found = *state.entries(states), jnp.stack(applied, -1), errors
        return trajectory_of(lane.parts(own), t0, found, memory, plan)

    return spread(end, (0, 1, 1, 1, 0))(own, states, applied, errors, memory)


def _columns_of_motion(
    lane: Lane,
    loop: ColumnLayout,
    state: ColumnLayout,
    shared: tuple,
    keys: Array | None,
    plan: Periods,
    own: Columns,
    index: Array,
    start: Columns,
):
    """((columns of q and u at all samples, of the commands, of the estimates' errors or None), columns of the loops after
    the last period).

    `loop`, `state`: the layouts of a loop's numbers and of (q, u); `start`: the loops' columns before the first sample.
    """
    controller, (laws, t0) = lane.parts(own)[3], shared
    with_errors = loop.entries(start).error is not None

    def turn(columns, given):
        k, key, row = given
        law = None if laws is None else laws.at_sample(row)
        at, fixed = eqx.partition((lane, t0, k.astype(t0.dtype), law), eqx.is_array)
        columns, applied = after_period(at, fixed, columns, _noise(key, index, t0.dtype, plan))
        # the error is the last of a loop's numbers
        return columns, (columns[: state.size], applied, columns[-1] if with_errors else None)

    def after_period(at, fixed, columns, noise):
        law = _law(eqx.combine(at, fixed))
        estimates = getattr(controller.estimator, "in_lanes", True)
        in_lanes = estimates and getattr(controller.law if law is None else law, "in_lanes", True)
        decide, move = (partial(f, plan, loop, fixed) for f in (_decided, _through_period))
        motion = Motion.of(state, fixed, plan, own, columns, at)
        decide_all = (lanes if in_lanes else jax.vmap)(decide, _AXES)
        move_all = (lanes if estimates else jax.vmap)(move, _AXES)
        move_all = motion.through_steps if motion.reads_tables else move_all
        period = partial(_decided_and_moved, decide_all, move_all)
        if controller.estimator is not None:
            return period(own, columns, at, noise)[0]
        if in_lanes and not motion.reads_tables:
            period = lanes(partial(_decided_and_moved, decide, move), _AXES)
        return differentiable(motion, decide_all, period)(own, columns, at, noise)

    rows = None if laws is None else (laws.numbers, laws.large)
    found: Any = jax.lax.scan(turn, start, (jnp.arange(plan.samples), keys, rows))
    last, (rows, applied, errors) = found
    pairs = zip(start[: state.size], rows, strict=True)
    states = tuple(jnp.concatenate([x[None], later]) for x, later in pairs)
    return (states, tuple(applied), errors), last


def _noise(key: Array | None, index: Array, dtype, plan: Periods) -> Columns | None:
    """The noise of all lanes in one sample, one column for each measured number; None without sensors."""
    if plan.width[1] == 0:
        return None

    def of_one(key, trajectory):
        return tuple(noise_in(key, trajectory, plan.width[1], dtype))

    return lanes(of_one, (None, 0))(key, index)


# Lane axes of the four arguments of the functions below: a trajectory's own numbers, a loop's numbers, the values at a
# sample that all share, and noise or commands.
_AXES = (0, 0, None, 0)


def _decided(
    plan: Periods,
    loop: ColumnLayout,
    fixed: Any,
    own: Columns,
    columns: Columns,
    at: Any,
    noise: Columns | None,
):
    """(the numbers of one loop after a sample, the numbers of the command that then acts)."""
    lane, t0, k, _ = given = eqx.combine(at, fixed)
    at = t0, k, _law(given), None if noise is None else jnp.stack(noise)
    found, applied = decided(lane.parts(own), loop.entries(columns), at, plan)
    return loop.numbers(found), tuple(applied)


def _law(at: Any) -> Any:
    """Returns the law at sample k from `at` = (lane, t₀, k, that law in lanes); None if the law is not a table over time."""
    return None if at[3] is None else at[3].law()


def _through_period(
    plan: Periods, loop: ColumnLayout, fixed: Any, own: Columns, columns: Columns, at: Any, applied: Columns
):  # fmt: skip
    """(the numbers of one loop a period after a sample, those of its states before every step but the first)."""
    lane, *at = eqx.combine(at, fixed)[:3]
    command = jnp.stack(applied)
    end, before = through_period(lane.parts(own), loop.entries(columns), at, command, plan)
    each = (jax.tree.map(itemgetter(i), before) for i in range(plan.steps - 1))
    return loop.numbers(end), tuple(map(loop.numbers, each))


def _decided_and_moved(
    decide, move, own: Columns, columns: Columns, at: Any, noise: Columns | None
):
    """Calls `decide`, which evaluates the law at a sample, then `move`, which integrates the period after it.

    **Returns:** ((the numbers of the loops after the period, the commands), the states before every step but the first).
    """
    columns, applied = decide(own, columns, at, noise)
    end, before = move(own, columns, at, applied)
    return (end, applied), before
