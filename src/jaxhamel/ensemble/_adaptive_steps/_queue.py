"""Runs trajectories of different lengths in a few lanes: when one ends, the next trajectory takes its lane.

All other trajectories wait in a queue. Each iteration of the inner loop is one step of all lanes. When enough lanes have
finished, their results are recorded and the next trajectories take these lanes. When the queue is empty and few lanes are
still busy, their trajectories become a new queue for fewer lanes. So the slowest trajectory delays no other. None of this
changes the numbers of a trajectory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxhamel._lanes._columns import Columns
from jaxhamel.ensemble._adaptive_steps._adaptive_step import ARRIVED, UNDER_WAY, AdaptiveLane

# Finished lanes are refilled in batches, once 1/WAITING of all lanes are done: a refill costs about a fifth of a step.
WAITING = 8


class Ends(NamedTuple):
    """The end of each trajectory: time, state, attempted and accepted steps, and status."""

    t: Float[Array, " B"]
    y: Columns
    tried: Int[Array, " B"]
    kept: Int[Array, " B"]
    stands: Int[Array, " B"]

    @classmethod
    def of(cls, lane: AdaptiveLane) -> "Ends":
        """The ends of finished lanes."""
        return cls(lane.t, lane.y, lane.tried, lane.kept, lane.stands)


class Queue(NamedTuple):
    """Waiting trajectories: their lanes, their own numbers and their indices. Only the first `many` entries are waiting."""

    lane: AdaptiveLane
    mine: PyTree[Array]
    whose: Int[Array, " n"]
    many: Int[Array, ""]


class Work(NamedTuple):
    """The lanes, busy or finished (unused lanes have `whose` = B), the number of trajectories taken, and the results."""

    lane: AdaptiveLane
    mine: PyTree[Array]
    whose: Int[Array, " W"]
    taken: Int[Array, ""]
    ends: Ends
    written: Any


# (lane, mine, whose, written) ↦ (lane, written), a step later
Step = Callable[[AdaptiveLane, Any, Int[Array, " W"], Any], tuple[AdaptiveLane, Any]]


def through_lanes(
    step: Step,
    first: AdaptiveLane,
    mine: PyTree[Array],
    written: Any,
    widths: tuple[tuple[int, int], ...],
) -> tuple[Ends, Any]:
    """Runs all trajectories from their initial lanes to their ends.

    `widths`: numbers of lanes, each with the number of busy lanes at which the next width takes over; 0 for the last.
    """
    size = len(first.t)
    queue = Queue(first, mine, jnp.arange(size), jnp.asarray(size))
    ends = Ends.of(first)
    for width, fewer in widths:
        queue, ends, written = _served(step, queue, ends, written, width, fewer)
    return ends, written


def _served(step: Step, queue: Queue, ends: Ends, written, width: int, fewer: int):
    """Runs the queue in `width` lanes until none waits and at most `fewer` lanes are busy; these form the new queue."""

    def goes_on(work: Work):
        return (work.taken < queue.many) | (_busy(work.lane) > fewer)

    def refilled_and_on(work: Work):
        work = _refilled(queue, work)
        waiting = work.taken < queue.many
        enough = jnp.where(waiting, width - max(width // WAITING, 1), fewer)

        def going(now):
            return _busy(now[0]) > enough

        def one(now):
            return step(now[0], work.mine, work.whose, now[1])

        lane, written = jax.lax.while_loop(going, one, (work.lane, work.written))
        return work._replace(lane=lane, written=written)

    work = jax.lax.while_loop(goes_on, refilled_and_on, _nobody(queue, ends, written, width))
    return _still_at_work(work), _noted(work), work.written


def _busy(lane: AdaptiveLane):
    return jnp.sum(lane.stands == UNDER_WAY)


def _nobody(queue: Queue, ends: Ends, written, width: int) -> Work:
    """Lanes that hold no trajectory yet."""

    def fill(x):
        return jnp.broadcast_to(x[:1], (width, *x.shape[1:]))

    lane, mine, whose = jax.tree.map(fill, (queue.lane, queue.mine, queue.whose))
    lane = lane._replace(stands=jnp.full_like(lane.stands, ARRIVED))
    return Work(
        lane, mine, jnp.full_like(whose, len(ends.t)), jnp.zeros_like(queue.many), ends, written
    )


def _noted(work: Work) -> Ends:
    """Records the ends of the finished lanes."""
    there = jnp.where(work.lane.stands == UNDER_WAY, len(work.ends.t), work.whose)

    def put(all_, now):
        return all_.at[there].set(now, mode="drop")

    return jax.tree.map(put, work.ends, Ends.of(work.lane))


def _refilled(queue: Queue, work: Work) -> Work:
    """Puts the next trajectories of the queue into the finished lanes."""
    ends, free = _noted(work), work.lane.stands != UNDER_WAY
    place = work.taken + jnp.cumsum(free, dtype=work.taken.dtype) - 1
    takes = free & (place < queue.many)
    place = jnp.where(takes, place, 0)
    fresh, now = tuple(queue[:3]), tuple(work[:3])
    lane, mine, whose = jax.tree.map(lambda a, b: jnp.where(takes, a[place], b), fresh, now)
    whose = jnp.where(free & ~takes, len(ends.t), whose)
    taken = work.taken + jnp.sum(takes, dtype=work.taken.dtype)
    return Work(lane, mine, whose, taken, ends, work.written)


def _still_at_work(work: Work) -> Queue:
    """The busy lanes as a queue."""
    order = jnp.argsort(work.lane.stands != UNDER_WAY)
    lane, mine, whose = jax.tree.map(lambda x: x[order], tuple(work[:3]))
    return Queue(lane, mine, whose, _busy(work.lane).astype(work.taken.dtype))
