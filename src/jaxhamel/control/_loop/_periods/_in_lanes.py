"""An ensemble of closed loops in lanes.

Between two samples each number of a loop's state is a vector with one entry for each trajectory: reading it from an array of
states and writing it back in each period takes as long as a short motion (docs/performance.md#closed-loops).
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from jaxhamel._lanes._columns import ColumnLayout, Columns, spare_lanes, widened
from jaxhamel._lanes._transform import lanes
from jaxhamel.control._loop._periods._period import (
    Periods,
    after_period,
    begun,
    decided,
    noise_of,
    sampled_at,
    trajectory_of,
)
from jaxhamel.simulate import Trajectory


class Lane(eqx.Module):
    """The arguments of a closed loop, put together from the numbers of one trajectory and what all share.

    `own`: the layout of the arrays of each trajectory; `shared`: the other arrays, None in the place of one's own.
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
        """System, initial state and controller of a trajectory with these numbers."""
        own = iter(self.own.entries(mine))
        leaves = [next(own) if x is None else x for x in self.shared]
        return eqx.combine(jax.tree.unflatten(self.structure, leaves), self.others)


def in_lanes(arrays: Any, others: Any, shared: tuple, plan: Periods) -> Trajectory:
    """The motions of all trajectories; `shared`: the law where it is a table over time, t₀ and the key of the noise."""
    t0, (lane, own) = shared[1], Lane.of(arrays, others, plan.axes or ())
    spread = partial(jax.vmap, axis_size=plan.batch)
    of_all = lambda f, *axes: spread(lambda own, *at: f(lane.parts(own), *at), (0, *axes))  # noqa: E731
    first = of_all(lambda parts: begun(parts, t0.dtype, plan))(own)
    loop, state = ColumnLayout.of(first), ColumnLayout.of((first.q, first.u))
    start = loop.columns(first)
    # numbers of noise take longer in columns that are widened
    more = 0 if plan.width[1] else spare_lanes(start)
    given = lane, loop, shared, plan
    rows, last = _run(*given, widened(own, more), widened(start, more), state.size)
    states, applied = ([x[:, : plan.batch].T for x in part] for part in rows)
    q, u = state.entries(states)
    memory = loop.entries(x[: plan.batch] for x in last).memory
    end = lambda parts, rows, memory: trajectory_of(parts, t0, rows, memory, plan)  # noqa: E731
    return of_all(end, 0, 0)(own, (q, u, jnp.stack(applied, axis=-1)), memory)


def _run(
    lane: Lane,
    loop: ColumnLayout,
    shared: tuple,
    plan: Periods,
    own: Columns,
    start: Columns,
    moving: int,
):
    """The columns of q and u at all samples, those of the commands, and those of the loops at the end."""
    controller = lane.parts(own)[3]

    def turn(columns, k):
        law = sampled_at(lane.parts(own), shared, k)
        at, fixed = eqx.partition(law, eqx.is_array)
        noise = noise_of(shared[2], k, shared[1].dtype, plan)
        columns, applied = of_lanes(at, fixed, columns, None if noise is None else tuple(noise))
        return columns, (columns[:moving], applied)

    def of_lanes(at, fixed, columns, noise):
        law = eqx.combine(at, fixed)[2]
        estimates = getattr(controller.estimator, "in_lanes", True)
        in_lanes = estimates and getattr(controller.law if law is None else law, "in_lanes", True)
        decide, move = (partial(f, lane, loop, fixed) for f in (_decided, partial(_moved, plan)))
        if in_lanes and controller.sensors is None:
            return lanes(partial(_both, decide, move), _AXES)(own, columns, at, noise)
        columns, applied = (lanes if in_lanes else jax.vmap)(decide, _AXES)(own, columns, at, noise)
        return (lanes if estimates else jax.vmap)(move, _AXES)(own, columns, at, applied), applied

    found: Any = jax.lax.scan(turn, start, jnp.arange(plan.samples))
    last, (rows, applied) = found
    pairs = zip(start[:moving], rows, strict=True)
    return ([jnp.concatenate([x[None], later]) for x, later in pairs], applied), last


# of own numbers, a loop's numbers, what all share at a sample, noise or commands
_AXES = (0, 0, None, 0)


def _decided(
    lane: Lane,
    loop: ColumnLayout,
    fixed: Any,
    own: Columns,
    columns: Columns,
    at: Any,
    noise: Columns | None,
):
    """The numbers of one loop after a sample, and its commands."""
    at = (*eqx.combine(at, fixed), None if noise is None else jnp.stack(noise))
    found, applied = decided(lane.parts(own), loop.entries(columns), at)
    return loop.numbers(found), tuple(applied)


def _moved(
    plan: Periods, lane: Lane, loop: ColumnLayout, fixed: Any, own: Columns, columns: Columns, at: Any, applied: Columns
):  # fmt: skip
    """The numbers of one loop a period after a sample."""
    at, command = eqx.combine(at, fixed)[:2], jnp.stack(applied)
    return loop.numbers(after_period(lane.parts(own), loop.entries(columns), at, command, plan))


def _both(decide, move, own: Columns, columns: Columns, at: Any, noise: Columns | None):
    columns, applied = decide(own, columns, at, noise)
    return move(own, columns, at, applied), applied
