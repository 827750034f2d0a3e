"""The phases of a collocation search: between its iterations it changes bounds, mesh, start or problem."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._search._loop import AbstractSearch
from jaxhamel.control._certificate._certificate import bounds_of
from jaxhamel.control._certificate._cost_error import kink_excess
from jaxhamel.control._certificate._endings import (
    negligible_violation,
    sizes_of_constraints,
)
from jaxhamel.control._checks._collocation import check_fits
from jaxhamel.control._collocation._checkpoint import from_arrays, mesh_of, points_of, unit_of
from jaxhamel.control._collocation._elastic import (
    Elastic,
    elastic_start,
    least_violations,
    original,
    with_slacks_inside,
)
from jaxhamel.control._collocation._new_start import (
    PATIENCE,
    coarser,
    comes_no_closer,
    creeps,
    is_far,
    moved_by_own_control,
    new_start,
)
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import (
    bent,
    chosen_points,
    first_iterate,
    guessed,
    shares_of,
    transcribe,
)
from jaxhamel.control._collocation._tightening import (
    Tightening,
    largest_excess,
)
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import SearchState, Solved, first_state
from jaxhamel.control._mesh._arc_search import ITERATIONS as ARC_ITERATIONS
from jaxhamel.control._mesh._arc_search import ArcSearch, Posed
from jaxhamel.control._mesh._boundary_arcs import needs_points_at_nodes
from jaxhamel.control._mesh._moving_nodes import ITERATIONS, MovingNodes
from jaxhamel.control._mesh._refinement import Refinement
from jaxhamel.control._mesh._transfer import carried_over
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._scaling._cost_unit import Scaling, Solution, first_unit, in_unit
from jaxhamel.control._scaling._measured_sizes import sizes_at

MOST_BENDS = 2  # the largest number of starts from bent controls
# the share of the conditions' residuals that a step must leave, to first order, for these to contradict one another
CONTRADICTORY = 0.1


class PhasedSearch(AbstractSearch):
    """A search by collocation that changes its problem between iterations: bounds, mesh, start, or the kind of the problem.

    A search with limits whose steps are all short starts anew, on a coarse mesh if its own mesh is fine. A search that does
    not come closer to feasible points continues with the elastic problem; if the solution of this problem is feasible, the
    search continues from it with the problem itself. At a solution nodes move onto switches, kinks and boundary arcs, bounds
    move inwards where polynomials overshoot them, and the mesh is refined.
    """

    def __init__(
        self,
        method: Any,
        problem: ControlProblem,
        saved: Mapping[str, np.ndarray] | None = None,
        found: tuple[Transcription, SearchState] | None = None,
    ):
        """Sets up the search.

        **Arguments:** `saved`: arrays of `to_arrays` from which the search continues; `found`: a transcription of the
        problem and the state of another search, from which it continues; both None: it starts from the guess.
        """
        super().__init__(method.max_iterations, method.max_seconds)
        self.problem = problem
        dtype = problem.u0.dtype
        least = 1e-12 if dtype == jnp.float64 else 1e-5
        self.tolerance: Array = jnp.asarray(max(method.tolerance, least), dtype)
        self.barrier: Array = jnp.asarray(method.barrier, dtype)
        self.may_change_points: bool = method.points == "auto"
        self.gauss: Solved | None = (
            None  # the solution before the points changed, while arcs are looked for
        )
        self.scaling = Scaling()
        fresh = saved is None and found is None
        self.bends = 0 if fresh else MOST_BENDS
        self.fresh = fresh  # whether the search stands at the guess, bent or not
        self.transcription: Transcription
        self.state: SearchState
        self.transcription, self.state = found or self._begin(method, saved)
        self.first: CollocationPoint = self.state.w
        if saved is not None:
            begin = self.state
            self.state = check_fits(from_arrays(saved, self.transcription, begin))
        self.tight: Transcription = self.transcription  # with bounds tightened between the points
        self.tightening = Tightening(0.5 * bounds_of(dtype).violation)
        may_align = method.intervals is not None or method.error is not None
        self.refinement = Refinement(problem, method.error, may_align)
        self.may_start_anew = fresh and bool(self.transcription.limits)
        # While the search is on a coarse mesh: the transcription on the method's mesh, and the state of the search on it.
        self.fine: tuple[Transcription, SearchState] | None = None
        self.moving = MovingNodes()
        bounds = bounds_of(dtype)
        self.arcs = ArcSearch(self.refinement, 1e-3 * bounds.cost, 0.5 * bounds.violation)
        self.elastic: Elastic | None = None
        self.before_elastic = self.state
        self.since = 0  # the iteration at which this phase began
        self.restorations = 0
        self.parts: Any = None  # derivatives at the last iterate
        self.pace = np.inf

    def _begin(
        self, method: Any, saved: Mapping[str, np.ndarray] | None
    ) -> tuple[Transcription, SearchState]:
        """The transcription on the method's mesh or on the saved one, and the state at the guess."""
        problem = self.problem
        shares = shares_of(problem, method.intervals)
        if saved is not None:
            shares = jnp.asarray(check_fits(mesh_of(saved)), shares.dtype)
        kind = points_of(saved) if saved is not None and self.may_change_points else None
        points = rule(kind or chosen_points(method.points, problem), method.degree)
        transcription = transcribe(problem, points, shares)
        w = first_iterate(
            transcription, problem.ts, guessed(problem), problem.curve, (problem.q0, problem.u0),
            problem.ts[-1],
        )  # fmt: skip
        sizes = sizes_at(transcription, w)
        if sizes is not None:
            transcription = dataclasses.replace(transcription, sizes=sizes)
            w = with_slacks_inside(transcription, w)
        begin = first_state(transcription, w, self.barrier)
        unit = first_unit(transcription, w) if saved is None else unit_of(saved)
        return in_unit(transcription, unit), begin

    def change_phase(self) -> None:
        """Changes bounds, mesh, start or problem of the search if its last iterations ask for it."""
        if self._bends_at_once() or self._has_moving_nodes() or self._corrects_arcs():
            return
        if self._gives_up_unit() or self._changes_points():
            return
        if self._aligns() or self._follows_arcs():
            return
        if self._returns_to_gauss():
            self.change_phase()
            return
        if self._frees_nodes() or self._tightens():
            return
        if self._refines() or self._changes_unit():
            return
        if self._starts_anew() or self._leaves_coarse_mesh() or self._bends():
            return
        if (
            self.elastic is None
            and self.fine is None
            and self._hopeless()
            and self.restorations < 2
        ):
            self._begin_elastic()
        elif self.elastic is not None and bool(self.state.done) and self._feasible():
            w = original(self.transcription, self.state.w)
            self.elastic, self.tight = None, self.transcription
            self._go_on(first_state(self.transcription, w, self.barrier))

    def _go_on(self, state: SearchState) -> None:
        """Continues the search from `state` with another compiled program."""
        self.state, self.parts = state, None
        self.since, self.pace = len(self.rows), np.inf
        self.tightening.forget()

    def _begin_elastic(self) -> None:
        self.before_elastic = self.state
        self.elastic, w = elastic_start(self.transcription, self.state.w)
        self._go_on(first_state(self.elastic, w, self.barrier))
        self.restorations += 1

    def _starts_anew(self) -> bool:
        """Starts the search anew if all its latest steps were short; returns whether it does."""
        rows, tolerance = self.rows[self.since :], float(self.tolerance)
        if not self.may_start_anew or self.elastic is not None or not creeps(rows, tolerance):
            return False
        self.may_start_anew = False
        coarse = coarser(self.problem, self.transcription)
        if coarse is not self.transcription:
            self.fine = self.transcription, self.state
        self.transcription = self.tight = coarse
        self._go_on(new_start(self.problem, coarse, self.barrier))
        return True

    def _leaves_coarse_mesh(self) -> bool:
        """Returns from the coarse mesh to the method's mesh if the search has ended there; returns whether it does.

        The search continues from the solution on the coarse mesh or, if there is none, with the elastic problem.
        """
        failed = int(self.state.stuck) >= STUCK or len(self.rows) - self.since >= PATIENCE
        if self.fine is None or not (bool(self.state.done) or failed):
            return False
        coarse, (fine, before) = self.transcription, self.fine
        self.transcription, self.tight, self.fine = fine, fine, None
        if bool(self.state.done):
            self._go_on(carried_over(coarse, self.state, fine))
        else:
            self._go_on(before)
            self._begin_elastic()
        return True

    def _bends_at_once(self) -> bool:
        """Starts the search anew, from a bent guess, if the linearised conditions contradict one another at its start;
        returns whether it does.

        The first step then tells nothing of the way to feasible points, and a search from there would creep.
        """
        fresh, self.fresh = self.fresh, False
        if not fresh or self.bends >= MOST_BENDS or float(self.state.missed) < CONTRADICTORY:
            return False
        self._start_bent()
        return True

    def _bends(self) -> bool:
        """Starts the search anew, from a bent guess, if it ends at an infeasible point; returns whether it does.

        At a straight guess the gradients of conditions may vanish, so that a feasible problem seems infeasible:
        displacements across the planes of wheels, and turns of a body by its parts, are of second order in the control.
        Displacements of third order have no gradient at straight states either: the second time the states are those of the
        motion under the bent control.
        """
        ended = bool(self.state.done) or int(self.state.stuck) >= STUCK
        if self.bends >= MOST_BENDS or self.elastic is None or not ended or self._feasible():
            return False
        self._start_bent()
        return True

    def _start_bent(self) -> None:
        """Starts the search anew from a bent guess, the second time with the states of the motion under its controls."""
        w = bent(self.transcription, self.first)
        if self.bends:
            moved = moved_by_own_control(self.transcription, self.problem, w)
            w = moved if np.all(np.isfinite(moved.X)) else w
        self.bends, self.elastic, self.restorations = self.bends + 1, None, 0
        self.fresh, self.tight = True, self.transcription
        self._go_on(first_state(self.transcription, w, self.barrier))

    def _tightens(self) -> bool:
        """Tightens bounds where a polynomial overshoots them; returns whether it does."""
        if not self._is_solved():
            return False
        solved = Solved(self.tight, self.state, self.parts)
        self.tight, self.state, self.parts = self.tightening.next(self.transcription, solved)
        if self.state is not solved.state:
            self.moving.found = None
        return not bool(self.state.done)

    def _has_kinks(self) -> bool:
        """Whether a control reaches a limit inside an interval, where its polynomial cannot have a kink: it then violates
        the limit between the points, or the cost is too high.
        """
        bounds = bounds_of(self.state.mu.dtype)
        if largest_excess(self.transcription, self.state) > 0.5 * bounds.violation:
            return True
        excess = kink_excess(self.tight, self.state, self.parts)
        return excess > bounds.cost * (1.0 + abs(float(self.state.cost)))

    def _aligns(self) -> bool:
        """Continues with nodes at the switches of limited controls; returns whether it does.

        Not after a tightening: it moves the times at which limits bind, and the nodes would follow.
        """
        if not self._is_solved() or self.tightening.rounds:
            return False
        solved = self.tight, self.state, self.parts
        kinks, kept = self._has_kinks(), self.arcs.times
        if kept and not kinks:
            return False  # the search for arcs has moved the other nodes, too
        return self._takes_mesh(self.refinement.aligned(*solved, has_kinks=kinks, kept=kept))

    def _changes_points(self) -> bool:
        """Continues with Radau points if a limit of the state of order 2 or more binds; returns whether it does.

        Gauss points cannot follow its arcs: an impulse of its multiplier needs a point at the node.
        """
        if not (self.may_change_points and self._is_solved()):
            return False
        solved = Solved(self.tight, self.state, self.parts)
        if self.parts is None or not needs_points_at_nodes(
            solved.transcription, self.state, self.parts
        ):
            return False
        self.may_change_points, self.gauss = False, solved
        old, points = self.tight, rule("radau", len(self.tight.rule.points))
        new = transcribe(self.problem, points, old.shares, old.cost_unit, old.sizes)
        return self._takes_mesh((new, carried_over(old, self.state, new)))

    def _returns_to_gauss(self) -> bool:
        """Goes back to the solution with Gauss points if the times of arcs are not found with Radau points, which are less
        exact; returns whether it does."""
        gauss = self.gauss
        if gauss is None or not self._is_solved():
            return False
        self.gauss = None
        if not self.arcs.arcs:
            self.take_solution(gauss)
            self._go_on(gauss.state)
            self.parts = gauss.parts
        return not self.arcs.arcs

    def _follows_arcs(self) -> bool:
        """Continues with limits of the state equal to their bounds on boundary arcs; returns whether it does."""
        if not self._is_solved() or self.tightening.rounds:
            return False
        posed = self.arcs.begin(Solved(self.tight, self.state, self.parts))
        return posed is not None and self._takes_posed(posed)

    def _corrects_arcs(self) -> bool:
        """Continues with corrected times of boundary arcs, or with the solution before if they are not found; returns
        whether the search goes on with one of them."""
        if self.arcs.before is None:
            return False
        broken = int(self.state.stuck) >= STUCK or not np.isfinite(self.rows[-1]["cost"])
        if broken or len(self.rows) - self.since >= ARC_ITERATIONS:
            self.take_solution(self.arcs.give_up())
            return False
        if bool(self.state.done):
            solved = Solved(self.tight, self.state, self.parts)
            posed = self.arcs.next(self.transcription, solved)
            if posed is None:
                self.take_solution(self.arcs.give_up())
                return False
            self._takes_posed(posed)
        return True

    def _takes_posed(self, posed: Posed) -> bool:
        """Continues with another mesh and other bounds; returns True."""
        self.transcription, self.tight, state = posed
        self.moving.forget()
        self._go_on(state)
        return True

    def _frees_nodes(self) -> bool:
        """Continues with the times of nodes at switches as unknowns; returns whether it does.

        Not so with Radau points: the last one in an interval is a node, where a switching control has no determined value.
        """
        inner = self.tight.rule.points[-1] < 1.0
        begun = self.tightening.rounds > 0
        if not (inner and self.moving.may_begin and self._is_solved()) or begun:
            return False
        nodes = self.refinement.nodes_at_switches(np.asarray(self.tight.shares, float))
        if nodes:
            solved = Solved(self.tight, self.state, self.parts)
            self._go_on(self.moving.begin(solved, nodes))
        return bool(nodes)

    def _has_moving_nodes(self) -> bool:
        """Whether the search goes on with moving nodes; if it has ended, its solution or the one before is taken."""
        if self.moving.before is None:
            return False
        broken = int(self.state.stuck) >= STUCK or not np.isfinite(self.rows[-1]["cost"])
        if bool(self.state.done):
            self.take_solution(self.moving.end(self.state, self.parts, self.tolerance))
        elif broken or len(self.rows) - self.since >= ITERATIONS:
            self.take_solution(self.moving.give_up())
        return self.moving.before is not None

    def take_solution(self, solved: Solved) -> None:
        """Continues from a solution of the problem itself, on its mesh."""
        self.transcription, self.state, self.parts = solved
        self.tight = self.transcription

    def _refines(self) -> bool:
        """Continues on a refined mesh if the error between the nodes is too large; returns whether it does."""
        if not self._is_solved():
            return False
        found = self.refinement.refined(self.transcription, self.state)
        if found is not None:
            self.arcs.forget()
        return self._takes_mesh(found)

    def _takes_mesh(self, found: tuple[Transcription, SearchState] | None) -> bool:
        """Continues on another mesh; returns whether there is one."""
        if found is None:
            return False
        self.transcription, state = found
        self.tight = self.transcription
        self.moving.forget()
        self._go_on(state)
        return True

    def _changes_unit(self) -> bool:
        """Continues in a smaller unit of the cost if the solution's cost is small in this one; returns whether it does."""
        if not self._is_solved():
            return False
        found = Solution(self.transcription, self.tight, self.state)
        return self._takes(self.scaling.changed(found, len(self.rows)))

    def _gives_up_unit(self) -> bool:
        """Goes back to the solution in the previous cost unit if the search finds none in the smaller unit; returns whether
        it does."""
        return self._takes(self.scaling.given_up(self.state, len(self.rows)))

    def _takes(self, found: Solution | None) -> bool:
        """Continues from `found`, with the same compiled program; returns whether it is not None."""
        if found is None:
            return False
        self.transcription, self.tight, self.state = found
        self.tightening.best = None  # is in another unit
        return True

    @property
    def cost_unit(self) -> float:
        """The number by which the search divides all costs."""
        return float(self.transcription.cost_unit)

    def searched(self) -> Transcription:
        """The transcription whose solution the search looks for at present."""
        moving = self.moving.problem if self.moving.before is not None else None
        return moving or self.elastic or self.tight

    def _is_solved(self) -> bool:
        """Whether the problem itself, on the method's mesh, is solved."""
        parts = self.elastic, self.fine, self.moving.before, self.arcs.before
        own = all(part is None for part in parts)
        return own and bool(self.state.done)

    def _hopeless(self) -> bool:
        """Whether the iterate is far from feasible and the search is stuck or, in its latest iterations, too slow."""
        rows, tolerance = self.rows[self.since :], float(self.tolerance)
        if bool(self.state.done) or not np.isfinite(rows[-1]["cost"]):
            return False
        stuck = is_far(rows, tolerance) and int(self.state.stuck) >= STUCK
        return stuck or comes_no_closer(rows, tolerance, self.cost_unit)

    def _feasible(self) -> bool:
        """Whether the last iterate of the elastic problem meets all constraints, up to negligible violations."""
        violations = least_violations(cast(Elastic, self.elastic), self.state.w)
        found = np.concatenate(violations)
        sizes = sizes_of_constraints(self.transcription, found)
        return float(np.max(found / sizes, initial=0.0)) < negligible_violation(self.state.w)

    def own_iterate(self) -> CollocationPoint:
        """The last iterate, without the variables that the elastic problem adds."""
        w = self.state.w
        return w if self.elastic is None else original(self.transcription, w)
