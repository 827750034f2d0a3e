"""The part of a search in which all arcs of a motion along bounds are equations, and their times are unknowns.

It is for arcs that meet (`_meeting_arcs`). With their times fixed, controls are not all on their bounds, and the polynomials
of controls overshoot these: where the mesh says that a limit is met too late, the control leaves its bound before. With the
times as unknowns the arcs determine the motion, and Newton's method finds it in a few iterations.

It needs points at the nodes (Radau). Between Gauss points a polynomial may begin beside a bound and be on it at all points,
which lowers the cost; the times then move away.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import on_mesh
from jaxhamel.control._collocation._tightening import largest_excess
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import more_iterations
from jaxhamel.control._interior_point._state import SearchState, Solved
from jaxhamel.control._mesh._arc_errors import times_of
from jaxhamel.control._mesh._arc_search import Posed
from jaxhamel.control._mesh._boundary_arcs import BoundaryArc, as_limits, on_bounds, orders
from jaxhamel.control._mesh._finer_mesh import by_errors
from jaxhamel.control._mesh._limit_rates import (
    rows_with_rates,
    with_rates,
    without_rates,
    zero_where_arcs_begin,
)
from jaxhamel.control._mesh._meeting_arcs import CLOSE, meeting_arcs
from jaxhamel.control._mesh._moving_nodes import fixed_again, freed
from jaxhamel.control._mesh._switches import with_nodes_at
from jaxhamel.control._mesh._transfer import carried_over

FAILURES = 2  # the number of meshes on which the times were not found, after which they stay fixed
ITERATIONS = 40  # the largest number of iterations with unknown times
# Each length between nodes has two bounds about its first value. A search that gets stuck with a length close to one of them
# continues with bounds about the present lengths; this is the largest number of such changes.
MOST_CHANGES = 1
# A length counts as close to its upper bound at this distance, as a share of the distance between its two bounds, and as
# close to its lower bound if it is less than twice that.
NEAR_BOUND = 0.1
CONFINED = 1e-5  # the largest multiplier of such a bound at a solution
# The largest number of iterations with the times that were found, fixed. They do without the conditions that rates of limits
# are zero, which hardly matters at the best times.
LAST_ITERATIONS = 3
# The largest multiplier of the wrong sign with which a bound is kept, as a share of the largest one. Where arcs meet,
# multipliers are zero up to the error of the transcription. The second is for meshes that will become finer.
WRONG, ROUGHLY_WRONG = 3e-4, 1e-2


class FreeArcs:
    """The search for the times at which arcs meet; it comes at most once for each mesh.

    - `before`: during this part of the search, the solution with fixed times or, on a finer mesh, the start of a search
      without arcs; otherwise None.
    - `own`: the transcription with the problem's own limits, nodes near these times and Radau points; `problem`: the one
      with arcs as equations and with unknown times.
    - `arcs`: at the times of the mesh, or at those found; they stay for a finer mesh.
    - `tried`: for each problem that was posed in vain, whether the arcs begin smoothly.
    - `nodes`: those at which arcs meet; `found`: the solution with unknown times, None without one.
    """

    def __init__(self, violation: float):
        """**Arguments:** `violation`: that of the limits between the points, as a multiple of their sizes."""
        self.violation, self.failures = violation, 0
        self.arcs: list[BoundaryArc] = []
        self.forget()

    def forget(self) -> None:
        """Prepares for another mesh."""
        self.may_begin = True
        self.before: Solved | None = None
        self.own: Transcription | None = None
        self.nodes: tuple[int, ...] = ()
        self.problem: Transcription | None = None
        self.rates: tuple[int, ...] = ()
        self.tried: list[list[bool]] = []
        self.changes = 0  # the number of times that the bounds of the nodes have changed
        self.found: Solved | None = None

    def begin(self, solved: Solved) -> SearchState | None:
        """Poses the problem with the times of arcs as unknowns; returns the state from which its search starts, or None if
        the arcs of the solution do not meet.

        **Arguments:** `solved`: a solution of the problem with its own bounds.
        """
        old, state, parts = solved
        if not self.may_begin or self.failures >= FAILURES or parts is None:
            return None
        arcs = meeting_arcs(old, state, parts)
        times = times_of(arcs)
        shares = with_nodes_at(np.asarray(old.shares, float), times) if times else None
        if shares is None or len(set(_nodes_at(times, shares))) < len(times):
            return None  # the mesh has too few nodes, or two times are too close to each other
        points = rule("radau", len(old.rule.points))
        own = on_mesh(old, jnp.asarray(shares), points)
        own = dataclasses.replace(own, cost_unit=old.cost_unit, sizes=old.sizes)
        self.before = solved
        return self._posed(own, arcs, solved)

    def on_finer_mesh(
        self, own: Transcription, state: SearchState, before: Solved
    ) -> SearchState | None:
        """Poses the problem with the arcs that were found on another mesh; returns the state from which its search starts,
        or None if none were found.

        **Arguments:** `own`, `state`: the problem with its own limits on a mesh with nodes at these times, and the state
        from which a search without arcs would start; `before`: the solution on the mesh before.
        """
        arcs, self.arcs = self.arcs, []
        if not arcs or self.failures >= FAILURES:
            return None
        self.before = Solved(own, state, None)
        return self._posed(own, arcs, before)

    def otherwise(self, state: SearchState) -> SearchState | None:
        """Poses the problem of this part again with other beginnings of arcs, after a search that has failed; returns the
        state from which its search starts, or None if these have been tried.

        A control that is close to its bound before it jumps there looks as if it did not jump: then all arcs of controls
        begin with a jump. If they did, those begin smoothly before which the control is close to its bound in `state`.
        """
        if self.before is None or self.own is None or self.problem is None:
            return None
        jumps = not any(x.is_smooth for x in self.arcs)
        smooth = [jumps and self._may_be_smooth(x, state) for x in self.arcs]
        self.tried.append([x.is_smooth for x in self.arcs])
        if smooth in self.tried:
            return None
        arcs = [x._replace(is_smooth=new) for x, new in zip(self.arcs, smooth, strict=True)]
        return self._posed(self.own, arcs, self.before)

    def _may_be_smooth(self, arc: BoundaryArc, state: SearchState) -> bool:
        """Whether `arc`, of a control, begins where one of a state ends, with the control close to its bound before."""
        assert self.own is not None
        follows = any(x.order > 0 and not x.touches and x.end == arc.begin for x in self.arcs)
        if arc.order > 0 or not follows:
            return False
        distances = np.abs(np.asarray(state.w.slack, float)[..., arc.row] - arc.bound(self.own))
        return bool(distances[arc.intervals(self.own).start - 1, -1] < CLOSE * np.max(distances))

    def _posed(self, own: Transcription, arcs: list[BoundaryArc], before: Solved) -> SearchState:
        """Poses the problem on the mesh of `own`, with nodes at the ends of `arcs`; returns the state from which its search
        starts."""
        self.may_begin, self.own, self.arcs = False, own, arcs
        self.rates = rows_with_rates(arcs)
        searched = on_bounds(with_rates(own, self.rates), arcs)
        searched = zero_where_arcs_begin(searched, arcs, self.rates)
        state = carried_over(before.transcription, before.state, searched)
        self.nodes = _nodes_at(times_of(arcs), np.asarray(own.shares, float))
        self.problem, state = freed(Solved(searched, state, None), self.nodes)
        return state

    def with_new_bounds(self, state: SearchState) -> SearchState | None:
        """Sets new bounds for the times of the nodes, about their present times; returns the state from which the search
        continues, or None if no node is close to a bound.

        The bounds of an arc that is shorter than an interval are narrow, and its time may be wrong by more than their
        distance.
        """
        if self.problem is None or self.changes >= MOST_CHANGES:
            return None
        count = len(self.nodes)
        at, low, high = (
            np.asarray(x, float)[-count:]
            for x in (state.w.p, self.problem.p_lower, self.problem.p_upper)
        )
        near = (at < 2 * low) | (high - at < NEAR_BOUND * (high - low))
        if not np.all(np.isfinite(at)) or not np.any(near):
            return None
        self.changes += 1
        _, fixed = fixed_again(Solved(self.problem, state, None))
        self.problem, state = freed(Solved(*fixed, None), self.nodes)
        return state

    def is_confined(self, state: SearchState) -> bool:
        """Whether a length between the nodes is at one of its bounds, so that its time is not the best one."""
        count = len(self.nodes)
        multipliers = (
            np.asarray(x, float)[-count:] for x in (state.duals.p_low, state.duals.p_high)
        )
        return bool(max(np.max(x, initial=0.0) for x in multipliers) > CONFINED)

    def give_up(self) -> Solved:
        """Ends this part; returns the solution before it."""
        assert self.before is not None
        before, self.before = self.before, None
        self.failures += 1
        self.arcs = []
        return before

    def end(
        self, state: SearchState, parts: Any, tolerance: Scalar, may_refine: bool = False
    ) -> Posed | None:
        """Ends this part with the problem's own limits and the times that were found; None if these are not right.

        They are not if a limit is violated, or if a multiplier has another sign than that of its bound. If this mesh is too
        coarse and the search `may_refine` it, multipliers need not be as exact.
        """
        if self.problem is None or self.own is None or self.is_confined(state):
            return None
        if any(order > 1 for order in orders(self.problem, parts)[self.own.lower.shape[-1] :]):
            return None  # the limit is of order 3 or more
        free, fixed = fixed_again(Solved(self.problem, state, parts))
        own = dataclasses.replace(self.own, shares=fixed[0].shares)
        fixed = without_rates(*fixed, len(self.rates))
        state, parts, *_ = more_iterations(*fixed, tolerance, jnp.asarray(LAST_ITERATIONS))
        if not bool(state.done) or largest_excess(own, state) > self.violation:
            return None
        found = as_limits(own, fixed[0], state)
        if found is None:
            return None
        wrong, is_coarse = _largest_wrong(found.wrong, state), may_refine
        if WRONG < wrong <= ROUGHLY_WRONG and is_coarse:
            is_coarse = by_errors(Solved(own, state, parts)) > 1.0
        if wrong > (ROUGHLY_WRONG if is_coarse else WRONG):
            return None
        self.before, self.found = None, free
        times = {0.0: 0.0, 1.0: 1.0, **dict(zip(times_of(self.arcs), self.meetings, strict=True))}
        self.arcs = [x._replace(begin=times[x.begin], end=times[x.end]) for x in self.arcs]
        return Posed(own, found.bounds, found.state)

    @property
    def meetings(self) -> list[float]:
        """The times at which one arc ends and another begins, as shares of the duration; empty if they were not found."""
        if self.found is None:
            return []
        shares = np.asarray(self.found.transcription.shares_at(self.found.state.w.p), float)
        return shares[list(self.nodes)].tolist()


def _nodes_at(times: list[float], shares: Float[np.ndarray, " N+1"]) -> tuple[int, ...]:
    """The numbers of the nodes that are closest to `times`."""
    return tuple(int(np.argmin(np.abs(shares - time))) for time in times)


def _largest_wrong(wrong: Bool[np.ndarray, "N s r"], state: SearchState) -> float:
    """The largest multiplier of the wrong sign, as a share of the largest one."""
    multipliers = np.abs(np.asarray(state.duals.limits, float))
    tiny = float(np.finfo(float).tiny)
    return float(np.max(multipliers[wrong], initial=0.0) / max(np.max(multipliers), tiny))
