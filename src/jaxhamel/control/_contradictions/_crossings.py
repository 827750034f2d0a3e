"""Motions that cross a limit of the state between two collocation points, and contradictions among constraints.

A motion jumps over a wall that is thinner than its way between two points: the limit holds at all points. More intervals or
tighter bounds then make the jump only faster. By this jumps differ from polynomials that overshoot a bound.

The elastic problem is then solved on intervals with one point in the middle of each, on which states are linear, so that
limits that hold there by their tangents hold at the nodes, too. A polynomial of higher degree could still jump, since its
slopes at the points may be small.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel.control._certificate._endings import (
    exceeded,
    measured_violations,
    negligible_violation,
    sizes_of_constraints,
)
from jaxhamel.control._certificate._violation import row_counts
from jaxhamel.control._collocation._elastic import Elastic, least_violations
from jaxhamel.control._collocation._points import rule
from jaxhamel.control._collocation._start import is_of_control, on_mesh
from jaxhamel.control._collocation._tightening import (
    largest_excess,
    resumed_in_bounds,
    tightened,
)
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._state import SearchState, Solved
from jaxhamel.control._problem._problem import ControlProblem

# a motion jumps if bounds that moved inwards leave more than this share of the violation
STAYS = 0.7
TRIAL = 25  # the largest number of iterations with these bounds
# the share of the elastic variables below which the violations found come from tangents
TANGENTS = 0.5
BETTER = 1e-3  # the least relative difference of two sums of violations that counts


class Contradiction(NamedTuple):
    """A solution of the elastic problem at which constraints are violated: the sum of the violations, each divided by the
    size of its constraint, the transcription, the elastic problem, and the state of its search."""

    total: float
    transcription: Transcription
    elastic: Elastic
    state: SearchState


def rows_of_state(
    problem: ControlProblem, transcription: Transcription, w: CollocationPoint
) -> tuple[bool, ...]:
    """Whether each row of the limits is a function of the state alone."""
    counts = row_counts(transcription, w) if transcription.limits else []
    pairs = zip(transcription.limits, counts, strict=True)
    return tuple(x for limit, n in pairs for x in [not is_of_control(problem, limit)] * n)


def at_midpoints(transcription: Transcription) -> Transcription:
    """The problem on intervals with one point each, as many as the mesh has points."""
    points = len(transcription.rule.points)
    parts = jnp.arange(points, dtype=transcription.shares.dtype) / points
    begin, length = transcription.shares[:-1, None], jnp.diff(transcription.shares)[:, None]
    shares = jnp.append((begin + length * parts[None]).ravel(), transcription.shares[-1])
    return on_mesh(transcription, shares, rule("gauss", 1))


def crosses(
    transcription: Transcription, w: CollocationPoint, of_state: Callable[[], tuple[bool, ...]]
) -> bool:
    """Returns whether the motion violates a limit that depends on the state alone, on a grid finer than the collocation
    points.

    **Arguments:** `of_state`: returns whether each row of the limits is a function of the state alone. It traces the limits,
    and is called only if one of them is exceeded.
    """
    if not transcription.limits:
        return False
    far = exceeded(transcription, w)
    return bool(np.any(far)) and bool(np.any(far & np.asarray(of_state(), bool)))


def contradiction_at(
    transcription: Transcription, elastic: Elastic, state: SearchState
) -> Contradiction | None:
    """The contradiction that a solution of the elastic problem shows; None if its motion meets all constraints, or may be
    corrected to meet them.

    Tangents to a limit reach beyond its bound where the motion touches it. Violations that are mostly theirs do not count.
    """
    asked = asked_violations(transcription, elastic, state)
    if float(np.max(asked, initial=0.0)) < negligible_violation(state.w):
        return None
    found, counts = measured_violations(transcription, elastic, state.w)
    sizes = sizes_of_constraints(transcription, found)
    total = float(np.sum(np.where(counts, found, 0.0) / sizes))
    if elastic.copies > 1 and total < TANGENTS * float(np.sum(asked)):
        return None
    return Contradiction(total, transcription, elastic, state)


def asked_violations(
    transcription: Transcription, elastic: Elastic, state: SearchState
) -> Float[np.ndarray, " b+r"]:
    """The violations by which the elastic problem relaxes all conditions and limits, each divided by its size."""
    asked = np.concatenate(least_violations(elastic, state.w))
    return asked / sizes_of_constraints(transcription, asked)


def lesser(first: Contradiction | None, second: Contradiction | None) -> Contradiction | None:
    """The contradiction with the smaller sum of violations; the second one if they are equal."""
    if first is None or second is None:
        return first or second
    return first if first.total < (1 - BETTER) * second.total else second


class LesserSum:
    """The search at a contradiction for another one with a lesser sum of violations.

    - `elastic`: the elastic problem by which it looks for one, None before it has begun.
    - `weights`: how often it has weighed the cost less; `total_before`: the sum of violations before it did so last.
    """

    def __init__(self) -> None:
        self.elastic: Elastic | None = None
        self.weights, self.total_before = 0, np.inf


class TrialOfBounds:
    """A trial, once in a search, of bounds that are moved inwards, where a solution crosses a limit between the points.

    `before`: the solution before the trial while it is under way, otherwise None.
    """

    def __init__(self) -> None:
        self.before: Solved | None = None
        self.is_over = False

    def begin(self, own: Transcription, solved: Solved, least: float) -> Solved | None:
        """The problem with tighter bounds, and the state from which its search starts; None if no bound can move."""
        self.is_over = True
        found = tightened(own, *solved[:2], least, False)
        if found is None:
            return None
        self.before = solved
        return Solved(found[0], resumed_in_bounds(found[0], solved.state), solved.parts)

    def end(self, own: Transcription, state: SearchState) -> tuple[Solved, bool]:
        """(the solution before the trial, whether its motion jumps: the trial's solution is no better).

        Without a solution a trial tells nothing: with tighter bounds there may be no motion.
        """
        assert self.before is not None
        before, self.before = self.before, None
        stays = largest_excess(own, state) > STAYS * largest_excess(own, before.state)
        return before, stays and bool(state.done)
