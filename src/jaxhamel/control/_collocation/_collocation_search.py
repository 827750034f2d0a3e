"""The search of `Collocation`: its iterations, how it ends, and its result."""

import time
from typing import cast

import jax.numpy as jnp
import numpy as np

from jaxhamel._search._loop import Progress, Verdict, compiled_before
from jaxhamel._search._stepwise import BURST_SECONDS
from jaxhamel._words import counted
from jaxhamel.control._certificate._certificate import certify
from jaxhamel.control._certificate._endings import (
    between_the_points,
    contradiction,
    no_step,
    not_finite,
    on_coarse_mesh,
    rough,
    without_bound,
)
from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._collocation import _at_solution as at_solution
from jaxhamel.control._collocation import _before_solution as before_solution
from jaxhamel.control._collocation._adaptive_search import AdaptiveSearch, Kept
from jaxhamel.control._collocation._checkpoint import to_arrays
from jaxhamel.control._collocation._elastic import Elastic
from jaxhamel.control._contradictions import _at_contradiction as at_contradiction
from jaxhamel.control._contradictions._crossings import lesser
from jaxhamel.control._interior_point._interior_point import LOGGED, STUCK, more_iterations
from jaxhamel.control._interior_point._state import Solved
from jaxhamel.control._result import Result
from jaxhamel.control._solution import result_at

CHECK_EVERY = 8  # iterations between two checks whether to change the mesh, bounds, start or problem of a search
# The time of the certificate and the result as a share of the time until the first iteration, both mostly compilation
# (measured: 0.3 to 0.6).
CERTIFICATE = 0.5
NO_TIME_TO_COMPILE = "out of time ({seconds:g} s) after {done}: best so far; too little is left to compile its next program"
STALL = 60  # iterations after which a feasible search that comes no closer is examined for kinks
UNBOUNDED = 1e14  # a cost J < −UNBOUNDED (1 + |J at the first iteration|) counts as unbounded below


# The changes of a search between its iterations, in the order in which they are tried; at most one is made. Between the two
# groups the search may go back to a solution with Gauss points, from which all changes are tried once more.
FIRST_CHANGES = (
    before_solution.bends_at_once,
    at_solution.has_moving_nodes,
    at_solution.corrects_arcs,
    at_solution.gives_up_unit,
    at_solution.has_free_arcs,
    at_solution.frees_arcs,
    before_solution.tries_bounds,
    at_solution.changes_points,
    at_solution.aligns,
    at_solution.follows_arcs,
)
LATER_CHANGES = (
    at_solution.frees_nodes,
    at_solution.tightens,
    at_solution.stays_with_tighter_bounds,
    at_solution.stays_on_finer_mesh,
    before_solution.crosses_limits,
    at_solution.refines,
    at_solution.changes_unit,
    at_solution.takes_finer_mesh,
    before_solution.starts_anew,
    before_solution.leaves_coarse_mesh,
    at_contradiction.goes_back,
    before_solution.bends,
    before_solution.relaxes,
    before_solution.returns_from_elastic,
    at_contradiction.asks_beside_points,
    at_contradiction.weighs_cost_less,
)


