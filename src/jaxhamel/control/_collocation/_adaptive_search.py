"""A search by collocation whose problem may change between iterations: its set-up, its state, and how it continues."""

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple, cast

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel._search._loop import AbstractSearch
from jaxhamel.control._certificate._certificate import bounds_of
from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._checks._collocation import check_fits
from jaxhamel.control._collocation._checkpoint import from_arrays, mesh_of, points_of, unit_of
from jaxhamel.control._collocation._elastic import Elastic, original, with_slacks_inside
from jaxhamel.control._collocation._new_start import (
    comes_no_closer,
    is_far,
)
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import (
    chosen_points,
    first_iterate,
    guessed,
    shares_of,
    transcribe,
)
from jaxhamel.control._collocation._tightening import (
    Tightening,
)
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._contradictions._crossings import (
    Contradiction,
    LesserSum,
    TrialOfBounds,
    contradiction_at,
    rows_of_state,
)
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import SearchState, Solved, first_state
from jaxhamel.control._mesh._arc_search import ArcSearch, Posed
from jaxhamel.control._mesh._finer_mesh import MOST_INTERVALS, FinerMesh
from jaxhamel.control._mesh._free_arcs import FreeArcs
from jaxhamel.control._mesh._moving_nodes import MovingNodes
from jaxhamel.control._mesh._refinement import Refinement
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._scaling._cost_unit import Scaling, Solution, first_unit, in_unit
from jaxhamel.control._scaling._measured_sizes import sizes_at
from jaxhamel.control._scaling._scaled import scaled_residuals

MOST_BENDS = 2  # the largest number of starts from bent controls
# A search without a solution ends at the iterate that it kept if this violates constraints by at most this share of the last
# one's violation.
LESS = 0.1


class Kept(NamedTuple):
    """An iterate that the search has left for another start.

    - `own`: the transcription with the problem's own bounds; `iterate`: with those of the search, and the state.
    - `row`: its row of the history.
    """

    own: Transcription
    iterate: Solved
    row: dict[str, float]


