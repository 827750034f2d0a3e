"""Tightens limits so that they hold between the collocation points too.

If a polynomial overshoots a bound in an interval, this bound moves inwards there by a little more than the excess. The
excess then falls by less than the bound has moved, and the next move is larger in the same ratio (the secant method).
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._certificate._violation import excesses
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._state import SearchState, Solved, resumed
from jaxhamel.control._scaling._sizes import of_size, size_of

MORE = 1.1  # a bound is moved by this factor times the amount by which it is violated
MOST = 4.0  # the largest ratio of the move of a bound to the fall of the excess that it made
TIGHTENINGS = 8  # the largest number of tightenings of the bounds on a mesh
# From this tightening on (counted from 0) the bounds of neighbouring intervals are tightened, too, as a point where a limit
# binds may move into them.
WIDE_FROM = 2
LONGEST = 0.25  # the longest move of a bound, as a share of its distance from the other one
HELPS = 0.9  # the ratio of two excesses below which a tightening has helped
BARRIER_AFTER_TIGHTENING = 1e-7  # the least barrier parameter μ with which the search continues


class Overshoot(NamedTuple):
    """The excess over the lower and the upper bounds, `(2, N, r)`, and the distances by which these were moved inwards."""

    excess: Float[np.ndarray, "2 N r"]
    tightening: Float[np.ndarray, "2 N r"]


class Tightening:
    """The part of a search in which bounds move inwards, at most `TIGHTENINGS` times on each mesh.

    - `rounds`: the number of tightenings so far.
    - `best`: the least excess over the problem's own bounds so far, and the solution with it.
    """

    def __init__(self, least: float):
        """**Arguments:** `least`: the largest excess for which bounds stay, half of what a certificate allows."""
        self.least = least
        self.forget()

    def forget(self) -> None:
        """Forgets all tightenings, since the search continues on another mesh or with another problem."""
        self.rounds = 0
        self.began = 0  # the number of iterations made when bounds last moved inwards
        self.overshoot: Overshoot | None = None
        self.best: tuple[float, Solved] | None = None

    def give_up(self) -> Solved:
        """Lets no bound move any further; returns the solution whose limits are violated least between the points."""
        assert self.best is not None
        self.rounds = TIGHTENINGS
        return self.best[1]

    def next(self, own: Transcription, solved: Solved) -> Solved:
        """The problem with tighter bounds and the state from which its search starts; `solved` if its excess is small
        enough, and the best solution if no tightenings are left.

        If a polynomial overshoots the bound at points where it does not bind, moving it does not help, and may harm.
        """
        excess = largest_excess(own, solved.state)
        if excess <= self.least:
            return solved
        helps = self.best is None or excess < HELPS * self.best[0]
        if self.best is None or excess < self.best[0]:
            self.best = excess, solved
        may_end = self.best[0] <= 2 * self.least
        if self.rounds >= TIGHTENINGS or (may_end and not helps):
            return self.best[1]
        wide, before = self.rounds >= WIDE_FROM, self.overshoot
        found = tightened(own, *solved[:2], self.least, wide, before)
        if found is None:
            return solved
        tight, self.overshoot = found
        self.rounds += 1
        return Solved(tight, resumed_in_bounds(tight, solved.state), solved.parts)


def tightened(
    original: Transcription,
    current: Transcription,
    state: SearchState,
    least: float,
    neighbours: bool,
    before: Overshoot | None = None,
) -> tuple[Transcription, Overshoot] | None:
    """Returns the transcription with tighter bounds and the overshoot found; None if the original bounds are violated by at
    most `least`.

    **Arguments:** `neighbours`: whether an excess tightens the bounds of the two neighbouring intervals, too; `before`: the
    overshoot of the last tightening on this mesh, None before the first one.
    """
    if not original.limits:
        return None
    if largest_excess(original, state) <= least:
        return None
    over = excesses(original, state.w)
    over = [largest_nearby(x) for x in over] if neighbours else over
    now = Overshoot(np.stack([np.asarray(x) for x in over]), _tightening_so_far(original, current))
    further = MORE * now.excess * (1.0 if before is None else _ratio(before, now))
    tighter = _moved_inwards(original, current, [x[:, None] for x in further])
    bounds = tuple(jnp.asarray(x, current.lower.dtype) for x in tighter)
    return eqx.tree_at(lambda t: (t.lower, t.upper), current, bounds), now


def _ratio(before: Overshoot, now: Overshoot) -> Float[np.ndarray, "2 N r"]:
    """The move of each bound over the fall of the excess that it made, between 1 and `MOST`; 1 where the excess has not
    fallen.
    """
    moves, fell = now.tightening - before.tightening, before.excess - now.excess
    ratio = np.divide(moves, fell, out=np.ones_like(moves), where=fell > 0)
    return np.clip(ratio, 1.0, MOST)


def _tightening_so_far(
    original: Transcription, current: Transcription
) -> Float[np.ndarray, "2 N r"]:
    """The distances by which the lower and the upper bounds of `current` lie inside of the original ones."""
    pairs = (original.lower, current.lower), (current.upper, original.upper)
    tightening = []
    for below, above in pairs:
        low, high = np.asarray(below, float), np.asarray(above, float)
        gap = np.subtract(high, low, out=np.zeros_like(low), where=np.isfinite(low))
        tightening.append(np.max(gap, axis=1))
    return np.stack(tightening)


def largest_excess(transcription: Transcription, state: SearchState) -> float:
    """The largest violation of a limit on the fine grid, as a multiple of the limit's size."""
    if not transcription.limits:
        return 0.0
    sizes = np.asarray(size_of(transcription.sizes, "limits"))
    return max(float(np.max(x / sizes)) for x in excesses(transcription, state.w))


