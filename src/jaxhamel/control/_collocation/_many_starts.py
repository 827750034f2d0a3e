"""A search by collocation from many starts at once, by `vmap`, and the table of the distinct optima that were found."""

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._compiled import compiled
from jaxhamel.control._collocation._start import first_iterate
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import STUCK, advance
from jaxhamel.control._interior_point._state import SearchState, start
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped

ITERATIONS_AT_ONCE = 8  # iterations in one call
STEPS_OF_START = 4  # of the classical Runge–Kutta method in each interval
SAME = 1e-6  # relative difference of the costs of one optimum


class Optima(NamedTuple):
    """The distinct optima from many starts: (J, number of starts) by increasing J, and the number that did not converge."""

    found: tuple[tuple[float, int], ...]
    unconverged: int

    @property
    def words(self) -> str:
        """One sentence."""
        parts = [f"{cost:.8g} ({count}×)" for cost, count in self.found]
        return f"optima from all starts: {', '.join(parts) or 'none'}; not converged: {self.unconverged}"


def optima_of(costs: Float[np.ndarray, " S"], converged: Bool[np.ndarray, " S"]) -> Optima:
    """The table: costs that differ by less than `SAME` (1 + |J|) from their neighbour count as one."""
    groups: list[list[float]] = []
    for cost in np.sort(costs[converged]).tolist():
        if groups and cost - groups[-1][-1] <= SAME * (1 + abs(cost)):
            groups[-1].append(cost)
        else:
            groups.append([cost])
    found = tuple((group[0], len(group)) for group in groups)
    return Optima(found, int(np.sum(~converged)))


class ManyStarts:
    """The states of all searches, each from one row of `starts`, the free parameters of the problem's curve."""

    def __init__(
        self,
        problem: ControlProblem,
        transcription: Transcription,
        starts: Float[Array, "S P"],
        barrier: Array,
        tolerance: Array,
    ):
        self.transcription, self.tolerance = transcription, tolerance
        self.states: SearchState = _begun(transcription, problem, starts, barrier)

    def run(self, iterations: int, until: float) -> None:
        """Iterates until all have converged or are stuck, or the iterations or the time (`until`, monotonic) are over."""
        for _ in range(0, iterations, ITERATIONS_AT_ONCE):
            self.states = _advanced(
                self.transcription, self.states, self.tolerance, jnp.asarray(ITERATIONS_AT_ONCE)
            )
            over = self._over()
            if np.all(over) or time.monotonic() > until:
                return

    def _over(self) -> Bool[np.ndarray, " S"]:
        """For each search, whether it has ended."""
        done, stuck = np.asarray(self.states.done), np.asarray(self.states.stuck) >= STUCK
        return done | stuck | ~np.isfinite(np.asarray(self.states.cost))

    def optima(self) -> Optima:
        """The table of those that have converged."""
        return optima_of(np.asarray(self.states.cost), self._converged())

    def best(self) -> SearchState:
        """The converged state of least cost; without one, that of least violation."""
        converged = self._converged()
        costs = np.where(converged, np.asarray(self.states.cost), np.inf)
        violations = np.nan_to_num(np.asarray(self.states.errors.violation), nan=np.inf)
        index = int(np.argmin(costs if np.any(converged) else violations))
        return jax.tree.map(lambda x: x[index], self.states)

    def _converged(self) -> Bool[np.ndarray, " S"]:
        return np.asarray(self.states.done) & np.isfinite(np.asarray(self.states.cost))


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
    """The times of the mesh, and the motion there under a control: where the search from this start begins."""
    ts = problem.ts[0] + transcription.shares * (problem.ts[-1] - problem.ts[0])
    field, space = VectorField(), problem.system.space
    rate = lambda t, y: field(t, y, (problem.system, curve))  # noqa: E731

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
