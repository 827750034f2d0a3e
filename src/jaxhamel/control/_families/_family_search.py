"""The searches of a family: side by side from each problem's own guess, and one by one where that does not suffice."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._search._loop import Verdict
from jaxhamel.control._certificate._certificate import bounds_of
from jaxhamel.control._certificate._cost_error import barrier_gaps
from jaxhamel.control._certificate._violation import on_fine_grid
from jaxhamel.control._checks._families import (
    check_bounds_of_family,
    check_searched,
    of_value,
)
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._elastic import with_slacks_inside
from jaxhamel.control._collocation._points import PointRule
from jaxhamel.control._collocation._start import (
    bent,
    first_iterate,
    guessed,
    shares_of,
    transcribe,
)
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription, along
from jaxhamel.control._families._family_progress import Teller
from jaxhamel.control._families._interpolation import (
    coordinates_of,
    far_first,
    interpolated,
    weights_of,
)
from jaxhamel.control._interior_point._derivatives import Duals, evaluate
from jaxhamel.control._interior_point._state import SearchState, first_state, resumed
from jaxhamel.control._many_starts._side_by_side import (
    Budget,
    SideBySide,
    are_few,
    are_solved,
    in_groups,
    searched,
    width_of,
)
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._result import Result
from jaxhamel.control._scaling._cost_unit import smaller_for, unit_of
from jaxhamel.control._scaling._sizes import TypicalSizes, size_of

# Searches side by side, which are simpler, that take more iterations than this go on alone, from their guesses.
MOST_TOGETHER = 40


class Guesses(NamedTuple):
    """The first iterates of all problems, and the costs there and with bent controls, `(K,)`."""

    w: CollocationPoint
    costs: tuple[Float[Array, " K"], Float[Array, " K"]]


class Ended(NamedTuple):
    """A search that ran alone: the search after its end, and its verdict; `search` is None if it could not begin."""

    search: CollocationSearch | None
    verdict: Verdict


class FamilySearch:
    """The searches of a family of problems.

    - `transcriptions`, `states`: of all problems, after the search side by side.
    - `alone`: the searches that went on alone, by the index of their problem.
    """

    def __init__(self, method: Any, problems: Stacked, values: Any):
        self.method, self.problems = method, problems
        self.points = coordinates_of(values)
        self.began = time.monotonic()
        self.until = self.began + method.max_seconds
        with of_value(0):
            first = CollocationSearch(method, problems.at(0))
        self.tolerance = first.tolerance
        self.transcriptions, w = _transcriptions(method, problems, first.transcription)
        self.states = _first_states(self.transcriptions, w, first.barrier)
        self.alone: dict[int, Ended] = {}

    def run(self, progress: Callable[..., Any] | None = None) -> None:
        """Runs all searches to their ends, or to the limits of the method.

        **Arguments:** `progress`: called with a `FamilyProgress` a few times a second; None: nothing is called.
        """
        most = min(self.method.max_iterations, MOST_TOGETHER)
        teller = Teller(progress, len(self.points), self.began, self.until)
        tell = teller.tell if progress is not None else None
        budget = Budget(most, self.until, threading.Event(), tell)
        found = self._searched_together(budget, teller)
        self.states: SearchState = jax.tree.map(np.asarray, found)
        teller.tell(teller.count)
        if not budget.is_over():
            self._search_alone(budget, teller)

    def _search_alone(self, budget: Budget, teller: Teller) -> None:
        """Runs the searches that go on alone, one after the other."""
        unfinished = self._unfinished()
        teller.searches_alone(len(unfinished))
        for done, k in enumerate(unfinished):
            if budget.is_over():
                break
            self.alone[k] = self.continued(k, self.until, lambda _, done=done: teller.tell(done))
            teller.tell(done + 1)

    def _searched_together(self, budget: Budget, teller: Teller) -> SearchState:
        """The states after two rounds of searches side by side.

        The first round searches for the optima of values far from one another, one in each lane. The second round starts all
        other searches from points interpolated between these optima.
        """
        given, count = (self.transcriptions, self.states, self.tolerance), len(self.points)
        places = in_groups(count)
        width, size = width_of(places.shape[1]), places.shape[1]
        if are_few(count) or width == size or not self.points.size:
            return searched(*given, budget)
        order = far_first(self.points, width * len(places))
        places = _with_first(order, len(places), width, size)
        states = SideBySide(*given, places=places, active=width).run(budget)
        states = self._interpolated(states, order[: width * len(places)])
        teller.earlier = width * len(places)
        places = np.roll(places, -width, axis=1)
        given = self.transcriptions, states, self.tolerance
        return SideBySide(*given, places=places, active=size - width).run(budget)

    def _interpolated(self, states: SearchState, first: Int[np.ndarray, " P"]) -> SearchState:
        """The states with starts interpolated between the optima of the `first` searches for all others."""
        known = first[are_solved(along(states, first))]
        others = np.setdiff1d(np.arange(len(self.points)), first)
        if not known.size:
            return states
        weights = weights_of(self.points[known], self.points[others])
        problems, transcriptions = self.problems.rows(others), self.transcriptions.rows(others)
        guesses, optima = along(states, others), along(states, known)
        begun = interpolated(problems, transcriptions, guesses, optima, weights)
        return jax.tree.map(lambda x, y: _with_rows(x, others, y), states, begun)

    def is_solved(self) -> Bool[np.ndarray, " K"]:
        """Which searches side by side have converged."""
        return are_solved(self.states)

    def _unfinished(self) -> list[int]:
        """The indices of problems that have no solution yet, or one that a search alone would improve."""
        found = ~self.is_solved(), _small(*self._found()), _binds(*self._found())
        return np.flatnonzero(np.any(found, axis=0)).tolist()

    def _found(self) -> tuple[Stacked, SearchState]:
        return self.transcriptions, self.states

    def continued(self, k: int, until: float, progress: Callable[..., Any] | None = None) -> Ended:
        """The search for the optimum of one problem, alone: from its solution or, if there is none, from its guess."""
        problem = self.problems.at(k)
        state: SearchState = jax.tree.map(jnp.asarray, along(self.states, k))
        given = self.transcriptions.at(k), resumed(state)
        try:
            found = given if self.is_solved()[k] else None
            search = CollocationSearch(self.method, problem, found=found)
        except (TypeError, ValueError) as error:
            return Ended(None, Verdict(False, f"not searched: {error}"))
        search.seconds = max(until - time.monotonic(), 0.0)
        return Ended(search, search.run(progress))

    def verdicts(self) -> list[Verdict]:
        """For each problem, whether its search has converged, and why it ended."""
        solved, late = self.is_solved(), time.monotonic() > self.until
        words = f"out of time ({self.method.max_seconds:g} s)" if late else "interrupted"
        side_by_side = [Verdict(True, "converged") if x else Verdict(False, words) for x in solved]
        return [self.alone[k].verdict if k in self.alone else x for k, x in enumerate(side_by_side)]

    def result(self, k: int) -> Result:
        """The result for one problem, with its certificate.

        **Raises:** `ValueError` for a problem that was not searched.
        """
        ended = self.alone.get(k)
        if ended is None:
            ended = self.continued(k, time.monotonic() + self.method.max_seconds)
        check_searched(k, ended.search, ended.verdict.status)
        assert ended.search is not None
        return ended.search.result(ended.verdict)

    def found_together(self) -> tuple[Stacked, CollocationPoint, Duals]:
        """The transcriptions of all problems, and the last iterates of the searches side by side with their multipliers."""
        return self.transcriptions, self.states.w, self.states.duals

    def found_alone(self, k: int) -> tuple[Transcription, CollocationPoint, Duals] | None:
        """The same for one problem whose search went on alone; None for others."""
        search = self.alone[k].search if k in self.alone else None
        if search is None:
            return None
        return search.transcription, search.own_iterate(), search.state.duals


def _with_rows(x: Any, places: Int[np.ndarray, " F"], rows: Any) -> np.ndarray:
    found = np.array(x)
    found[places] = rows
    return found


def _with_first(
    order: Int[np.ndarray, " K"], groups: int, width: int, size: int
) -> Int[np.ndarray, "G k"]:
    """The searches of each group: `width` of the first ones in `order`, then others; the last one fills the last group."""
    first, others = order[: groups * width], order[groups * width :]
    filled = others[np.minimum(np.arange(groups * (size - width)), len(others) - 1)]
    return np.concatenate([first.reshape(width, groups).T, filled.reshape(groups, -1)], axis=1)


def _transcriptions(
    method: Any, problems: Stacked, first: Transcription
) -> tuple[Stacked, CollocationPoint]:
    """The transcriptions of all problems, with the points and sizes of the first one, and the first iterates."""
    arrays, (w, costs) = _transcribed(problems, first.rule, method.intervals, first.sizes)
    check_bounds_of_family(arrays)
    sizes = np.stack([np.asarray(x) for x in costs])
    largest = np.max(np.where(np.isfinite(sizes), np.abs(sizes), -np.inf), axis=0)
    units = [unit_of(x if x >= 0 else 1.0) for x in largest.tolist()]
    arrays = dataclasses.replace(arrays, cost_unit=jnp.asarray(units, first.cost_unit.dtype))
    others = eqx.filter(first, eqx.is_array, inverse=True)
    return Stacked.of_rows(eqx.combine(arrays, others)), w


@compiled_with(QUICK)
def _transcribed(
    problems: Stacked,
    rule: PointRule,
    intervals: int | Literal["auto"] | None,
    sizes: TypicalSizes | None,
) -> tuple[Transcription, Guesses]:
    """Returns (the arrays of the transcriptions of all problems, their first iterates)."""

    def one(problem):
        transcription = transcribe(problem, rule, shares_of(problem, intervals), 1.0, sizes)
        begin: Any = (problem.q0, problem.u0)
        given = problem.ts, guessed(problem), problem.curve, begin, problem.ts[-1]
        w = first_iterate(transcription, *given)
        if sizes is not None:
            w = with_slacks_inside(transcription, w)
        costs = [evaluate(transcription, x)[0] for x in (w, bent(transcription, w))]
        return eqx.filter(transcription, eqx.is_array), Guesses(w, (costs[0], costs[1]))

    return problems.mapped(one)


@compiled_with(QUICK)
def _first_states(transcriptions: Stacked, w: CollocationPoint, barrier: Array) -> SearchState:
    return transcriptions.mapped(lambda own, w: first_state(own, w, barrier), w)


def _bounds(transcriptions: Stacked) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper bounds of the path limits, with a leading axis where they differ."""
    both = eqx.combine(transcriptions.own, transcriptions.shared)
    return np.asarray(both.lower), np.asarray(both.upper)