class CollocationSearch(AdaptiveSearch):
    """The search of `Collocation`, with several iterations in one call.

    A search with limits whose steps are all short starts anew, on a coarse mesh if its own mesh is fine. A search that does
    not come closer to feasible points continues with the elastic problem; if the solution of this problem is feasible, the
    search continues from it with the problem itself. At a solution nodes move onto switches, kinks and boundary arcs, bounds
    move inwards where polynomials overshoot them, and the mesh is refined.
    """

    # Whether the search has looked for functions whose gradients jump; it does so once.
    examined_kinks: bool = False
    # Seconds of the first call, most of which XLA takes; another problem or mesh is compiled in about the same time.
    first_call: float = 0.0

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Named arrays from which a later search can continue.

        During the elastic phase, or on a coarse mesh, the arrays are those of the iterate at which that phase began.
        """
        if self.fine is not None:
            return to_arrays(*self.fine)
        for part in (self.moving, self.free_arcs, self.arcs):
            if part.before is not None:
                return to_arrays(*part.before[:2])
        now = self.transcription, self.state
        return to_arrays(*(now if self.elastic is None else self.before_elastic))

    def make_iterations(self) -> None:
        left = min(self.iterations - len(self.rows), self._until_check())
        many = max(1, min(int(BURST_SECONDS / self.pace), LOGGED, left))
        began = time.monotonic()
        given = self.searched(), self.state, self.tolerance, jnp.asarray(many)
        with compiled_before(self.began + self.seconds, self.first_call):
            self.state, self.parts, rows, count = more_iterations(*given)
        self.first_call = self.first_call or time.monotonic() - began
        table = [np.asarray(x)[: int(count)] for x in rows]
        # With compilation the first call is long, so that the second one makes one iteration, too.
        self.pace = max((time.monotonic() - began) / many, 1e-9)
        table[0] = self.cost_unit * table[0]
        for numbers in zip(*table, strict=True):
            self.note(**dict(zip(rows._fields, map(float, numbers), strict=True)))
        ended = bool(self.state.done) or int(self.state.stuck) >= STUCK
        if ended or self._until_check() == CHECK_EVERY or not np.isfinite(self.rows[-1]["cost"]):
            self.change_problem()

    def _until_check(self) -> int:
        """The number of iterations until the next check. The first one is after the first iteration of a phase; others
        follow after each `CHECK_EVERY` more. So the changes do not depend on the speed of the machine.
        """
        made = len(self.rows) - self.since
        return 1 if made == 0 else CHECK_EVERY - (made - 1) % CHECK_EVERY

    def change_problem(self) -> None:
        """Changes bounds, mesh, start or problem of the search if its last iterations ask for it."""
        if self.finer_mesh.has_gone_back:
            return
        if any(change(self) for change in FIRST_CHANGES):
            return
        if at_solution.returns_to_gauss(self):
            self.change_problem()
        else:
            any(change(self) for change in LATER_CHANGES)

    def seconds_of_result(self) -> float:
        """The seconds by which the search ends earlier: those that the certificate may need beyond a tenth of the limit."""
        expected = CERTIFICATE * self.rows[0]["seconds"]
        return max(expected - 0.1 * self.seconds, 0.0)

    def look_at_start(self) -> None:
        cost = self.cost_unit * float(evaluated(self.transcription, self.state.w)[0])
        violation, nan, none = self.violation_now(), float("nan"), 0.0
        self.note(
            cost=cost, gradient_norm=nan, violation=violation, barrier=float(self.barrier), step=none,
        )  # fmt: skip

    def verdict(self) -> Verdict | None:
        if self.is_beside_solution() or self.trial.before is not None:
            return None
        many = counted(len(self.rows), self.unit)
        if self.has_elastic_end():
            self.contradiction = lesser(self.contradiction, self.found_contradiction())
            return Verdict(False, self._infeasible())
        if bool(self.state.done) and not self.refinement.met:
            return Verdict(False, self.refinement.words(self.transcription))
        if bool(self.state.done):
            between = between_the_points(self.transcription, self.state.w)
            gone = self.finer_mesh.has_gone_back
            back = "; no better solution was found on a finer mesh" if gone else ""
            return Verdict(not between, between or f"converged after {many}{back}")
        if not self.rows:
            return None
        at = self.transcription, self.own_iterate()
        if broken := not_finite(*at, self.rows[-1], self.parts, self.has_time()):
            return Verdict(False, broken)
        cost = self.rows[-1]["cost"]
        if cost < -UNBOUNDED * (1.0 + abs(self.rows[0]["cost"])):
            return Verdict(False, f"unbounded: {without_bound(self.problem.costs, cost)}")
        stuck = int(self.state.stuck) >= STUCK
        if (stuck or self._stalls()) and (why := self._kinks()):
            return Verdict(False, f"no optimum after {many}: {why}")
        return Verdict(False, no_step(*at, many)) if stuck else None

    def _infeasible(self) -> str:
        """The status of a search that ends with the least contradiction it has found."""
        self.take_contradiction()
        at = self.transcription, cast(Elastic, self.elastic), self.state.w, self.state.duals
        d, coarse = self.transcription.size, ""
        if self.parts is not None:  # those of the last iterate suffice
            coarse = on_coarse_mesh(np.asarray(self.parts.points.jacobian, float)[..., :d, :d])
        return f"infeasible{coarse}: {contradiction(*at)}"

    def ending(self) -> Verdict | None:
        """The verdict of a search that has ended; where no start has led further, with the contradiction found before."""
        found = super().ending()
        if found is not None and not found.converged and self._goes_back():
            at_solution = cast(Verdict, self.verdict())
            both = Verdict(False, f"{found.status}; {at_solution.status}")
            return at_solution if at_solution.converged else both
        if found is None or found.converged or self.contradiction is None or self.has_elastic_end():
            return found
        self.fine = None
        return Verdict(False, f"{self._infeasible()}; later: {found.status}")

    def not_compiled_in_time(self) -> Verdict:
        if self._goes_back():
            return cast(Verdict, self.verdict())
        if self.rows:
            return Verdict(False, self._words(NO_TIME_TO_COMPILE))
        return super().not_compiled_in_time()

    def _goes_back(self) -> bool:
        """Takes up an earlier solution, on a coarser mesh or with fixed times, if there is one; returns whether it does."""
        if self._can_go_back():
            self.go_back_to_coarser_mesh()
            return True
        return self.end_beside_solution()

    def _can_go_back(self) -> bool:
        """Whether the search is on a finer mesh without a solution, and has one on the mesh before."""
        return self.finer_mesh.before is not None and self.elastic is None and not self.is_solved()

    def _stalls(self) -> bool:
        """Whether a search close to feasible points has come no closer to a stationary one in `STALL` iterations."""
        rows, close = self.rows[self.since :][-STALL:], 100 * float(self.tolerance)
        if self.examined_kinks or self.elastic is not None or len(rows) < STALL:
            return False
        before, after = rows[: STALL // 2], rows[STALL // 2 :]
        least = [min(row["gradient_norm"] for row in half) for half in (before, after)]
        same = least[1] > 0.5 * least[0] > close and before[0]["barrier"] == after[-1]["barrier"]
        return same and max(row["violation"] for row in rows) <= close

    def _kinks(self) -> str:
        """A sentence that names the functions whose gradients jump at the iterate.

        It is empty if there are none, if the search has looked for them before, or if too little time is left.
        """
        if self.examined_kinks or not self.has_time():
            return ""
        self.examined_kinks = True
        return rough(self.transcription, self.own_iterate())

    def _at_kept(self, ending: Verdict) -> tuple[Verdict, dict[str, float]]:
        """Goes back to the iterate that was kept; returns the verdict that says so, and the iterate's row of the history."""
        (self.transcription, iterate, row), self.elastic = cast(Kept, self.kept), None
        self.tight, self.state, self.parts = iterate
        better = f"the result is an earlier iterate, which violates constraints by {row['violation']:.1e} only"
        return Verdict(False, f"{ending.status}; {better}"), row

    def report(self) -> Progress:
        row, nan = self.rows[-1], float("nan")
        return Progress(
            len(self.rows), row["cost"], nan, row["violation"], row["barrier"], True, row["seconds"], self.time_left(),
        )  # fmt: skip

    def result(self, ending: Verdict) -> Result:
        """The result at the last iterate, with its certificate."""
        self._goes_back()
        if self.trial.before is not None:
            self.take_solution(self.trial.end(self.transcription, self.state)[0])
        if self.tightening.best is not None and not bool(self.state.done):
            self.tight, self.state, self.parts = self.tightening.give_up()
        row = self.rows[-1]
        if not ending.converged and self.has_kept_better():
            ending, row = self._at_kept(ending)
        parts = None if self.elastic is not None else self.parts
        own = self.state._replace(w=self.own_iterate())
        solved = Solved(self.tight, own, parts)
        free = self.free_arcs.found or self.moving.found or solved
        given = solved, free, ending, self.tolerance
        certificate = certify(self.transcription, *given, not self.scaling.failed)
        found = self.transcription, own.w, own.duals
        numbers = row["gradient_norm"], self.history, self.began
        result = result_at(self.problem, found, certificate, ending, *numbers)
        if self.moving.found is None:
            return result
        moving, state, _ = self.moving.found
        return result._replace(optimum=(moving, state.w, state.duals))
