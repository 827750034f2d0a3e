"""Many searches at once: side by side in each thread, or one after the other where they are few."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from jaxhamel._lanes._xla_cpu._jit import cores
from jaxhamel._search._stepwise import BURST_SECONDS
from jaxhamel.control._collocation._transcription import Transcription, along
from jaxhamel.control._interior_point._interior_point import LOGGED, STUCK, more_iterations
from jaxhamel.control._interior_point._state import SearchState, strong
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._many_starts._turns import (
    Searches,
    goes_on,
    lanes_of,
    searches_left,
    stored,
    take_turns,
)

STARTS_AT_ONCE = 32  # searches side by side on a core of a CPU (docs/performance.md#many-starts)
TURNS_AT_ONCE = 8  # turns in one call
FEW = 16  # once at most 1/FEW of the searches side by side are left, they go on one after the other
# On a CPU, up to this number of searches run one after the other: the turns would take longer to compile
# (docs/performance.md#many-starts).
FEW_SEARCHES = 32


class Budget(NamedTuple):
    """The largest number of iterations of a search, the value of `time.monotonic` at which all searches stop, and an event
    that Ctrl-C sets: they then stop after their turns, and what they have found is kept.

    `tell`: called about five times a second with the number of searches that have ended; None: nothing is called.
    """

    iterations: int
    until: float
    interrupted: threading.Event
    tell: Callable[[int], None] | None = None

    def is_over(self) -> bool:
        """Whether all searches stop."""
        return self.interrupted.is_set() or time.monotonic() > self.until


def are_solved(states: SearchState) -> Bool[np.ndarray, " S"]:
    """Which searches have converged."""
    return np.asarray(states.done) & np.isfinite(np.asarray(states.cost))


def are_few(count: int) -> bool:
    """Whether so few searches run one after the other."""
    return count <= FEW_SEARCHES and jax.default_backend() == "cpu"


def joined(states: list[SearchState]) -> SearchState:
    """The states of several groups of searches as one group."""
    return jax.tree.map(lambda *x: np.concatenate(x), *states)


def searched(
    transcriptions: Stacked, states: SearchState, tolerance: Array, budget: Budget
) -> SearchState:
    """The last states of many searches, which run side by side or, if they are few, one after the other."""
    if are_few(states.mu.shape[0]):
        return searched_one_by_one(transcriptions, states, tolerance, budget)
    return SideBySide(transcriptions, states, tolerance).run(budget)


def searched_one_by_one(
    transcriptions: Stacked, states: SearchState, tolerance: Array, budget: Budget
) -> SearchState:
    """The states after all searches have ended, each of which runs alone in one of the threads.

    `transcriptions`: those of all searches.
    """
    count, ended = states.mu.shape[0], []
    rows = [strong(along(states, k)) for k in range(count)]
    if not budget.is_over():  # compiles, in one thread
        more_iterations(transcriptions.at(0), rows[0], tolerance, jnp.asarray(0))

    def one(k: int, is_late: Callable[[], bool]) -> SearchState:
        given = transcriptions.at(k), rows[k], tolerance, budget.iterations
        state = _searched_alone(*given, is_late)
        ended.append(k)
        return state

    found = _in_threads(one, count, budget, lambda: len(ended))
    return jax.tree.map(lambda *x: jnp.stack(x), *found)


class SideBySide:
    """Searches that run side by side, with `vmap` and threads.

    On a CPU the searches are divided among threads, one for each core. A thread runs as many searches side by side as fit
    into the cache; where a search ends, the next one takes its lane. The last ones go on one after the other. On other
    devices all searches run side by side.

    `transcriptions`: those of all searches. `tries`: a thread stops when many of its searches have ended and most of these
    have not converged; the last ones stay side by side. `places`: the searches of each thread, by default in their order;
    only the first `active` of each thread run, by default all.
    """

    def __init__(
        self,
        transcriptions: Stacked,
        states: SearchState,
        tolerance: Array,
        tries: bool = False,
        places: Int[np.ndarray, "G k"] | None = None,
        active: int | None = None,
    ):
        self.tolerance = tolerance
        self.count = states.mu.shape[0]
        self.places = places = in_groups(self.count) if places is None else places
        self.active = places.shape[1] if active is None else active
        width, last = width_of(places.shape[1]), jnp.asarray(self.active)
        host = jax.tree.map(np.asarray, states)
        each = [along(host, group) for group in places]
        self.groups: list[Searches] = [lanes_of(group, width, last) for group in each]
        self.transcriptions = [transcriptions.rows(each) for each in places]
        self.tries, self.width = tries, width
        may_finish = not tries and jax.default_backend() == "cpu"
        self.few = width // FEW if may_finish else 0
        self.ended = [0] * len(places)  # searches of each group that have ended

    def run(self, budget: Budget) -> SearchState:
        """Runs all searches to their ends or to the limits of the budget, and returns their last states."""
        most = jnp.asarray(budget.iterations)
        if not budget.is_over():
            self._take_turns(0, most, count=0)  # compiles, in one thread

        def one(k: int, is_late: Callable[[], bool]) -> SearchState:
            return self._search(k, most, is_late)

        found = _in_threads(one, len(self.groups), budget, lambda: sum(self.ended))
        first = np.unique(self.places, return_index=True)[1]
        return along(joined(found), first)

    def _search(self, index: int, most: Array, is_late: Callable[[], bool]) -> SearchState:
        """Runs all searches of a group, and returns their last states."""
        while not is_late() and self._left(index, most) > self.few:
            self._take_turns(index, most)
            if self.tries and self._fails(stored(self.groups[index]), most):
                break
        group = stored(self.groups[index])
        return group.states if self.tries else self._finished(index, most, is_late)

    def _left(self, index: int, most: Array) -> int:
        """The number of searches of a group that go on."""
        left = int(searches_left(self.groups[index], most))
        self.ended[index] = self.active - left
        return left

    def _fails(self, group: Searches, most: Array) -> bool:
        """Whether at least as many searches of a group as run side by side have ended, and most of them in vain."""
        ended = ~np.asarray(goes_on(group.states, group.iterations, most))
        solved = are_solved(group.states)[ended]
        return len(solved) >= self.width and 2 * int(np.sum(solved)) < len(solved)

    def _take_turns(self, index: int, most: Array, count: int = TURNS_AT_ONCE) -> None:
        few, many = jnp.asarray(self.few), jnp.asarray(count)
        given = self.transcriptions[index], self.groups[index], self.tolerance
        self.groups[index] = jax.block_until_ready(take_turns(*given, most, few, many))

    def _finished(self, index: int, most: Array, is_late: Callable[[], bool]) -> SearchState:
        """Completes the last searches of a group, and returns the states of all its searches.

        They go on one after the other, since a few side by side take as long as many.
        """
        group = stored(self.groups[index])
        states = jax.tree.map(np.array, group.states)  # copies
        left = np.asarray(goes_on(states, group.iterations, most))
        for k in np.flatnonzero(left[: self.active]):
            if is_late():
                break
            given = strong(along(states, k)), self.tolerance, int(most - group.iterations[k])
            own = _searched_alone(self.transcriptions[index].at(k), *given, is_late)
            for array, x in zip(jax.tree.leaves(states), jax.tree.leaves(own), strict=True):
                array[k] = x
            self.ended[index] += 1
        return states


def _searched_alone(
    transcription: Transcription,
    state: SearchState,
    tolerance: Array,
    iterations: int,
    is_late: Callable[[], bool],
) -> SearchState:
    """The state of one search after at most `iterations` more iterations."""
    while iterations > 0 and not is_late() and not _is_over(state):
        many = jnp.asarray(min(iterations, LOGGED))
        state = more_iterations(transcription, state, tolerance, many)[0]
        iterations -= LOGGED
    return state


def _is_over(state: SearchState) -> bool:
    """Whether a search has converged, is stuck or has met NaN."""
    broken = bool(jnp.isnan(state.cost))
    return bool(state.done) or int(state.stuck) >= STUCK or broken


def _in_threads(
    one: Callable[[int, Callable[[], bool]], SearchState],
    count: int,
    budget: Budget,
    ended: Callable[[], int],
) -> list[SearchState]:
    """The results of `one`(k, is_late) for k = 0 … `count` − 1, computed in threads that stop when the budget is over.

    `ended`() is the number of searches that have ended so far.
    """
    failed = threading.Event()

    def is_late() -> bool:
        return failed.is_set() or budget.is_over()

    with ThreadPoolExecutor(_threads()) as pool:
        each = [pool.submit(one, k, is_late) for k in range(count)]
        try:
            while budget.tell is not None and wait(each, BURST_SECONDS).not_done:
                budget.tell(ended())
            return [future.result() for future in each]
        except KeyboardInterrupt:
            budget.interrupted.set()
            return [future.result() for future in each]
        finally:
            failed.set()


def in_groups(many: int) -> Int[np.ndarray, "G k"]:
    """The numbers of the searches in groups of equal size, one for each thread; the last one fills the last group."""
    count = min(_threads(), -(-many // STARTS_AT_ONCE))
    size = -(-many // count)
    return np.minimum(np.arange(count * size), many - 1).reshape(count, size)


def width_of(count: int) -> int:
    """The number of searches of a group that are side by side."""
    return min(count, STARTS_AT_ONCE) if jax.default_backend() == "cpu" else count


def _threads() -> int:
    """The number of threads: on a CPU one for each core, since a group's program uses one core; otherwise 1."""
    return cores() if jax.default_backend() == "cpu" else 1
