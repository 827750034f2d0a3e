"""Changes of a search at a solution: other points, moved nodes, tightened bounds, a finer mesh, another unit of the cost.

Each function takes the search after its last iterations, changes it if need be, and returns whether the search goes on
without a further change.
"""

import dataclasses

import numpy as np

from jaxhamel.control._certificate._certificate import bounds_of
from jaxhamel.control._certificate._cost_error import kink_excess
from jaxhamel.control._collocation._adaptive_search import AdaptiveSearch
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import (
    on_mesh,
)
from jaxhamel.control._collocation._tightening import (
    largest_excess,
)
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import Solved
from jaxhamel.control._mesh._arc_search import ITERATIONS as ARC_ITERATIONS
from jaxhamel.control._mesh._boundary_arcs import needs_points_at_nodes
from jaxhamel.control._mesh._finer_mesh import PATIENCE as FINER_ITERATIONS
from jaxhamel.control._mesh._finer_mesh import OnMesh
from jaxhamel.control._mesh._free_arcs import ITERATIONS as FREE_ITERATIONS
from jaxhamel.control._mesh._junctions import excess_at_nodes
from jaxhamel.control._mesh._moving_nodes import ITERATIONS
from jaxhamel.control._mesh._transfer import carried_over
from jaxhamel.control._scaling._cost_unit import Solution

# The largest number of iterations with bounds that have moved inwards once more.
TIGHT_ITERATIONS = 120
# The largest excess at which bounds that move inwards hardly change a solution, so that the one with unknown times of
# switches still says whether its multipliers are unique, and has its derivatives.
SLIGHT = 1e-6


def has_moving_nodes(search: AdaptiveSearch) -> bool:
    """Whether the search goes on with moving nodes; if it has ended, its solution or the one before is taken."""
    if search.moving.before is None:
        return False
    broken = int(search.state.stuck) >= STUCK or not np.isfinite(search.rows[-1]["cost"])
    if bool(search.state.done):
        search.take_solution(search.moving.end(search.state, search.parts, search.tolerance))
    elif broken or len(search.rows) - search.since >= ITERATIONS:
        search.take_solution(search.moving.give_up())
    return search.moving.before is not None


def has_free_arcs(search: AdaptiveSearch) -> bool:
    """Whether the search goes on with unknown times of arcs, or with the times found; otherwise the solution before is
    taken."""
    if search.free_arcs.before is None:
        return False
    broken = int(search.state.stuck) >= STUCK or not np.isfinite(search.rows[-1]["cost"])
    done = bool(search.state.done)
    if not (done or broken) and len(search.rows) - search.since < FREE_ITERATIONS:
        return True
    since = search.since
    confined = broken or (done and search.free_arcs.is_confined(search.state))
    again = search.free_arcs.with_new_bounds(search.state) if confined else None
    if again is not None:
        search.go_on(again, search.pace)
        # `FREE_ITERATIONS` limits the sum of the iterations with the old and with the new bounds.
        search.since = since
        return True
    given = search.state, search.parts, search.tolerance, search.finer_mesh.may_begin
    # The problem with fixed times is another program.
    posed = search.free_arcs.end(*given) if done and search.has_time() else None
    if posed is None:
        again = search.free_arcs.otherwise(search.state) if search.has_time() else None
        if again is not None:
            search.go_on(again, search.pace)
            return True
        search.take_solution(search.free_arcs.give_up())
        if not bool(search.state.done):
            search.go_on(search.state)  # on a finer mesh, where there is no solution yet
        return False
    search.may_change_points = False
    search.refinement.switches = search.free_arcs.meetings  # a finer mesh has nodes there, too
    return search.takes_posed(posed)


def corrects_arcs(search: AdaptiveSearch) -> bool:
    """Continues with corrected times of boundary arcs, or with the solution before if they are not found; returns
    whether the search goes on with one of them."""
    if search.arcs.before is None:
        return False
    broken = int(search.state.stuck) >= STUCK or not np.isfinite(search.rows[-1]["cost"])
    if broken or len(search.rows) - search.since >= ARC_ITERATIONS:
        search.take_solution(search.arcs.give_up())
        return False
    if bool(search.state.done):
        solved = Solved(search.tight, search.state, search.parts)
        posed = search.arcs.next(search.transcription, solved)
        if posed is None:
            search.take_solution(search.arcs.give_up())
            return False
        search.takes_posed(posed)
    return True


