"""Changes of a search that has found no solution yet, or one whose motion jumps over a limit: bent guesses, a new start on a
coarse mesh, the elastic problem.

Each function takes the search after its last iterations, changes it if need be, and returns whether it has changed it.
"""

import dataclasses

import numpy as np

from jaxhamel.control._collocation._adaptive_search import MOST_BENDS, AdaptiveSearch
from jaxhamel.control._collocation._elastic import (
    elastic_start,
    original,
)
from jaxhamel.control._collocation._new_start import (
    PATIENCE,
    coarser,
    creeps,
    moved_by_own_control,
    new_start,
)
from jaxhamel.control._collocation._start import (
    bent,
)
from jaxhamel.control._contradictions._crossings import TRIAL, at_midpoints, crosses, lesser
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import Solved, first_state
from jaxhamel.control._mesh._transfer import carried_over

# the share of the conditions' residuals that a step must leave, to first order, for these to contradict one another
CONTRADICTORY = 0.1
LATEST_BEND = 200  # the last iteration after which a search starts anew from a bent guess
MOST_RESTORATIONS = 2  # the largest number of elastic problems between two starts


def bends_at_once(search: AdaptiveSearch) -> bool:
    """Starts the search anew, from a bent guess, if the linearised conditions contradict one another at its start;
    returns whether it does.

    The first step then tells nothing of the way to feasible points, and a search from there would creep.
    """
    fresh, search.fresh = search.fresh, False
    if not fresh or search.bends >= MOST_BENDS or float(search.state.missed) < CONTRADICTORY:
        return False
    _start_bent(search)
    return True


def starts_anew(search: AdaptiveSearch) -> bool:
    """Starts the search anew if all its latest steps were short; returns whether it does."""
    rows, tolerance = search.rows[search.since :], float(search.tolerance)
    if not search.may_start_anew or search.elastic is not None or not creeps(rows, tolerance):
        return False
    search.may_start_anew = False
    search.keep_iterate()
    coarse = coarser(search.transcription)
    if coarse is not search.transcription:
        search.fine = search.transcription, search.state
    search.transcription = search.tight = coarse
    search.go_on(new_start(search.problem, coarse, search.barrier))
    return True


def leaves_coarse_mesh(search: AdaptiveSearch) -> bool:
    """Returns from the coarse mesh to the method's mesh if the search has ended there; returns whether it does.

    The search continues from the solution on the coarse mesh or, if there is none, with the elastic problem.
    """
    failed = int(search.state.stuck) >= STUCK or len(search.rows) - search.since >= PATIENCE
    if search.fine is None or not (bool(search.state.done) or failed):
        return False
    coarse, (fine, before) = search.transcription, search.fine
    search.transcription, search.tight, search.fine = fine, fine, None
    if bool(search.state.done):
        search.go_on(carried_over(coarse, search.state, fine))
    else:
        search.go_on(before)
        begin_elastic(search)
    return True


def bends(search: AdaptiveSearch) -> bool:
    """Starts the search anew, from a bent guess, if it ends at an infeasible point; returns whether it does.

    At a straight guess the gradients of conditions may vanish, so that a feasible problem seems infeasible:
    displacements across the planes of wheels, and turns of a body by its parts, are of second order in the control.
    Displacements of third order have no gradient at straight states either: the second time the states are those of the
    motion under the bent control.
    """
    ended = bool(search.state.done) or int(search.state.stuck) >= STUCK
    if search.bends >= MOST_BENDS or search.elastic is None or not ended:
        return False
    if search.has_elastic_end():
        found = search.found_contradiction()
        if found is None:
            return False
        search.contradiction = lesser(search.contradiction, found)
    if len(search.rows) > LATEST_BEND:
        return False
    _start_bent(search)
    return True


def relaxes(search: AdaptiveSearch) -> bool:
    """Continues with the elastic problem if the search does not come closer to feasible points; returns whether it does."""
    own = search.elastic is None and search.fine is None
    if not (own and search.is_hopeless() and search.restorations < MOST_RESTORATIONS):
        return False
    begin_elastic(search)
    return True


