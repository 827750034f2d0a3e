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
    """Trajectories, of which the first `many` wait for a lane.

    - `lane`: their progress; `mine`: each trajectory's own inputs; `whose`: their indices in the ensemble.
    """

    lane: AdaptiveLane
    mine: PyTree[Array]
    whose: Int[Array, " n"]
    many: Int[Array, ""]


class Work(NamedTuple):
    """The lanes and the results so far.

    - `lane`, `mine`, `whose`: as in `Queue`, for the trajectories in the lanes; B in `whose` marks an unused lane.
    - `taken`: the number of trajectories that were taken from the queue.
    - `ends`, `written`: the ends of the trajectories, and their states at interior output times.
    """

    lane: AdaptiveLane
    mine: PyTree[Array]
    whose: Int[Array, " W"]
    taken: Int[Array, ""]
    ends: Ends
    written: Any


# attempts a step in each lane: (lane, mine, whose, written) ↦ (lane, written)
Step = Callable[[AdaptiveLane, Any, Int[Array, " W"], Any], tuple[AdaptiveLane, Any]]


def through_lanes(
    step: Step,
    first: AdaptiveLane,
    mine: PyTree[Array],
    written: Any,
    widths: tuple[tuple[int, int], ...],
) -> tuple[Ends, Any]:
    """Runs all trajectories to their ends; returns these, and `written` with the states at interior output times.

    `widths`: pairs (lanes, busy): when at most `busy` lanes are busy, the next pair takes over; `busy` is 0 in the last one.
    """
    size = len(first.t)
    queue = Queue(first, mine, jnp.arange(size), jnp.asarray(size))
    ends = Ends.of(first)
    for width, fewer in widths:
        queue, ends, written = _run_in_lanes(step, queue, ends, written, width, fewer)
    return ends, written


def _run_in_lanes(step: Step, queue: Queue, ends: Ends, written, width: int, fewer: int):
    """Runs the queue in `width` lanes until no trajectory waits and at most `fewer` lanes are busy.

    Returns the queue of the trajectories in these lanes, the ends, and the states at interior output times.
    """

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

    work = jax.lax.while_loop(goes_on, refilled_and_on, _unused_lanes(queue, ends, written, width))
    return _busy_as_queue(work), _ends_with_finished(work), work.written


def _busy(lane: AdaptiveLane):
    return jnp.sum(lane.stands == UNDER_WAY)


def _unused_lanes(queue: Queue, ends: Ends, written, width: int) -> Work:
    """Lanes without trajectories: all are marked as finished and unused."""

    def fill(x):
        return jnp.broadcast_to(x[:1], (width, *x.shape[1:]))

    lane, mine, whose = jax.tree.map(fill, (queue.lane, queue.mine, queue.whose))
    lane = lane._replace(stands=jnp.full_like(lane.stands, ARRIVED))
    return Work(
        lane, mine, jnp.full_like(whose, len(ends.t)), jnp.zeros_like(queue.many), ends, written
    )


def _ends_with_finished(work: Work) -> Ends:
    """The ends of all trajectories, with those of the finished lanes added."""
    there = jnp.where(work.lane.stands == UNDER_WAY, len(work.ends.t), work.whose)

    def put(all_, now):
        return all_.at[there].set(now, mode="drop")

    return jax.tree.map(put, work.ends, Ends.of(work.lane))


def _refilled(queue: Queue, work: Work) -> Work:
    """Puts the next trajectories of the queue into the finished lanes."""
    ends, free = _ends_with_finished(work), work.lane.stands != UNDER_WAY
    place = work.taken + jnp.cumsum(free, dtype=work.taken.dtype) - 1
    takes = free & (place < queue.many)
    place = jnp.where(takes, place, 0)
    fresh, now = tuple(queue[:3]), tuple(work[:3])
    lane, mine, whose = jax.tree.map(lambda a, b: jnp.where(takes, a[place], b), fresh, now)
    whose = jnp.where(free & ~takes, len(ends.t), whose)
    taken = work.taken + jnp.sum(takes, dtype=work.taken.dtype)
    return Work(lane, mine, whose, taken, ends, work.written)


def _busy_as_queue(work: Work) -> Queue:
    """The busy lanes as a queue."""
    order = jnp.argsort(work.lane.stands != UNDER_WAY)
    lane, mine, whose = jax.tree.map(lambda x: x[order], tuple(work[:3]))
    return Queue(lane, mine, whose, _busy(work.lane).astype(work.taken.dtype))