def _small(transcriptions: Stacked, states: SearchState) -> Bool[np.ndarray, " K"]:
    """Which problems have a cost so small beside its unit, or beside the barrier's share of it, that a search alone would
    take a smaller unit."""
    lower, upper = _bounds(transcriptions)
    gaps = barrier_gaps(lower, upper, states.w, states.duals).tolist()
    each = zip(np.abs(states.cost).tolist(), gaps, strict=True)
    return np.array([smaller_for(*pair, states.mu.dtype) != 1.0 for pair in each])


def _binds(transcriptions: Stacked, states: SearchState) -> Bool[np.ndarray, " K"]:
    """Which problems have a path limit that binds or is violated between the points.

    A search alone moves nodes and bounds there.
    """
    if not transcriptions.shared.limits:
        return np.zeros(len(states.mu), bool)
    (lower, upper), slack = _bounds(transcriptions), states.w.slack
    size = np.asarray(size_of(transcriptions.shared.sizes, "limits"))
    either = states.duals.low * size**2 > slack - lower
    either |= states.duals.high * size**2 > upper - slack
    values = np.asarray(_limits_between(transcriptions, states.w))
    excess = np.maximum(lower[..., :1, :] - values, values - upper[..., :1, :]) / size
    most = 0.5 * bounds_of(states.mu.dtype).violation
    axes = (1, 2, 3)
    return np.any(either & (lower < upper), axes) | np.any(excess > most, axes)


@compiled_with(QUICK)
def _limits_between(transcriptions: Stacked, w: CollocationPoint) -> Float[Array, "K N M r"]:
    """The values of the path limits of all problems on a fine grid."""
    return transcriptions.mapped(on_fine_grid, w)