def returns_from_elastic(search: AdaptiveSearch) -> bool:
    """Continues with the problem itself from a feasible solution of the elastic problem; returns whether it does."""
    if not search.has_elastic_end() or search.found_contradiction() is not None:
        return False
    at, w = search.transcription, original(search.transcription, search.state.w)
    state = first_state(at, w, search.barrier)
    if search.elastic is search.lesser_sum.elastic:
        search.contradiction = None  # with another elastic problem there is none
    _give_up_elastic(search)
    if search.transcription is not at:
        state = carried_over(at, state, search.transcription)
    search.go_on(state)
    return True


def tries_bounds(search: AdaptiveSearch) -> bool:
    """Continues with bounds moved inwards if the solution crosses a limit of the state between the points, and with the
    elastic problem if these do not help; returns whether it does."""
    if search.trial.before is not None:
        return _judges_trial(search)
    if search.has_crossed:
        return crosses_limits(search)
    own, w = search.transcription, search.state.w
    if search.trial.is_over or not (
        search.is_solved() and crosses(own, w, lambda: search.of_state)
    ):
        return False
    solved = Solved(search.tight, search.state, search.parts)
    posed = search.trial.begin(own, solved, search.tightening.least)
    if posed is None:
        return False
    search.tight = posed.transcription
    search.go_on(posed.state)
    return True


def _judges_trial(search: AdaptiveSearch) -> bool:
    """Ends the trial of tighter bounds if its search has ended; returns whether the search goes on."""
    ended = bool(search.state.done) or int(search.state.stuck) >= STUCK
    if not ended and len(search.rows) - search.since < TRIAL:
        return True
    before, search.has_crossed = search.trial.end(search.transcription, search.state)
    search.go_on(before.state)
    search.tight, search.parts = before.transcription, before.parts
    return search.has_crossed and crosses_limits(search)


def crosses_limits(search: AdaptiveSearch) -> bool:
    """Continues with the elastic problem whose limits hold beside the points, too, if the solution crosses a limit of the
    state between the points; returns whether it does."""
    at = search.transcription, search.state.w
    if not (search.is_solved() and crosses(*at, lambda: search.of_state)):
        return False
    if search.restorations < MOST_RESTORATIONS:
        search.has_crossed = True
        begin_elastic(search)
    elif search.contradiction is not None:
        search.take_contradiction()
    return search.elastic is not None


def begin_elastic(search: AdaptiveSearch) -> None:
    """Continues with the elastic problem; after a crossing on midpoints, with limits beside the points, too."""
    search.before_elastic = search.transcription, search.state
    search.keep_iterate()
    if search.has_crossed:
        search.forget_mesh()
        own = search.own_mesh = search.transcription
        search.transcription = search.tight = at_midpoints(own)
        search.state = carried_over(own, search.state, search.transcription)
    copies = 3 if search.has_crossed else 1
    at = search.transcription, search.state.w
    search.elastic, w = elastic_start(*at, search.of_state, copies)
    search.go_on(first_state(search.elastic, w, search.barrier))
    search.restorations += 1


def _give_up_elastic(search: AdaptiveSearch) -> None:
    """Gives up the elastic problem, and its mesh if it has one."""
    search.transcription = search.own_mesh or search.transcription
    search.tight, search.elastic, search.own_mesh = search.transcription, None, None


def _start_bent(search: AdaptiveSearch) -> None:
    """Starts the search anew from a bent guess, the second time with the states of the motion under its controls."""
    search.keep_iterate()
    _give_up_elastic(search)
    search.forget_mesh()
    unit = search.transcription.cost_unit
    search.transcription = dataclasses.replace(search.mesh_of_first, cost_unit=unit)
    search.tight = search.transcription
    w = bent(search.transcription, search.first)
    if search.bends:
        moved = moved_by_own_control(search.transcription, search.problem, w)
        w = moved if np.all(np.isfinite(moved.X)) else w
    search.bends, search.restorations, search.fresh = search.bends + 1, 0, True
    search.go_on(first_state(search.transcription, w, search.barrier))