def cost_of_excess(transcription: Transcription, state: SearchState) -> float:
    """Σ multiplier · excess: about the change of the cost if the limits held between the points, too."""
    pairs = zip(excesses(transcription, state.w), (state.duals.low, state.duals.high), strict=True)
    return sum(float(np.sum(x * np.sum(np.asarray(z, float), axis=1))) for x, z in pairs)


def largest_nearby(excess: Float[np.ndarray, "N r"]) -> Float[np.ndarray, "N r"]:
    """For each interval, the largest excess in it and in its two neighbours."""
    padded = np.pad(excess, ((1, 1), (0, 0)))
    return np.maximum(np.maximum(padded[:-2], excess), padded[2:])


def _moved_inwards(
    original: Transcription, current: Transcription, by
) -> tuple[np.ndarray, np.ndarray]:
    """The current (lower, upper) bounds moved inwards by at most `LONGEST` times their first distance, unless less than a
    tenth of it would be left.
    """
    below, above = (np.asarray(x) for x in (original.lower, original.upper))
    lower, upper = (np.asarray(x) for x in (current.lower, current.upper))
    bounded = np.isfinite(below) & np.isfinite(above)
    width = np.subtract(above, below, out=np.full_like(above, np.inf), where=bounded)
    low, high = (np.minimum(np.asarray(x, lower.dtype), LONGEST * width) for x in by)
    least = 0.1 * width
    crowded = (below == above) | bounded & (upper - high - (lower + low) < least)
    return np.where(crowded, lower, lower + low), np.where(crowded, upper, upper - high)


@compiled_with(QUICK)
def resumed_in_bounds(
    transcription: Transcription, state: SearchState, least: float = BARRIER_AFTER_TIGHTENING
) -> SearchState:
    """The state from which the search continues after bounds have changed: slack variables lie between the new bounds, and
    the barrier parameter μ is at least `least`.
    """
    mu = jnp.maximum(state.mu, least)
    lower, upper = transcription.lower, transcription.upper
    width = jnp.where(jnp.isfinite(upper - lower), upper - lower, jnp.inf)
    own = of_size(jnp.full_like(width, 1e-4), size_of(transcription.sizes, "limits"))
    margin = jnp.minimum(own, 0.01 * width)
    slack = jnp.minimum(jnp.maximum(state.w.slack, lower + margin), upper - margin)
    slack = jnp.where(lower == upper, lower, slack)
    below = jnp.where(jnp.isfinite(lower) & (lower < upper), mu / (slack - lower), 0.0)
    above = jnp.where(jnp.isfinite(upper) & (lower < upper), mu / (upper - slack), 0.0)
    duals = state.duals._replace(
        low=jnp.maximum(state.duals.low, below), high=jnp.maximum(state.duals.high, above)
    )
    w = state.w._replace(slack=slack)
    return resumed(state._replace(w=w, duals=duals, mu=mu))
