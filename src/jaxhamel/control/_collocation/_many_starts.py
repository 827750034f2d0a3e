"""A search by collocation from many starts at once, by `vmap` and threads, and the table of the distinct optima."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._compiled import compiled
from jaxhamel._cores import cores
from jaxhamel.control._collocation._start import first_iterate
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import STUCK, advance
from jaxhamel.control._interior_point._state import SearchState, start
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped

STARTS_AT_ONCE = 32  # searches in one group on a CPU (docs/performance.md#many-starts)
ITERATIONS_AT_ONCE = 8  # iterations in one call
STEPS_OF_START = 4  # steps of the classical Runge–Kutta method per interval, for the motion under a start's control
SAME = 1e-6  # relative difference up to which two costs count as those of one optimum


class Optima(NamedTuple):
    """The distinct optima from many starts: (J, number of starts) by increasing J, and the number that did not converge."""

    found: tuple[tuple[float, int], ...]
    unconverged: int

    @property
    def words(self) -> str:
        """The optima as one sentence."""
        parts = [f"{cost:.8g} ({count}×)" for cost, count in self.found]
        return f"optima from all starts: {', '.join(parts) or 'none'}; not converged: {self.unconverged}"


def optima_of(costs: Float[np.ndarray, " S"], converged: Bool[np.ndarray, " S"]) -> Optima:
    """The table: costs that differ by at most `SAME` (1 + |J|) from the next lower one belong to the same optimum."""
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

    On a CPU the searches run in groups, one thread for each core: the arrays of a group stay in the cache, and a group
    waits for its own slowest search only. On other devices all searches are one group.
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
        self.groups: list[SearchState] = [
            _begun(transcription, problem, rows, barrier) for rows in _in_groups(starts)
        ]
        self.is_begun = [False] * len(self.groups)

    def run(self, iterations: int, until: float) -> None:
        """Iterates until all searches have ended, or `iterations` are made, or `time.monotonic` has passed `until`."""
        calls = -(-iterations // ITERATIONS_AT_ONCE)
        self._advance(0)  # compiles, in one thread
        stopped = threading.Event()

        def is_late():
            return stopped.is_set() or time.monotonic() > until

        with ThreadPoolExecutor(_threads()) as pool:
            first = pool.submit(self._search, 0, calls - 1, is_late)
            others = range(1, len(self.groups))
            try:
                for each in [
                    first,
                    *(pool.submit(self._search, k, calls, is_late) for k in others),
                ]:
                    each.result()
            finally:
                stopped.set()

    def _search(self, index: int, calls: int, is_late: Callable[[], bool]) -> None:
        for _ in range(calls):
            if is_late() or (self.is_begun[index] and np.all(_over(self.groups[index]))):
                return
            self._advance(index)

    def _advance(self, index: int) -> None:
        many, states = jnp.asarray(ITERATIONS_AT_ONCE), self.groups[index]
        found = _advanced(self.transcription, states, self.tolerance, many)
        self.groups[index] = jax.block_until_ready(found)
        self.is_begun[index] = True

    @property
    def states(self) -> SearchState:
        """The states of the searches from all starts, with a leading axis."""
        return jax.tree.map(lambda *x: jnp.concatenate(x)[: self.count], *self.groups)

    def optima(self) -> Optima:
        """The distinct optima of the searches that have converged."""
        return optima_of(np.asarray(self.states.cost), self._converged())

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


def _over(states: SearchState) -> Bool[np.ndarray, " S"]:
    """For each search, whether it has ended."""
    done, stuck = np.asarray(states.done), np.asarray(states.stuck) >= STUCK
    return done | stuck | ~np.isfinite(np.asarray(states.cost))


def _in_groups(starts: Float[Array, "S P"]) -> list[Float[Array, "G P"]]:
    """The starts in groups of equal size, so that one program serves all; copies of the last start fill the last group."""
    most = STARTS_AT_ONCE if jax.default_backend() == "cpu" else len(starts)
    count = -(-len(starts) // most)
    size = -(-len(starts) // count)
    missing = count * size - len(starts)
    rows = jnp.concatenate([starts, jnp.broadcast_to(starts[-1:], (missing, starts.shape[1]))])
    return list(rows.reshape(count, size, -1))


def _threads() -> int:
    """The number of threads: on a CPU one for each core, since a group's program uses one core; otherwise 1."""
    return cores() if jax.default_backend() == "cpu" else 1


@compiled
def _begun(transcription, problem: ControlProblem, starts: Array, barrier: Array):
    rebuild = free_parameters(problem.curve)[1]

    def one(p):
        curve = rebuild(p)
        ts, states = _motion(transcription, problem, curve)
        w = first_iterate(
            transcription, ts, states, curve, (problem.q0, problem.u0), problem.ts[-1]
        )
        return start(transcription, w, barrier)

    return jax.vmap(one)(starts)


def _motion(transcription: Transcription, problem: ControlProblem, curve: Any):
    """The times of the mesh, and the states at these times of the motion under `curve`: the guess of one search."""
    ts = problem.ts[0] + transcription.shares * (problem.ts[-1] - problem.ts[0])
    field, space = VectorField(), problem.system.space

    def rate(t, y):
        return field(t, y, (problem.system, curve))

    def interval(y, ends):
        h = (ends[1] - ends[0]) / STEPS_OF_START

        def step(y, k):
            q, u = looped(rate, RK4, ends[0] + k * h, h, y)[0]
            return (space.normalise(q), u), None

        return jax.lax.scan(step, y, jnp.arange(STEPS_OF_START).astype(h.dtype))[0], y

    start = problem.q0, problem.u0
    last, before = jax.lax.scan(interval, start, (ts[:-1], ts[1:]))
    return ts, jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), before, last)


@compiled
def _advanced(transcription, states: SearchState, tolerance, many) -> SearchState:
    return jax.vmap(lambda state: advance(transcription, state, tolerance, many)[0])(states)
