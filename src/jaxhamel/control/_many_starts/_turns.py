"""Many searches side by side, in turns: in each turn every search makes one attempt at a step.

If searches waited for one another after each iteration, each iteration would take as many attempts as the slowest search
needs, and each attempt factors the matrices of all (docs/performance.md#many-starts). Here a search whose step is accepted
begins its next iteration in the next turn, whatever the others do. Searches that wait take the lanes of those that end.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from jaxhamel._lanes._xla_cpu._jit import FEW_RUNS, QUICK, compiled_with
from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._derivatives import Residuals
from jaxhamel.control._interior_point._direction import no_direction
from jaxhamel.control._interior_point._interior_point import STUCK, examined
from jaxhamel.control._interior_point._line_search import (
    Attempt,
    after_attempts,
    attempt_after_halvings,
    first_attempt,
    next_attempt,
    setting_of,
)
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._many_starts._stacked import Stacked


class OneSearch(NamedTuple):
    """One search in a lane.

    - `state`: the state between two iterations.
    - `attempt`: the attempt at a step that is under way; once it is over, the next turn begins an iteration.
    - `iterations`: the number of iterations so far; `place`: the index of the search among all searches.
    """

    state: SearchState
    attempt: Attempt
    iterations: Int[Array, ""]
    place: Int[Array, ""]


class Searches(NamedTuple):
    """All searches, of which some run in lanes.

    - `states`, `iterations`: those of all S searches; the entries of searches in lanes are out of date until `stored`.
    - `lanes`: the searches that run; `begun`: the number of searches that have had a lane so far; `last`: the number of
      those that get one.
    """

    states: SearchState
    iterations: Int[Array, " S"]
    lanes: OneSearch
    begun: Int[Array, ""]
    last: Int[Array, ""]


@compiled_with(QUICK)
def lanes_of(states: SearchState, width: int, last: Int[Array, ""]) -> Searches:
    """All searches before the first turn; the first `width` of them have lanes, and the first `last` of them get one."""
    count = states.mu.shape[0]
    some = jax.tree.map(lambda x: x[:width], states)
    none = jnp.zeros(count, int)
    lanes = OneSearch(some, jax.vmap(_no_attempt)(some), none[:width], jnp.arange(width))
    return Searches(states, none, lanes, jnp.asarray(width), last)


def _no_attempt(state: SearchState) -> Attempt:
    """The attempt of a search before its first turn. It is over, so that the first turn begins an iteration."""
    w, duals, zero = state.w, state.duals, jnp.zeros_like(state.mu)
    residuals = jax.tree.map(
        jnp.zeros_like, Residuals(duals.stages, duals.costates[1:], duals.conditions, duals.limits)
    )
    nothing, none, yes = no_direction(w, duals), jnp.zeros((), int), jnp.asarray(True)
    return Attempt(none, zero, residuals, nothing, zero, nothing, zero, none, zero, w, ~yes, yes)


@compiled_with(FEW_RUNS)
def take_turns(
    transcriptions: Stacked,
    searches: Searches,
    tolerance: Scalar,
    most: Int[Array, ""],
    few: Int[Array, ""],
    many: Int[Array, ""],
) -> Searches:
    """Makes up to `many` turns, fewer if at most `few` searches are left. A search has at most `most` iterations.

    `transcriptions`: those of all searches.
    """

    def go_on(carry):
        searches, k = carry
        return (k < many) & (searches_left(searches, most) > few)

    def body(carry):
        searches, k = carry
        own = transcriptions.rows(searches.lanes.place)
        lanes = own.mapped(lambda each, lane: _turn(each, lane, tolerance, most), searches.lanes)
        return _with_waiting(searches._replace(lanes=lanes), most), k + 1

    return jax.lax.while_loop(go_on, body, (searches, jnp.zeros((), int)))[0]


def goes_on(state: SearchState, iterations: Int[Array, "*L"], most) -> Bool[Array, "*L"]:
    """Whether a search goes on after `iterations` iterations, of at most `most`; with a leading axis for many searches."""
    broken = (iterations > 0) & ~jnp.isfinite(state.cost)
    return ~(state.done | (state.stuck >= STUCK) | (iterations >= most) | broken)


def searches_left(searches: Searches, most: Int[Array, ""]) -> Int[Array, ""]:
    """The number of searches that have not ended."""
    return jnp.sum(_go_on(searches.lanes, most).astype(int)) + _waiting(searches)


def _go_on(lanes: OneSearch, most) -> Bool[Array, "*L"]:
    return goes_on(lanes.state, lanes.iterations, most)


def _waiting(searches: Searches) -> Int[Array, ""]:
    return jnp.maximum(searches.last - searches.begun, 0)


def _turn(transcription: Transcription, lane: OneSearch, tolerance: Scalar, most) -> OneSearch:
    """Makes one attempt of a search. An iteration begins with the errors of its iterate, and ends with an accepted step.

    The derivatives at the iterate are computed anew for each attempt: they take a tenth of its time, and no memory. Steps
    are not corrected to second order and multipliers not estimated anew, since each would take a turn
    (docs/performance.md#many-starts).
    """
    new, parts, residuals = examined(transcription, lane.state, tolerance)
    begins = lane.attempt.over
    state = _chosen(begins, new, lane.state)
    setting = setting_of(transcription, state, parts, residuals, refines=False)
    attempt = next_attempt(setting, _chosen(begins, first_attempt(setting), lane.attempt))
    attempt = attempt_after_halvings(setting, attempt)
    after, _ = after_attempts(setting, attempt)
    state = _chosen(attempt.over & ~state.done, after, setting.state)
    counted = attempt.over & ~lane.state.estimates
    next_one = OneSearch(
        state, attempt, jnp.where(counted, lane.iterations + 1, lane.iterations), lane.place
    )
    return _chosen(_go_on(lane, most), next_one, lane)


def _with_waiting(searches: Searches, most) -> Searches:
    """Gives the lanes of ended searches to searches that wait, if there are any."""
    ended = ~_go_on(searches.lanes, most)
    any_ended = jnp.any(ended) & (_waiting(searches) > 0)
    return jax.lax.cond(any_ended, _exchanged, lambda x, _: x, searches, ended)


def _exchanged(searches: Searches, ended: Bool[Array, " L"]) -> Searches:
    """Stores the searches in lanes, and replaces the ended ones by searches that wait, as far as there are any."""
    kept = _stored(searches)
    count, lanes = searches.last, searches.lanes
    nexts = searches.begun + jnp.cumsum(ended.astype(int)) - 1
    taken = ended & (nexts < count)
    place = jnp.where(taken, nexts, lanes.place)
    states = jax.tree.map(lambda x: x[place], kept.states)
    fresh = OneSearch(
        _many_chosen(taken, states, lanes.state),
        lanes.attempt._replace(over=lanes.attempt.over | taken),
        jnp.where(taken, 0, lanes.iterations),
        place,
    )
    return kept._replace(lanes=fresh, begun=searches.begun + jnp.sum(taken.astype(int)))


@compiled_with(QUICK)
def stored(searches: Searches) -> Searches:
    """Copies states and iterations of the searches in lanes to their places among all searches."""
    return _stored(searches)


def _stored(searches: Searches) -> Searches:
    place = searches.lanes.place
    states = jax.tree.map(
        lambda every, own: every.at[place].set(own), searches.states, searches.lanes.state
    )
    iterations = searches.iterations.at[place].set(searches.lanes.iterations)
    return searches._replace(states=states, iterations=iterations)


def _chosen(condition, a: Any, b: Any) -> Any:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)


def _many_chosen(condition: Bool[Array, " L"], a: Any, b: Any) -> Any:
    return jax.vmap(_chosen)(condition, a, b)