def gives_up_unit(search: AdaptiveSearch) -> bool:
    """Goes back to the solution in the previous cost unit if the search finds none in the smaller unit; returns whether
    it does."""
    return search.takes(search.scaling.given_up(search.state, len(search.rows)))


def changes_points(search: AdaptiveSearch) -> bool:
    """Continues with Radau points if a limit of the state of order 2 or more binds; returns whether it does.

    Gauss points cannot follow its arcs: an impulse of its multiplier needs a point at the node.
    """
    if not (search.may_change_points and search.is_solved()):
        return False
    solved = Solved(search.tight, search.state, search.parts)
    if search.parts is None or not needs_points_at_nodes(
        solved.transcription, search.state, search.parts
    ):
        return False
    search.may_change_points, search.gauss = False, solved
    old, points = search.tight, rule("radau", len(search.tight.rule.points))
    own = on_mesh(search.mesh_of_first, old.shares, points)
    new = dataclasses.replace(own, cost_unit=old.cost_unit, sizes=old.sizes)
    return search.takes_mesh((new, carried_over(old, search.state, new)))


def frees_arcs(search: AdaptiveSearch) -> bool:
    """Continues with arcs as equations and their times as unknowns, if each begins where another ends; returns whether it
    does."""
    radau = search.tight.rule.points[-1] == 1.0
    may_begin = search.refinement.may_align and (radau or search.chooses_points)
    if not (may_begin and search.is_solved()) or search.tightening.rounds or search.arcs.arcs:
        return False
    state = search.free_arcs.begin(Solved(search.transcription, search.state, search.parts))
    if state is not None:
        search.go_on(state)
    return state is not None


def aligns(search: AdaptiveSearch) -> bool:
    """Continues with nodes at the switches of limited controls; returns whether it does.

    Not after a tightening: it moves the times at which limits bind, and the nodes would follow.
    """
    if not search.is_solved() or search.tightening.rounds or search.free_arcs.found is not None:
        return False
    solved = search.tight, search.state, search.parts
    kinks, kept = _has_kinks(search), search.arcs.times
    if kept and not kinks:
        return False  # the search for arcs has moved the other nodes, too
    return search.takes_mesh(search.refinement.aligned(*solved, has_kinks=kinks, kept=kept))


def follows_arcs(search: AdaptiveSearch) -> bool:
    """Continues with limits of the state equal to their bounds on boundary arcs; returns whether it does."""
    if not search.is_solved() or search.tightening.rounds or search.free_arcs.found is not None:
        return False
    posed = search.arcs.begin(Solved(search.tight, search.state, search.parts))
    return posed is not None and search.takes_posed(posed)


def returns_to_gauss(search: AdaptiveSearch) -> bool:
    """Goes back to the solution with Gauss points if the times of arcs are not found with Radau points, which are less
    exact; returns whether it does."""
    gauss = search.gauss
    if gauss is None or not search.is_solved():
        return False
    search.gauss = None
    found = bool(search.arcs.arcs) or search.free_arcs.found is not None
    if not found:
        search.take_solution(gauss)
        search.go_on(gauss.state)
        search.parts = gauss.parts
    return not found


def frees_nodes(search: AdaptiveSearch) -> bool:
    """Continues with the times of nodes at switches as unknowns; returns whether it does.

    Not so with Radau points: the last one in an interval is a node, where a switching control has no determined value.
    """
    inner = search.tight.rule.points[-1] < 1.0
    begun = search.tightening.rounds > 0
    if not (inner and search.moving.may_begin and search.is_solved()) or begun:
        return False
    nodes = search.refinement.nodes_at_switches(np.asarray(search.tight.shares, float))
    if nodes:
        solved = Solved(search.tight, search.state, search.parts)
        search.go_on(search.moving.begin(solved, nodes))
    return bool(nodes)


def tightens(search: AdaptiveSearch) -> bool:
    """Tightens bounds where a polynomial overshoots them; returns whether it does."""
    if not search.is_solved():
        return False
    solved = Solved(search.tight, search.state, search.parts)
    search.tight, search.state, search.parts = search.tightening.next(search.transcription, solved)
    hardly = search.tightening.best is None or search.tightening.best[0] <= SLIGHT
    if search.state is not solved.state and not hardly:
        search.moving.found = None
    search.tightening.began = len(search.rows)
    return not bool(search.state.done)


