"""Trajectories of different lengths in a few lanes: one that has come to its end makes room for the next.

Some lanes work, all other trajectories wait. Every pass of the inner loop is one step of all lanes; when enough of them
have come to their ends, what they found is noted and the next trajectories are taken in. When none waits any more and few
are at work, these wait in their turn, for fewer lanes: the slowest trajectory holds nobody back, and costs little more
than itself. Nothing of this changes a trajectory's numbers.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxhamel.ensemble._adaptive_steps._adaptive_step import ARRIVED, UNDER_WAY, Lane
from jaxhamel.ensemble._members._columns import Columns

# A lane that has come to its end waits until a WAITING-th of all have: taking in takes a fifth of a step's time.
WAITING = 8


class Ends(NamedTuple):
    """Where each trajectory came to an end: time, state, steps tried and kept, and how it stands there."""

    t: Float[Array, " B"]
    y: Columns
    tried: Int[Array, " B"]
    kept: Int[Array, " B"]
    stands: Int[Array, " B"]

    @classmethod
    def of(cls, lane: Lane) -> "Ends":
        """Of lanes that have come to it."""
        return cls(lane.t, lane.y, lane.tried, lane.kept, lane.stands)


class Queue(NamedTuple):
    """Trajectories that wait: their lanes so far, what each carries along, which they are; the first `many` of them."""

    lane: Lane
    mine: PyTree[Array]
    whose: Int[Array, " n"]
    many: Int[Array, ""]


class Work(NamedTuple):
    """Lanes at work or done (of those nobody's, `whose` is B), how many of the queue they have taken, what is found."""

    lane: Lane
    mine: PyTree[Array]
    whose: Int[Array, " W"]
    taken: Int[Array, ""]
    ends: Ends
    written: Any


# (lane, mine, whose, written) ↦ (lane, written), a step later
Step = Callable[[Lane, Any, Int[Array, " W"], Any], tuple[Lane, Any]]


def through_lanes(
    step: Step, first: Lane, mine: PyTree[Array], written: Any, widths: tuple[tuple[int, int], ...]
) -> tuple[Ends, Any]:
    """All trajectories from their first lanes to their ends.

    `widths`: how many lanes work, and with how many of them still at work the next width takes over; 0 at last.
    """
    size = len(first.t)
    queue = Queue(first, mine, jnp.arange(size), jnp.asarray(size))
    ends = Ends.of(first)
    for width, fewer in widths:
        queue, ends, written = _served(step, queue, ends, written, width, fewer)
    return ends, written


def _served(step: Step, queue: Queue, ends: Ends, written, width: int, fewer: int):
    """The queue in so many lanes, until nobody waits and no more than `fewer` are at work: these are the new queue."""

    def goes_on(work: Work):
        return (work.taken < queue.many) | (_busy(work.lane) > fewer)

    def refilled_and_on(work: Work):
        work = _refilled(queue, work)
        waiting = work.taken < queue.many
        enough = jnp.where(waiting, width - max(width // WAITING, 1), fewer)
        going = lambda now: _busy(now[0]) > enough  # noqa: E731
        one = lambda now: step(now[0], work.mine, work.whose, now[1])  # noqa: E731
        lane, written = jax.lax.while_loop(going, one, (work.lane, work.written))
        return work._replace(lane=lane, written=written)

    work = jax.lax.while_loop(goes_on, refilled_and_on, _nobody(queue, ends, written, width))
    return _still_at_work(work), _noted(work), work.written


def _busy(lane: Lane):
    return jnp.sum(lane.stands == UNDER_WAY)


def _nobody(queue: Queue, ends: Ends, written, width: int) -> Work:
    """Empty lanes."""
    fill = lambda x: jnp.broadcast_to(x[:1], (width, *x.shape[1:]))  # noqa: E731
    lane, mine, whose = jax.tree.map(fill, (queue.lane, queue.mine, queue.whose))
    lane = lane._replace(stands=jnp.full_like(lane.stands, ARRIVED))
    return Work(
        lane, mine, jnp.full_like(whose, len(ends.t)), jnp.zeros_like(queue.many), ends, written
    )


def _noted(work: Work) -> Ends:
    """With the ends of those that have come to them."""
    there = jnp.where(work.lane.stands == UNDER_WAY, len(work.ends.t), work.whose)
    put = lambda all_, now: all_.at[there].set(now, mode="drop")  # noqa: E731
    return jax.tree.map(put, work.ends, Ends.of(work.lane))


def _refilled(queue: Queue, work: Work) -> Work:
    """The next of the queue in the lanes of those that have come to their ends."""
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
    """Those at work as a queue."""
    order = jnp.argsort(work.lane.stands != UNDER_WAY)
    lane, mine, whose = jax.tree.map(lambda x: x[order], tuple(work[:3]))
    return Queue(lane, mine, whose, _busy(work.lane).astype(work.taken.dtype))
