"""The part of a search that finds the times of boundary arcs and touch points of limits of the state.

The problem is solved with these limits equal to their bounds on the arcs, and without them in the intervals beside the arcs.
The optimal cost J then is a smooth function of the arcs' times T, with ∂J/∂T = ∂L/∂T:

- At a touch point the limit acts at one time only. If this is not the time at which the motion touches the bound, the limit
  is violated beside it, and J is lower: J is largest at the right time, where ∂J/∂T falls through zero.
- Just outside of an arc, at a time x from its end, the distance from the bound is a x^p + b x^(p+1) + …, where p is the
  limit's order. At the right time a = 0, because the control, or one of its derivatives, is continuous there; ∂J/∂T, which
  is the jump of the Hamiltonian and of the order of a², then has a double zero.

The secant method finds these zeros; for p = 0, a limit of the control, b is the slope of a, and Newton's method does. Each
step is another mesh, on which the problem is solved without compilation.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxhamel.control._collocation._tightening import (
    cost_of_excess,
    largest_excess,
    resumed_in_bounds,
)
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import SearchState, Solved
from jaxhamel.control._mesh._arc_errors import (
    ArcErrors,
    errors_of,
    largest_gap,
    tighter_arcs,
    times_of,
)
from jaxhamel.control._mesh._boundary_arcs import (
    BoundaryArc,
    arcs_of,
    as_limits,
    moved_inwards,
    on_bounds,
    without,
)
from jaxhamel.control._mesh._refinement import Refinement
from jaxhamel.control._mesh._transfer import carried_over

MESHES = 16  # the largest number of meshes on which the times of arcs are corrected
TRIALS = 2  # the number of corrections after which each must gain less than the two before
# The first problem with arcs does not impose their limits in the intervals beside them, so that its cost is lower. The arcs
# are given up if it is lower than the violations of these limits explain, by more than this share of the cost
# (docs/performance.md#nodes-at-boundary-arcs-and-touch-points).
UNEXPLAINED = 1e-4
HARDLY = 100.0  # the largest violation beside an arc for which its bound moves inwards, as a multiple of the one allowed
FALLS = 0.5  # a violation falls if it is at most this share of the larger one of the two before
ITERATIONS = 40  # the largest number of iterations on one of them
ROUNDS = 2  # how often arcs are looked for in solutions with the problem's own bounds
FIRST_STEP = 0.05  # the first correction of a time, as a share of the shorter interval beside it
LONGEST_STEP = 0.4  # the longest correction, likewise
GROWTH = 4.0  # the largest ratio of a correction to the one before, unless it is shorter than LEAST_STEP, likewise
LEAST_STEP = 1e-3
# Below this share of the precision the times are right. Multipliers of the wrong sign then come from the transcription: at
# the first node of an arc of the first order the multiplier is 0.
NEGLIGIBLE = 1e-3
# The largest distance of a control from its bound at the ends of its arcs: as a share of the violation that is allowed, and
# at least this multiple of the rounding error.
CLOSE, ROUNDED = 2e-3, 50.0
SMALL_CHANGE = 100.0  # the largest change of the cost by equations with such multipliers, as a multiple of the precision


class Posed(NamedTuple):
    """A problem on a new mesh, to be solved next.

    - `own`: its transcription with the bounds that the user gave.
    - `searched`: the one that is solved, with limits equal to their bounds on the arcs.
    - `state`: the state of the search from which the solution starts.
    """

    own: Transcription
    searched: Transcription
    state: SearchState


class ArcSearch:
    """The search for the times of arcs; it comes at most `ROUNDS` times for each mesh of the refinement.

    - `before`: the solution with the problem's own bounds, during this part of the search, otherwise None.
    - `arcs`: those on the present mesh.
    """

    def __init__(self, refinement: Refinement, precision: float, violation: float):
        """**Arguments:** `precision`: the relative change of the cost by corrections of the times that are small enough;
        `violation`: that of the limits between the points, as a multiple of their sizes.
        """
        self.refinement, self.precision, self.violation = refinement, precision, violation
        self.forget()

    def forget(self) -> None:
        """Prepares for another mesh."""
        self.rounds = 0
        self.gains: list[float] = []  # relative changes of the cost by the corrections so far
        self.before: Solved | None = None
        self.arcs: list[BoundaryArc] = []
        self.latest: ArcErrors | None = None
        # The largest violations beside arcs with nearly the right times.
        self.excesses: list[float] = []
        self.least_cost = -np.inf  # the cost below which the arcs are not all that there are
        self.inverse = np.zeros(0)  # the secants' inverse slopes
        # The solution that is kept if the cost is hardly lower without some of its equations, while this is found out.
        self.nearly: Posed | None = None
        self.keeps_higher = True  # whether limits of order 2 and more are equations on arcs, too

    @property
    def times(self) -> list[float]:
        """The inner times at which arcs begin or end, in their order."""
        return times_of(self.arcs)

    def begin(self, solved: Solved) -> Posed | None:
        """The first problem to solve; None if there are no arcs, or no others than in the round before."""
        if self.rounds >= ROUNDS or solved.parts is None:
            return None
        found = arcs_of(solved.transcription, solved.state, solved.parts)
        self.rounds += 1
        if _rows(found) == _rows(self.arcs):
            return None
        old, self.arcs = self.arcs, found
        posed = self._posed(solved)
        if posed is None:
            self.arcs = old
            return None
        self.before, self.latest, self.gains, self.keeps_higher = solved, None, [], True
        self.excesses = []
        cost = float(solved.state.cost)
        fall = cost_of_excess(*solved[:2]) + UNEXPLAINED * abs(cost)
        # Without a limit of the control in the intervals beside its arcs the cost may be much lower at first.
        self.least_cost = -np.inf if any(arc.order == 0 for arc in found) else cost - fall
        return posed

    def give_up(self) -> Solved:
        """Ends this part; returns the solution before it."""
        assert self.before is not None
        before, self.before, self.arcs, self.rounds = self.before, None, [], ROUNDS
        self.nearly = None
        return before

    def next(self, own: Transcription, solved: Solved) -> Posed | None:
        """The problem to solve after `solved`, on the mesh of `own`; None if the times of the arcs are not found.

        After the last correction of the times it is the problem with its own bounds, and the search for arcs ends.
        """
        if self.nearly is not None:
            return self._judged(self.nearly, solved)
        if float(solved.state.cost) < self.least_cost:
            return None  # the limits beside the arcs matter
        at = errors_of(self.arcs, own, solved)
        steps, is_cut = self._steps(at)
        gain = np.inf if is_cut else _gain(at, steps, float(solved.state.cost))
        last = len(self.gains) >= MESHES
        if gain <= self.precision:
            posed = self._ended(own, solved, last, gain, at)
            if posed is not None:
                return posed
            if self._is_in_vain(largest_excess(own, solved.state)):
                return self._below_bounds(own, solved, gain)
        self.gains.append(gain)
        tried = len(self.gains) <= TRIALS or is_cut
        comes_closer = tried or gain < max(self.precision, *self.gains[-3:-1])
        if last or not (comes_closer and np.all(np.isfinite(steps))):
            return None
        self.latest = at
        self.arcs = _moved(self.arcs, dict(zip(at.times, at.times + steps, strict=True)))
        return self._posed(solved)

    def _ended(
        self, own: Transcription, solved: Solved, last: bool, gain: float, at: ArcErrors
    ) -> Posed | None:
        """The problem with its own limits, at a solution with the right times of the arcs; None if these may be better.

        On an arc of the first order that has wrong times, some multipliers have the wrong sign. On arcs of higher order,
        equations at all points have multipliers of both signs at the best times, too: only their sums matter.
        """
        holds = largest_excess(own, solved.state) <= self.violation
        orders = {arc.order for arc in self.arcs}
        if 0 in orders:
            return self._on_arcs_of_controls(own, solved, last, at)
        tight = moved_inwards(own, self._equations())
        found = as_limits(tight, *solved[:2]) if holds else None
        if found is not None and not np.any(found.wrong):
            self.before = None
            return Posed(own, tight, found.state)
        if last or max(orders) > 1:
            self.before = None
            return Posed(own, own, resumed_in_bounds(own, solved.state))
        if found is None or gain > NEGLIGIBLE * self.precision:
            return None
        self.nearly = Posed(own, found.bounds, found.state)
        return Posed(own, *without(found.wrong, *solved[:2]))

    def _is_in_vain(self, excess: float) -> bool:
        """Whether further corrections of the times are in vain.

        They are if only limits of the state have arcs, and their largest violation `excess` beside these arcs falls no more.
        """
        self.excesses.append(excess)
        before = self.excesses[-3:-1]
        stays = len(before) == 2 and excess > max(self.violation, FALLS * max(before))
        return stays and all(arc.order > 0 for arc in self.arcs)

    def _below_bounds(self, own: Transcription, solved: Solved, gain: float) -> Posed | None:
        """The problem with the bounds of the arcs moved inwards, if limits are hardly violated beside their arcs.

        The error of the transcription causes such violations. None if they are larger: they then have another cause, such as
        a control that jumps where the motion reaches its bound.
        """
        self.gains.append(gain)
        excess = self.excesses[-1]
        tighter = tighter_arcs(own, solved.state, self.arcs, self.violation, beside=1)
        if excess > HARDLY * self.violation or tighter is None or len(self.gains) > MESHES:
            return None
        self.arcs, self.excesses = tighter, []
        return self._posed(solved)

    def _has_right_arcs(self, own: Transcription, state: SearchState, at: ArcErrors) -> bool:
        """Whether the arcs are right. If only their times are, changes bounds, or arcs that are equations, as needed."""
        higher = self.keeps_higher and any(arc.order > 1 for arc in self.arcs)
        least = ROUNDED * float(jnp.finfo(state.mu.dtype).eps)
        share = 1.0 if higher else CLOSE
        if largest_gap(self.arcs, own, at) > max(share * self.violation, least):
            return False
        tighter = tighter_arcs(own, state, self.arcs, self.violation)
        if tighter is not None:
            self.arcs = tighter
        elif higher:
            self.keeps_higher = False
        return tighter is None and not higher

    def _on_arcs_of_controls(
        self, own: Transcription, solved: Solved, last: bool, at: ArcErrors
    ) -> Posed | None:
        """As `_ended`, if there are arcs of limits of the control.

        Limits of order 2 and more are equations on their arcs first, and limits again with the right times. All others stay
        equations: a barrier would keep a distance of √μ from the bounds at the ends of their arcs, where multipliers come to
        zero.
        """
        if not last and not self._has_right_arcs(own, solved.state, at):
            return None
        tight = moved_inwards(own, self._equations())
        holds = largest_excess(own, solved.state) <= self.violation
        found = as_limits(tight, *solved[:2]) if holds else None
        if found is not None and np.any(found.wrong):
            self.nearly = Posed(own, found.bounds, found.state)
            return Posed(own, *without(found.wrong, *solved[:2]))
        self.before = None
        if found is None:
            return Posed(own, own, resumed_in_bounds(own, solved.state))
        return Posed(own, tight, found.state)

    def _judged(self, nearly: Posed, relaxed: Solved) -> Posed:
        """`nearly` if the cost is hardly lower without the equations whose multipliers have the wrong sign; otherwise the
        problem with its own limits."""
        self.before = self.nearly = None
        cost = float(nearly.state.cost)
        if cost - float(relaxed.state.cost) <= SMALL_CHANGE * self.precision * (1.0 + abs(cost)):
            self.rounds = ROUNDS
            return nearly
        return Posed(nearly.own, nearly.own, resumed_in_bounds(nearly.own, nearly.state))

    def _posed(self, solved: Solved) -> Posed | None:
        """The problem on the mesh with nodes at the times of the arcs, from a solution; None if these are too many."""
        own = self.refinement.with_nodes_at(self.times, *solved)
        if own is None or any(arc.begin > arc.end for arc in self.arcs):
            return None
        searched = on_bounds(own, self._equations())
        return Posed(own, searched, carried_over(solved.transcription, solved.state, searched))

    def _equations(self) -> list[BoundaryArc]:
        """The arcs on which the limit is now prescribed as an equation, so that the motion stays exactly on it."""
        return [arc for arc in self.arcs if arc.order <= 1 or self.keeps_higher]

    def _steps(self, at: ArcErrors) -> tuple[np.ndarray, bool]:
        """Returns (the corrections of the times, whether one of them is cut: shorter than the secant method asks for).

        Where the slope is not known, a small correction comes first, which counts as cut.
        """
        longest = LONGEST_STEP * at.room
        if self.latest is None:
            self.inverse = (
                FIRST_STEP * at.room / np.maximum(np.abs(at.errors), np.finfo(float).tiny)
            )
        else:
            moves, changes = at.times - self.latest.times, at.errors - self.latest.errors
            np.divide(moves, changes, out=self.inverse, where=moves * changes > 0.0)
            secant = np.maximum(GROWTH * np.abs(moves), LEAST_STEP * at.room)
            longest = np.where(at.rises > 0.0, longest, np.minimum(longest, secant))
        np.divide(1.0, at.rises, out=self.inverse, where=at.rises > 0.0)
        longest = np.where(np.isin(at.times, times_of(self._equations())), longest, 0.0)
        full = -at.errors * self.inverse
        first = self.latest is None and bool(np.any((at.rises <= 0.0) & (longest > 0.0)))
        is_cut = first or bool(np.any((np.abs(full) > longest) & (longest > 0.0)))
        return np.clip(full, -longest, longest), is_cut


def _gain(at: ArcErrors, steps: np.ndarray, cost: float) -> float:
    """The relative change of the cost J by corrections of the times, ½ Σ|∂J/∂T · δT| / (1 + |J|)."""
    return float(0.5 * np.sum(np.abs(at.slopes * steps)) / (1.0 + abs(cost)))


def _rows(arcs: list[BoundaryArc]) -> set[tuple[int, bool]]:
    """The rows of the limits with arcs, and their bounds."""
    return {(arc.row, arc.is_upper) for arc in arcs}


def _moved(arcs: list[BoundaryArc], new: dict[float, float]) -> list[BoundaryArc]:
    """The arcs with their times replaced."""
    return [x._replace(begin=new.get(x.begin, x.begin), end=new.get(x.end, x.end)) for x in arcs]