def stays_with_tighter_bounds(search: AdaptiveSearch) -> bool:
    """Goes on with tighter bounds or, if no solution is found with them, goes back to the one with the least excess;
    returns whether it goes on.

    The problem with its own bounds has a solution, so that neither another start nor the elastic problem can help, but a
    finer mesh may.
    """
    if search.tightening.best is None or bool(search.state.done):
        return False
    broken = int(search.state.stuck) >= STUCK or not np.isfinite(search.rows[-1]["cost"])
    if broken or len(search.rows) - search.tightening.began >= TIGHT_ITERATIONS:
        search.tight, search.state, search.parts = search.tightening.give_up()
    return not bool(search.state.done)


def refines(search: AdaptiveSearch) -> bool:
    """Continues on a refined mesh if the error between the nodes is too large; returns whether it does."""
    if not search.is_solved():
        return False
    found = search.refinement.refined(search.transcription, search.state)
    if found is not None:
        search.arcs.forget()
    return search.takes_mesh(found)


def changes_unit(search: AdaptiveSearch) -> bool:
    """Continues in a smaller unit of the cost if the solution's cost is small in this one; returns whether it does."""
    if not search.is_solved():
        return False
    found = Solution(search.transcription, search.tight, search.state)
    return search.takes(search.scaling.changed(found, len(search.rows)))


def takes_finer_mesh(search: AdaptiveSearch) -> bool:
    """Continues on a finer mesh if this one is too coarse; returns whether it does.

    Without a finer one the search ends, at a solution before if only that one has a mesh that suffices for the certificate.
    """
    if not (search.finer_mesh.may_begin and search.is_solved()):
        return False
    solved = Solved(search.tight, search.state, search.parts)
    found = OnMesh(search.transcription, solved, search.moving.found, search.free_arcs.found)
    if search.finer_mesh.is_asked(found) and _on_finer_mesh(search):
        return True
    if search.finer_mesh.was_better_than(found):
        search.go_back_to_coarser_mesh()
    return False


def _on_finer_mesh(search: AdaptiveSearch) -> bool:
    """Continues from a solution on a finer mesh; returns whether it does.

    It does not if that would have too many intervals, or if less time is left than the last mesh has taken.
    """
    at = search.transcription, search.state
    search.refinement.look_between_nodes(*at)
    found = search.refinement.finer(*at, bounds_of(search.state.mu.dtype).transcription)
    now, began = search.elapsed(), search.finer_mesh.began
    if found is not None and search.seconds - now < now - began:
        found = None
    search.finer_mesh.may_begin, search.finer_mesh.began = found is not None, now
    if found is not None:
        search.arcs.forget()
        search.iterations = len(search.rows) + search.most_iterations
    before, has_arcs = Solved(*at, None), search.free_arcs.found is not None
    taken = search.takes_mesh(found)
    if taken and has_arcs:
        state = search.free_arcs.on_finer_mesh(search.transcription, search.state, before)
        if state is not None:
            search.go_on(state)
    return taken


def stays_on_finer_mesh(search: AdaptiveSearch) -> bool:
    """Goes on with a finer mesh or, if no solution is found there, goes back to the solution on the mesh before; returns
    whether there is such a mesh.

    The problem has a solution, so that neither another start nor the elastic problem can help. Where only nodes have moved,
    a mesh with more intervals comes next.
    """
    before = search.finer_mesh.before
    if before is None or search.is_solved() or search.elastic is not None:
        return False
    broken = int(search.state.stuck) >= STUCK or not np.isfinite(search.rows[-1]["cost"])
    if broken or len(search.rows) - search.since >= FINER_ITERATIONS:
        has_more = len(search.transcription.shares) > len(before.own.shares)
        search.go_back_to_coarser_mesh(ends=has_more)
        return has_more or _on_finer_mesh(search)
    return True


def _has_kinks(search: AdaptiveSearch) -> bool:
    """Whether a control reaches a limit inside an interval, where its polynomial cannot have a kink: it then violates
    the limit between the points, or the cost is too high.
    """
    bounds = bounds_of(search.state.mu.dtype)
    if largest_excess(search.transcription, search.state) > 0.5 * bounds.violation:
        return True
    at = search.tight, search.state, search.parts
    excess = kink_excess(*at) + excess_at_nodes(*at)
    return excess > bounds.cost * (1.0 + abs(float(search.state.cost)))