class AdaptiveSearch(AbstractSearch):
    """A search by collocation that may continue with other bounds, another mesh, start or problem.

    The changes themselves are functions of the search, in `_before_solution` and `_at_solution`.
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
        self.most_iterations: int = method.max_iterations  # until the mesh becomes finer
        self.problem = problem
        dtype = problem.u0.dtype
        least = 1e-12 if dtype == jnp.float64 else 1e-5
        self.tolerance: Array = jnp.asarray(max(method.tolerance, least), dtype)
        self.barrier: Array = jnp.asarray(method.barrier, dtype)
        self.chooses_points: bool = method.points == "auto"
        self.may_change_points: bool = self.chooses_points
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
        may_refine = method.intervals == "auto" and method.error is None
        most = MOST_INTERVALS if may_refine else None
        self.refinement = Refinement(self.transcription, method.error, may_align, most)
        self.finer_mesh = FinerMesh(may_refine)
        self.may_start_anew = fresh and bool(self.transcription.limits)
        # While the search is on a coarse mesh: the transcription on the method's mesh, and the state of the search on it.
        self.fine: tuple[Transcription, SearchState] | None = None
        self.moving = MovingNodes()
        bounds = bounds_of(dtype)
        self.arcs = ArcSearch(self.refinement, 1e-3 * bounds.cost, 0.5 * bounds.violation)
        self.free_arcs = FreeArcs(0.5 * bounds.violation)
        self.elastic: Elastic | None = None
        self.before_elastic = self.mesh_of_first, _ = self.transcription, self.state
        # While the elastic problem is on a mesh of midpoints: the transcription on the method's mesh.
        self.own_mesh: Transcription | None = None
        self.trial = TrialOfBounds()
        # Whether a motion has crossed a limit of the state between the points.
        self.has_crossed = False
        self.lesser_sum = LesserSum()
        self.contradiction: Contradiction | None = None  # the one with the least violations so far
        self.since = 0  # the iteration at which this phase began
        self.restorations = 0
        self.parts: Any = None  # derivatives at the last iterate
        self.kept: Kept | None = None  # the one with the least violation so far
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

    def go_on(self, state: SearchState, pace: float = np.inf) -> None:
        """Continues the search from `state`, of another mesh or problem.

        **Arguments:** `pace`: seconds per iteration, if the compiled program stays the same.
        """
        self.state, self.parts = state, None
        self.since, self.pace = len(self.rows), pace
        self.tightening.forget()
        self.scaling.before = None  # the solution in another unit is one of the mesh before

    def keep_iterate(self) -> None:
        """Keeps the last iterate, which the search is about to leave for a new start, unless the one kept violates less."""
        if not self.rows or self.elastic is not None or self.fine is not None:
            return
        row = self.rows[-1]
        if not np.isfinite(row["cost"] + row["violation"]):
            return
        if self.kept is None or row["violation"] < self.kept.row["violation"]:
            iterate = Solved(self.tight, self.state, self.parts)
            self.kept = Kept(self.transcription, iterate, row)

    def has_kept_better(self) -> bool:
        """Whether the last iterate of a search that ends without a solution violates constraints more than the one kept."""
        if self.kept is None or self.contradiction is not None:
            return False
        elastic = self.elastic is not None
        now = self.violation_now() if elastic else self.rows[-1]["violation"]
        return not self.kept.row["violation"] > LESS * now

    def violation_now(self) -> float:
        """The largest violation of the problem's own constraints by the last iterate, in their sizes."""
        _, residuals = evaluated(self.transcription, self.own_iterate())
        return float(scaled_residuals(self.transcription.sizes, residuals).largest())

    def take_solution(self, solved: Solved) -> None:
        """Continues from a solution of the problem itself, on its mesh."""
        self.transcription, self.state, self.parts = solved
        self.tight = self.transcription

    def go_back_to_coarser_mesh(self, ends: bool = True) -> None:
        """Takes the solution on the mesh before this one; `ends`: whether the search ends with it."""
        self.forget_mesh()
        self.tightening.forget()
        self.trial.before = None
        found = self.finer_mesh.go_back(ends)
        self.transcription = found.own
        self.moving.found, self.free_arcs.found = found.moving, found.arcs
        self.tight, self.state, self.parts = found.solved

    def takes_posed(self, posed: Posed) -> bool:
        """Continues with another mesh and other bounds; returns True."""
        self.transcription, self.tight, state = posed
        self.moving.forget()
        self.go_on(state, self.pace)
        return True

    def takes_mesh(self, found: tuple[Transcription, SearchState] | None) -> bool:
        """Continues on another mesh; returns whether there is one."""
        if found is None:
            return False
        self.transcription, state = found
        self.tight = self.transcription
        self.moving.forget()
        self.free_arcs.forget()
        self.go_on(state)
        return True

    def takes(self, found: Solution | None) -> bool:
        """Continues from `found`, with the same compiled program; returns whether it is not None."""
        if found is None:
            return False
        self.transcription, self.tight, self.state = found
        self.tightening.best = None  # is in another unit
        return True

    def forget_mesh(self) -> None:
        """Forgets the times of arcs and the moving nodes of the present mesh."""
        for part in (self.moving, self.free_arcs, self.arcs):
            part.forget()

    @cached_property
    def of_state(self) -> tuple[bool, ...]:
        """Whether each row of the limits is a function of the state alone."""
        return rows_of_state(self.problem, self.mesh_of_first, self.first)

    @property
    def cost_unit(self) -> float:
        """The number by which the search divides all costs."""
        return float(self.transcription.cost_unit)

    def searched(self) -> Transcription:
        """The transcription whose solution the search looks for at present."""
        for part in (self.moving, self.free_arcs):
            if part.before is not None and part.problem is not None:
                return part.problem
        return self.elastic or self.tight

    def is_solved(self) -> bool:
        """Whether the problem itself, on the method's mesh, is solved."""
        own = self.elastic is None and self.fine is None and not self.is_beside_solution()
        return own and self.trial.before is None and bool(self.state.done)

    def is_beside_solution(self) -> bool:
        """Whether the search looks for times of nodes or arcs, and has a solution with fixed times to go back to."""
        return any(part.before is not None for part in (self.moving, self.free_arcs, self.arcs))

    def end_beside_solution(self) -> bool:
        """Goes back to the solution with fixed times if the search looks for times; returns whether it does."""
        for part in (self.moving, self.free_arcs, self.arcs):
            if part.before is not None:
                self.take_solution(part.give_up())
                return True
        return False

    def has_time(self) -> bool:
        """Whether more time is left than the first iteration took, which is enough to compile a small program."""
        return self.seconds - self.elapsed() > self.rows[0]["seconds"]

    def is_hopeless(self) -> bool:
        """Whether the iterate is far from feasible and the search is stuck or, in its latest iterations, too slow."""
        rows, tolerance = self.rows[self.since :], float(self.tolerance)
        if bool(self.state.done) or not np.isfinite(rows[-1]["cost"]):
            return False
        stuck = is_far(rows, tolerance) and int(self.state.stuck) >= STUCK
        return stuck or comes_no_closer(rows, tolerance, self.cost_unit)

    def has_elastic_end(self) -> bool:
        """Whether the elastic problem is solved."""
        return self.elastic is not None and bool(self.state.done)

    def found_contradiction(self) -> Contradiction | None:
        """The contradiction at the solution of the elastic problem; None if all constraints can be met."""
        return contradiction_at(self.transcription, cast(Elastic, self.elastic), self.state)

    def take_contradiction(self) -> None:
        """Goes back to the solution of the elastic problem with the least violations so far."""
        _, self.transcription, self.elastic, self.state = cast(Contradiction, self.contradiction)
        self.tight = self.transcription

    def own_iterate(self) -> CollocationPoint:
        """The last iterate, without the variables that the elastic problem adds."""
        w = self.state.w
        return w if self.elastic is None else original(self.transcription, w)
