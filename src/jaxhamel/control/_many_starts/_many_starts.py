"""Searches by collocation from many starts at once, and the distinct optima that they find."""

import threading
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, compiled_with
from jaxhamel.control._collocation._new_start import at_motion, motion_under
from jaxhamel.control._collocation._transcription import Transcription, along
from jaxhamel.control._interior_point._state import SearchState, first_state
from jaxhamel.control._many_starts._coarse_mesh import (
    MOST_ITERATIONS,
    are_followed,
    are_same,
    coarse_mesh,
    of_one_path,
    on_given_mesh,
)
from jaxhamel.control._many_starts._side_by_side import (
    Budget,
    SideBySide,
    are_few,
    are_solved,
    joined,
    searched,
)
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem

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


class ManyStarts:
    """Searches from many starts; each row of `starts` has the free parameters of the problem's curve.

    All searches begin on a coarse mesh. From each distinct optimum of the coarse mesh one search continues on the mesh of
    `transcription`. It stands for all starts that led there if it ends at nearly the same cost and motion. From all other
    starts the search begins anew on the mesh of `transcription`. If there are only a few starts, all begin on this mesh.
    """

    def __init__(
        self,
        problem: ControlProblem,
        transcription: Transcription,
        starts: Float[Array, "S P"],
        barrier: Array,
        tolerance: Array,
    ):
        self.problem, self.transcription, self.starts = problem, transcription, starts
        self.barrier, self.tolerance = barrier, tolerance
        self.interrupted = threading.Event()  # set by Ctrl-C
        self.motions = _motions(transcription, problem, starts)
        # After `run`: the last states of the searches on the given mesh, with a leading axis, and the number of starts for
        # which each of them stands.
        self.states: SearchState
        self.counts: Int[np.ndarray, " K"]

    def run(self, iterations: int, until: float) -> None:
        """Iterates until all searches have ended, or `iterations` are made, or `time.monotonic` has passed `until`."""
        budget, every = Budget(iterations, until, self.interrupted), np.arange(len(self.starts))
        coarse = coarse_mesh(self.transcription)
        found, counts, left = [], [], every
        if coarse is not None and not are_few(len(every)):
            state, counts, left = self._by_coarse_mesh(coarse, budget)
            found = [] if state is None else [state]
        if len(left):
            found.append(self._searched(self._first_states(self.transcription, left), budget))
        self.states = joined(found)
        self.counts = np.append(counts, np.ones(len(left), int)).astype(int)

    def _by_coarse_mesh(
        self, coarse: Transcription, budget: Budget
    ) -> tuple[SearchState | None, list[int], Int[np.ndarray, " L"]]:
        """(solutions on the given mesh, the number of starts for which each stands, the starts that have none)."""
        every, (_, (q, _)) = np.arange(len(self.starts)), self.motions
        which = every[are_followed(coarse, q)]
        if not which.size:
            return None, [], every
        states, groups = self._on_coarse_mesh(coarse, which, budget)
        if not groups:
            return None, [], every
        best = along(states, np.array([group[0] for group in groups]))
        found = self._searched(on_given_mesh(coarse, best, self.transcription), budget)
        is_same = are_solved(found) & are_same(coarse, best, self.transcription, found)
        kept = [which[group] for group, same in zip(groups, is_same, strict=True) if same]
        if not kept:
            return None, [], every
        left = np.setdiff1d(every, np.concatenate(kept))
        return along(found, np.flatnonzero(is_same)), [len(group) for group in kept], left

    def _on_coarse_mesh(
        self, coarse: Transcription, which: Int[np.ndarray, " L"], budget: Budget
    ) -> tuple[SearchState, list[Int[np.ndarray, " k"]]]:
        """Returns (the last states of searches on the coarse mesh, the numbers of those that end at each optimum)."""
        few = budget._replace(iterations=min(budget.iterations, MOST_ITERATIONS))
        first = self._first_states(coarse, which)
        given = Stacked.of_one(coarse), first, self.tolerance
        states = SideBySide(*given, tries=True).run(few)
        groups = of_one_optimum(np.asarray(states.cost), are_solved(states))
        return states, of_one_path(coarse, states, groups) if groups else []

    def _first_states(self, mesh: Transcription, which: Int[np.ndarray, " L"]) -> SearchState:
        motions = along(self.motions, which)
        return _first_states(mesh, self.problem, self.starts[which], motions, self.barrier)

    def _searched(self, states: SearchState, budget: Budget) -> SearchState:
        """The last states of searches on the given mesh."""
        return searched(Stacked.of_one(self.transcription), states, self.tolerance, budget)

    def optima(self) -> Optima:
        """The distinct optima of the searches that have converged."""
        unit, costs = float(self.transcription.cost_unit), np.asarray(self.states.cost)
        optima = optima_of(costs, are_solved(self.states), self.counts)
        return optima._replace(found=tuple((unit * cost, count) for cost, count in optima.found))

    def best(self) -> SearchState:
        """The converged state of least cost or, if no search has converged, the state of least violation."""
        states, converged = self.states, are_solved(self.states)
        costs = np.where(converged, np.asarray(states.cost), np.inf)
        violations = np.nan_to_num(np.asarray(states.errors.violation), nan=np.inf)
        return along(states, int(np.argmin(costs if np.any(converged) else violations)))


@compiled_with(FEW_RUNS)
def _motions(transcription: Transcription, problem: ControlProblem, starts) -> tuple[Array, Any]:
    """The motions under the controls of all starts: the times of the mesh, and the states at these times."""
    rebuild = free_parameters(problem.curve)[1]
    return jax.vmap(lambda p: motion_under(transcription, problem, rebuild(p)))(starts)


@compiled_with(FEW_RUNS)
def _first_states(mesh: Transcription, problem: ControlProblem, starts, motions, barrier):
    """The states of all searches before the first iteration on `mesh`."""
    rebuild = free_parameters(problem.curve)[1]

    def one(p, motion):
        return first_state(mesh, at_motion(mesh, problem, rebuild(p), motion), barrier)

    return jax.vmap(one)(starts, motions)


def of_one_optimum(
    costs: Float[np.ndarray, " S"], converged: Bool[np.ndarray, " S"]
) -> list[Int[np.ndarray, " k"]]:
    """The indices of the searches that end at the same optimum, for each optimum, by increasing cost.

    Costs that differ by at most `SAME` (1 + |J|) from the next lower one belong to the same optimum.
    """
    order = np.argsort(np.where(converged, costs, np.inf), kind="stable")[: int(np.sum(converged))]
    if not order.size:
        return []
    own = costs[order]
    return np.split(order, 1 + np.flatnonzero(np.diff(own) > SAME * (1 + np.abs(own[1:]))))


def optima_of(
    costs: Float[np.ndarray, " S"],
    converged: Bool[np.ndarray, " S"],
    counts: Int[np.ndarray, " S"],
) -> Optima:
    """The distinct optima among the results of searches, each of which stands for `counts` starts."""
    groups = of_one_optimum(costs, converged)
    found = [(float(costs[group[0]]), int(np.sum(counts[group]))) for group in groups]
    return Optima(tuple(found), int(np.sum(counts[~converged])))
