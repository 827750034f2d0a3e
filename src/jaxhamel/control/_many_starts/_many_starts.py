"""Searches by collocation from many starts at once, with `vmap` and threads, and counts the distinct optima."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._compiled import compiled
from jaxhamel._cores import cores
from jaxhamel.control._collocation._new_start import started_with
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import LOGGED, STUCK, more_iterations
from jaxhamel.control._interior_point._state import SearchState, first_state, strong
from jaxhamel.control._many_starts._turns import (
    Searches,
    goes_on,
    lanes_of,
    searches_left,
    stored,
    take_turns,
)
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem

STARTS_AT_ONCE = 32  # searches side by side on a core of a CPU (docs/performance.md#many-starts)
TURNS_AT_ONCE = 8  # turns in one call
FEW = 16  # once at most 1/FEW of the searches side by side are left, they go on one after the other
SAME = 1e-6  # relative difference up to which two costs count as those of one optimum


class Optima(NamedTuple):
    """The distinct optima from many starts.

    `found`: (J, number of starts that led to it), by increasing J; `unconverged`: the number of starts without an optimum.
    """

    found: tuple[tuple[float, int], ...]
    unconverged: int

    @property
    def words(self) -> str:
        """The optima as one sentence."""
        parts = [f"{cost:.8g} ({count}×)" for cost, count in self.found]
        return f"optima from all starts: {', '.join(parts) or 'none'}; not converged: {self.unconverged}"


def optima_of(costs: Float[np.ndarray, " S"], converged: Bool[np.ndarray, " S"]) -> Optima:
    """The distinct optima among the costs of all searches.

    Costs that differ by at most `SAME` (1 + |J|) from the next lower one belong to the same optimum.
    """
    groups: list[list[float]] = []
    for cost in np.sort(costs[converged]).tolist():
        if groups and cost - groups[-1][-1] <= SAME * (1 + abs(cost)):
            groups[-1].append(cost)
        else:
            groups.append([cost])
    found = tuple((group[0], len(group)) for group in groups)
    return Optima(found, int(np.sum(~converged)))


class ManyStarts:
    """Searches from many starts; each row of `starts` has the free parameters of the problem's curve.

    On a CPU the starts are divided among threads, one for each core. A thread runs as many searches side by side as fit into
    the cache; where a search ends, the next start takes its lane. On other devices all searches run side by side.
    """

    def __init__(
        self,
        problem: ControlProblem,
        transcription: Transcription,
        starts: Float[Array, "S P"],
        barrier: Array,
        tolerance: Array,
    ):
        self.transcription, self.tolerance = transcription, tolerance
        self.count = len(starts)
        groups = _in_groups(starts)
        width = _width(len(groups[0]))
        self.groups: list[Searches] = [
            lanes_of(_first_states(transcription, problem, rows, barrier), width) for rows in groups
        ]
        self.states: SearchState  # of all starts, with a leading axis; after `run`
        self.few = width // FEW if jax.default_backend() == "cpu" else 0

    def run(self, iterations: int, until: float) -> None:
        """Iterates until all searches have ended, or `iterations` are made, or `time.monotonic` has passed `until`."""
        most, stopped = jnp.asarray(iterations), threading.Event()
        self._take_turns(0, most)  # compiles, in one thread

        def is_late():
            return stopped.is_set() or time.monotonic() > until

        with ThreadPoolExecutor(_threads()) as pool:
            try:
                groups = range(len(self.groups))
                each = [pool.submit(self._search, k, most, is_late) for k in groups]
                found = [future.result() for future in each]
            finally:
                stopped.set()
        self.states = jax.tree.map(lambda *x: jnp.concatenate(x)[: self.count], *found)

    def _search(self, index: int, most: Array, is_late: Callable[[], bool]) -> SearchState:
        """Runs all searches of a group, and returns their last states."""
        while not is_late() and int(searches_left(self.groups[index], most)) > self.few:
            self._take_turns(index, most)
        return self._finished(stored(self.groups[index]), most, is_late)

    def _take_turns(self, index: int, most: Array) -> None:
        few, many = jnp.asarray(self.few), jnp.asarray(TURNS_AT_ONCE)
        found = take_turns(self.transcription, self.groups[index], self.tolerance, most, few, many)
        self.groups[index] = jax.block_until_ready(found)

    def _finished(self, group: Searches, most: Array, is_late: Callable[[], bool]) -> SearchState:
        """Completes the last searches of a group, and returns the states of all its searches.

        They go on one after the other, since a few side by side take as long as many.
        """
        states = group.states
        for k in np.flatnonzero(np.asarray(goes_on(states, group.iterations, most))):
            own = strong(jax.tree.map(lambda x, k=k: x[k], states))
            own = self._alone(own, int(most - group.iterations[k]), is_late)
            states = jax.tree.map(lambda x, y, k=k: x.at[k].set(y), states, own)
        return states

    def _alone(
        self, state: SearchState, iterations: int, is_late: Callable[[], bool]
    ) -> SearchState:
        """The state of one search after at most `iterations` more iterations."""
        while iterations > 0 and not is_late() and not _is_over(state):
            many = jnp.asarray(min(iterations, LOGGED))
            state = more_iterations(self.transcription, state, self.tolerance, many)[0]
            iterations -= LOGGED
        return state

    def optima(self) -> Optima:
        """The distinct optima of the searches that have converged."""
        unit = float(self.transcription.cost_unit)
        optima = optima_of(np.asarray(self.states.cost), self._converged())
        return optima._replace(found=tuple((unit * cost, count) for cost, count in optima.found))

    def best(self) -> SearchState:
        """The converged state of least cost or, if no search has converged, the state of least violation."""
        states, converged = self.states, self._converged()
        costs = np.where(converged, np.asarray(states.cost), np.inf)
        violations = np.nan_to_num(np.asarray(states.errors.violation), nan=np.inf)
        index = int(np.argmin(costs if np.any(converged) else violations))
        return jax.tree.map(lambda x: x[index], states)

    def _converged(self) -> Bool[np.ndarray, " S"]:
        states = self.states
        return np.asarray(states.done) & np.isfinite(np.asarray(states.cost))


def _is_over(state: SearchState) -> bool:
    """Whether a search has converged or is stuck."""
    return bool(state.done) or int(state.stuck) >= STUCK


def _in_groups(starts: Float[Array, "S P"]) -> list[Float[Array, "G P"]]:
    """The starts in groups of equal size, one for each thread; copies of the last start fill the last group."""
    count = min(_threads(), -(-len(starts) // STARTS_AT_ONCE))
    size = -(-len(starts) // count)
    missing = count * size - len(starts)
    rows = jnp.concatenate([starts, jnp.broadcast_to(starts[-1:], (missing, starts.shape[1]))])
    return list(rows.reshape(count, size, -1))


def _width(count: int) -> int:
    """The number of searches of a group that are side by side."""
    return min(count, STARTS_AT_ONCE) if jax.default_backend() == "cpu" else count


def _threads() -> int:
    """The number of threads: on a CPU one for each core, since a group's program uses one core; otherwise 1."""
    return cores() if jax.default_backend() == "cpu" else 1


@compiled
def _first_states(transcription, problem: ControlProblem, starts: Array, barrier: Array):
    """The states of all searches before the first iteration."""
    rebuild = free_parameters(problem.curve)[1]

    def one(p):
        return first_state(transcription, started_with(transcription, problem, rebuild(p)), barrier)

    return jax.vmap(one)(starts)
