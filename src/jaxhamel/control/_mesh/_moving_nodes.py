"""Nodes of the mesh whose times are unknowns, so that a limited control switches at its best times.

On a mesh with given nodes at the switches, all values of the control are at their bounds, and the multipliers are not
unique: the switching function may change its sign anywhere between the last point before a switch and the first one after
it. With the time of the node as an unknown, ∂L/∂t = 0 makes the Hamiltonian continuous there, and the multipliers unique.
"""

import dataclasses
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Scalar
from jaxhamel.control._collocation._start import transcribe
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._interior_point._interior_point import more_iterations
from jaxhamel.control._interior_point._state import SearchState, Solved, resumed
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._scaling._sizes import TypicalSizes

BARRIER = 1e-6  # the least barrier parameter μ with which a search with moving nodes begins
ITERATIONS = 30  # the largest number of iterations with moving nodes
# The part of a length between moving nodes by which it may shrink. The length left over, which is the longest one, shrinks
# by at most the same part if all others grow as much as they may.
ROOM = 0.9


def with_moving(
    transcription: Transcription, nodes: tuple[int, ...], remainder: int | None = None
) -> Transcription:
    """The transcription with the lengths between `nodes` as unknowns, at the end of p, as shares of the duration.

    `remainder`: the number of the length that is left over; None: the longest one.
    """
    transcription = dataclasses.replace(transcription, moving=nodes)
    if remainder is None:
        remainder = int(np.argmax(np.asarray(_all_lengths(transcription))))
    transcription = dataclasses.replace(transcription, remainder=remainder)
    lengths, left = lengths_between(transcription), _all_lengths(transcription)[remainder]
    return dataclasses.replace(
        transcription,
        p_lower=jnp.concatenate([transcription.p_lower, (1 - ROOM) * lengths]),
        p_upper=jnp.concatenate([transcription.p_upper, lengths + ROOM * left / len(nodes)]),
        sizes=_with_more(transcription.sizes, lengths),
    )


def lengths_between(transcription: Transcription) -> Float[Array, " F"]:
    """The lengths between moving nodes, as shares of the duration, without the one that is left over."""
    all_lengths = _all_lengths(transcription)
    return jnp.concatenate(
        [all_lengths[: transcription.remainder], all_lengths[transcription.remainder + 1 :]]
    )


def _all_lengths(transcription: Transcription) -> Float[Array, " F+1"]:
    """The lengths between the first node, the moving nodes and the last node."""
    return jnp.diff(transcription.shares[jnp.asarray([0, *transcription.moving, -1])])


def _with_more(sizes: TypicalSizes | None, lengths: Float[Array, " F"]) -> TypicalSizes | None:
    """The sizes with those of the lengths between moving nodes, which are 1."""
    if sizes is None:
        return None
    return sizes._replace(p=jnp.concatenate([sizes.p, jnp.ones_like(lengths)]))


def transcribed_like(found: Transcription, problem: ControlProblem) -> Transcription:
    """The transcription of `problem` on the mesh of `found`, with the same moving nodes."""
    new = transcribe(problem, found.rule, found.shares, found.cost_unit)
    return with_moving(new, found.moving, found.remainder) if found.moving else new


class MovingNodes:
    """The part of a search in which the times of some nodes are unknowns; it comes at most once for each mesh.

    - `before`: the solution with fixed nodes, during this part of the search, otherwise None.
    - `problem`: the transcription with moving nodes.
    - `found`: the solution with moving nodes, on the mesh that was found; None without one.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Prepares for another mesh."""
        self.may_begin = True
        self.before: Solved | None = None
        self.problem: Transcription | None = None
        self.found: Solved | None = None

    def begin(self, before: Solved, nodes: tuple[int, ...]) -> SearchState:
        """The state from which the search continues with moving `nodes`."""
        self.before, self.may_begin = before, False
        self.problem, state = freed(before, nodes)
        return state

    def give_up(self) -> Solved:
        """Ends this part; returns the solution before it."""
        assert self.before is not None
        before, self.before = self.before, None
        return before

    def end(self, state: SearchState, parts: Any, tolerance: Scalar) -> Solved:
        """Ends this part with a solution; returns it with its nodes fixed.

        The solution before is returned if the conditions of an optimum do not hold with the nodes fixed.
        """
        assert self.problem is not None
        free, fixed = fixed_again(Solved(self.problem, state, parts))
        state, parts, _, _ = more_iterations(*fixed, tolerance, jnp.asarray(1))
        before = self.give_up()
        if not bool(state.done):
            return before
        self.found = free
        return Solved(fixed[0], state, parts)


def freed(fixed: Solved, nodes: tuple[int, ...]) -> tuple[Transcription, SearchState]:
    """The problem with moving `nodes`, and the state from which its search starts: the solution with these nodes fixed."""
    barrier = jnp.asarray(BARRIER, fixed.state.mu.dtype)
    new = with_moving(fixed.transcription, nodes)
    w, duals = fixed.state.w, fixed.state.duals
    lengths, count = lengths_between(new), len(nodes)
    low = barrier / (lengths - new.p_lower[-count:])
    high = barrier / (new.p_upper[-count:] - lengths)
    duals = duals._replace(
        p_low=jnp.concatenate([duals.p_low, low]), p_high=jnp.concatenate([duals.p_high, high])
    )
    w = w._replace(p=jnp.concatenate([w.p, lengths]))
    mu = jnp.maximum(fixed.state.mu, barrier)
    return new, resumed(fixed.state._replace(w=w, duals=duals, mu=mu))


def fixed_again(free: Solved) -> tuple[Solved, tuple[Transcription, SearchState]]:
    """Returns the solution, with the shares that were found as those of its mesh, and (transcription, state) with fixed
    nodes."""
    old, state = free.transcription, free.state
    own = slice(0, old.n_parameters - len(old.moving))
    lower, upper = old.p_lower[own], old.p_upper[own]
    sizes = old.sizes and old.sizes._replace(p=old.sizes.p[own])
    fixed = dataclasses.replace(
        old, moving=(), remainder=0, shares=old.shares_at(state.w.p), p_lower=lower, p_upper=upper, sizes=sizes,
    )  # fmt: skip
    duals = state.duals._replace(p_low=state.duals.p_low[own], p_high=state.duals.p_high[own])
    w = state.w._replace(p=state.w.p[own])
    solved = free._replace(transcription=with_moving(fixed, old.moving, old.remainder))
    return solved, (fixed, resumed(state._replace(w=w, duals=duals)))
