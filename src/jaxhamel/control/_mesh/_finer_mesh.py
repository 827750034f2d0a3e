"""Finer meshes, as long as the certificate would not hold because of the present one, or limits raise the cost.

A mesh is too coarse if the polynomials of the states depart too far from the motion, those of the controls from the best
ones, or if limits that switch or bind inside of intervals raise the cost by too much. First the nodes move to where the
errors of the states are large, which compiles nothing; then the mesh gets more intervals. The solution before counts if the
search on a finer mesh comes to no end, or only a solution before has a mesh that suffices for the certificate.
"""

from typing import NamedTuple

from jaxhamel.control._certificate._certificate import bounds_of
from jaxhamel.control._certificate._control_error import control_excess
from jaxhamel.control._certificate._cost_error import (
    LARGEST_EXCESS,
    raised_by_limits,
    switching_excess,
)
from jaxhamel.control._certificate._motion_error import transcription_error
from jaxhamel.control._certificate._second_order import second_order
from jaxhamel.control._collocation._tightening import largest_excess
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import Solved

MOST_INTERVALS = 320
# The search stops refining if two meshes in a row leave more than this share of the defect.
HELPS = 0.5
# Limits that bind between the collocation points raise the cost. Above this share of the cost the search takes a finer mesh,
# although a certificate holds up to `LARGEST_EXCESS`.
AIMED_EXCESS = 1e-3
# The number of iterations on a finer mesh without a solution after which the search goes back.
PATIENCE = 150


class OnMesh(NamedTuple):
    """A solution on one mesh.

    - `own`: the transcription with the problem's own bounds; `solved`: with those of the search, and its last iterate.
    - `moving`: the solution with unknown times of some nodes, None without one; `arcs`: that with unknown times of arcs.
    """

    own: Transcription
    solved: Solved
    moving: Solved | None
    arcs: Solved | None = None


class FinerMesh:
    """The part of a search that takes finer meshes.

    - `may_begin`: whether the mesh may become finer at the next solution.
    - `before`: the solution on the mesh before, None on the first mesh and after going back.
    - `good`: the last solution whose errors a certificate allows and whose curvature shows its kind, None without one.
    - `has_gone_back`: whether the search has ended with one of these two.
    """

    def __init__(self, may_begin: bool):
        self.may_begin = may_begin
        self.before: OnMesh | None = None
        self.good: OnMesh | None = None
        self.has_gone_back = False
        # The time at which the search on this mesh began, in seconds since the start.
        self.began = 0.0
        # For each mesh so far, the largest ratio of an error to the bound that the search aims at.
        self.defects: list[float] = []

    def is_asked(self, found: OnMesh) -> bool:
        """Whether the search should continue on a finer mesh; if so, `found` is kept."""
        errors = by_errors(found.solved)
        aimed, needed = (max(errors, by_limits(found, x)) for x in (AIMED_EXCESS, LARGEST_EXCESS))
        if aimed <= 1.0 or (needed <= 1.0 and is_decided(found.solved)):
            self.good = found
        self.defects.append(aimed)
        helped = len(self.defects) < 3 or aimed <= HELPS * max(self.defects[-3:-1])
        self.may_begin = aimed > 1.0 and helped
        if self.may_begin:
            self.before = found
        return self.may_begin

    def was_better_than(self, found: OnMesh) -> bool:
        """Whether the mesh of `found`, the last one, does not suffice for the certificate, and a mesh before does."""
        return self.good is not None and self.good is not found

    def go_back(self, ends: bool) -> OnMesh:
        """Returns the solution on the mesh before; `ends`: whether the search ends with it, or with a good one before it."""
        assert self.before is not None
        before = self.before
        if ends:
            before = self.good or before
            self.before, self.may_begin, self.has_gone_back = None, False, True
        return before


def is_decided(solved: Solved) -> bool:
    """Whether the curvature at a solution decides on the second-order condition, without more searches."""
    transcription, state, parts = solved
    return parts is not None and second_order(transcription, state, parts).along is None


def by_errors(solved: Solved) -> float:
    """Returns how far the errors of the polynomials exceed what the certificate allows: the largest ratio to its bound of
    three numbers.

    They are the error of the transcription, the relative change of the cost which it causes, and the one by better controls
    between the collocation points.
    """
    transcription, state, _ = solved
    bounds = bounds_of(state.mu.dtype)
    error, change = transcription_error(transcription, state.w, state.duals.costates)
    most = max(abs(float(change)), control_excess(*solved)) / (1.0 + abs(float(state.cost)))
    return max(float(error) / bounds.transcription, most / bounds.cost)


def by_limits(found: OnMesh, most: float) -> float:
    """Returns how far the limits exceed what is allowed: the largest ratio to its bound of three numbers.

    They are the violation of limits between the points, and the relative changes of the cost by controls that switch, and by
    limits that begin or cease to bind, inside an interval. `most`: the bound of the last one.
    """
    own, solved = found.own, found.solved
    switches, _ = switching_excess(own, *solved)
    share = sum(raised_by_limits(own, solved)) / (1.0 + abs(float(solved.state.cost)))
    bounds = bounds_of(solved.state.mu.dtype)
    violation = largest_excess(own, solved.state) / bounds.violation
    return max(violation, switches / bounds.cost, share / most)
