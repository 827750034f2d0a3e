"""The unit of a search's cost: the search divides all costs by it, so that they are of the order of 1.

The search has absolute tolerances and a last barrier parameter, beside which a small cost would vanish. The first unit
comes from the costs of the guess. If the cost of the solution is small in this unit, or the barrier of the limits raises it
by too much, the search continues from the solution in a smaller unit. All units are powers of two, so that dividing by them
causes no rounding.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._cost_error import barrier_gap
from jaxhamel.control._certificate._violation import evaluated
from jaxhamel.control._collocation._start import bent
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._interior_point import STUCK
from jaxhamel.control._interior_point._state import SearchState, resumed

LEAST, LARGEST = 0.1, 1e6  # if the cost of the guess lies between these, the unit is 1
SMALL = 1e-2  # a solution's cost below this, in its unit, leads to a smaller unit
# The largest share of the barrier in a solution's cost; in single precision it is 1e-3.
LARGEST_SHARE = 1e-8
LEAST_FACTOR = 2.0**-40  # the least ratio of a unit to the one before
CHANGES = 2  # the largest number of changes of the unit at solutions
PATIENCE = 30  # after this many iterations in a new unit without a solution, the search goes back to the unit before


class Solution(NamedTuple):
    """A solution in one unit of the cost.

    `transcription`: with the problem's bounds; `tight`: with the bounds of the search; `state`: the state of the search.
    """

    transcription: Transcription
    tight: Transcription
    state: SearchState


class Scaling:
    """The changes of one search's cost unit at its solutions."""

    def __init__(self) -> None:
        self.changes = 0
        self.before: Solution | None = None  # the solution at the last change of the unit
        self.since = 0  # the iteration of this change
        # Whether the search came to no end in a smaller unit that its solution asked for.
        self.failed = False

    def changed(self, found: Solution, iteration: int) -> Solution | None:
        """The solution in a smaller unit, from which the search continues; None if its unit is small enough or the unit has
        been changed `CHANGES` times."""
        factor = smaller_by(found.tight, found.state)
        if factor == 1.0 or self.changes >= CHANGES:
            self.before = None
            return None
        self.changes += 1
        self.before, self.since = found, iteration
        return Solution(
            in_unit(found.transcription, factor),
            in_unit(found.tight, factor),
            magnified(found.state, jnp.asarray(1.0 / factor, found.state.mu.dtype)),
        )

    def given_up(self, state: SearchState, iteration: int) -> Solution | None:
        """The solution in the previous unit if the search is stuck or takes too long in the smaller one; otherwise None."""
        ends = int(state.stuck) >= STUCK or iteration - self.since >= PATIENCE
        if self.before is None or bool(state.done) or not ends:
            return None
        self.failed = self.changes == 1
        found, self.before, self.changes = self.before, None, CHANGES
        return found._replace(state=resumed(found.state))


def first_unit(transcription: Transcription, w: CollocationPoint) -> float:
    """The unit for a search from the guess `w`: 1 if the larger cost of `w` and `bent(w)` is of moderate size."""
    costs = [float(evaluated(transcription, x)[0]) for x in (w, bent(transcription, w))]
    return unit_of(max((abs(x) for x in costs if np.isfinite(x)), default=1.0))


def smaller_by(transcription: Transcription, state: SearchState) -> float:
    """The factor, at most 1, by which the unit should become smaller at a solution."""
    gap = barrier_gap(transcription, state.w, state.duals)
    return smaller_for(abs(float(state.cost)), gap, state.mu.dtype)


def smaller_for(cost: float, gap: float, dtype: Any) -> float:
    """The same factor for a solution of this cost, of which the barrier makes up to `gap`."""
    if cost == 0 or not np.isfinite(cost):
        return 1.0
    share = gap / cost
    most = LARGEST_SHARE if dtype == jnp.float64 else 1e-3
    factor = min(cost if cost < SMALL else 1.0, 0.5 * most / share if share > most else 1.0)
    return 1.0 if factor == 1.0 else max(_power_of_two(factor), LEAST_FACTOR)


def unit_of(size: float) -> float:
    """The unit of costs of this size; 1 if the size is moderate or unknown, that is 0 or not finite."""
    moderate = size == 0 or not np.isfinite(size) or LEAST <= size <= LARGEST
    return 1.0 if moderate else _power_of_two(size)


def _power_of_two(size: float) -> float:
    return float(2.0 ** np.round(np.log2(size)))


def in_unit(transcription: Transcription, factor: float) -> Transcription:
    """The transcription with its cost unit times `factor`."""
    return eqx.tree_at(lambda t: t.cost_unit, transcription, factor * transcription.cost_unit)


@compiled_with(QUICK)
def magnified(state: SearchState, by: jax.Array) -> SearchState:
    """The state from which the search continues with cost, multipliers and μ all `by` times as large."""
    duals = jax.tree.map(lambda x: by * x, state.duals)
    return resumed(state._replace(duals=duals, mu=by * state.mu, cost=by * state.cost))
