"""The paths of an ensemble, each in steps of its own length, with derivatives: see `_adaptive`."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxhamel.ensemble._adaptive import FEWEST, adaptive, widths_for
from jaxhamel.ensemble._adaptive_step import Limits
from jaxhamel.ensemble._columns import Layout
from jaxhamel.ensemble._derivatives_of import with_derivatives_of
from jaxhamel.ensemble._embedded_pairs import embedded_pair
from jaxhamel.ensemble._equal_steps import Motion
from jaxhamel.ensemble._members import Members


class Asked(NamedTuple):
    """What decides the steps: method, the most of them (both static), tolerances."""

    solver: diffrax.AbstractERK
    max_steps: int
    rtol: Float[Array, ""]
    atol: Float[Array, ""]


class Paths(NamedTuple):
    """The states at `ts`, (B, T, …), NaN beyond the end; the end; steps tried and kept; how each trajectory stands there."""

    states: PyTree[Array]
    t_end: Float[Array, " B"]
    end: PyTree[Array]
    tried: Int[Array, " B"]
    kept: Int[Array, " B"]
    stands: Int[Array, " B"]


class Equation(NamedTuple):
    """The same equation twice: for lanes, how a state is laid out and its motion, of the members; and by diffrax (states
    at `ts`, last time, last state) of (one member, ts, asked). And the first state of one member.

    A static argument: equal ones have to be the same."""

    in_lanes: Callable[[Members], tuple[Layout, Motion]]
    alone: Callable[[tuple, Float[Array, " T"], Asked], tuple[PyTree, Any, PyTree]]
    first: Callable[[tuple], PyTree]


def adaptive_paths(
    equation: Equation, members: Members, ts: Float[Array, " T"], asked: Asked
) -> Paths:
    """Values by lanes; derivatives by diffrax under `jax.vmap`, in forward and in reverse mode."""
    pair = embedded_pair(asked.solver)
    arrays, fixed = eqx.partition((members, ts, asked), eqx.is_array)

    def in_lanes(arrays) -> Paths:
        members, ts, asked = eqx.combine(arrays, fixed)
        state, motion = equation.in_lanes(members)
        limits = Limits.of(asked.rtol, asked.atol, ts, asked.max_steps)
        rows, ends = adaptive(motion, ts, pair, limits, widths_for(members.size))
        states, end = state.entries(rows), state.entries(ends.y)
        return Paths(states, ends.t, end, ends.tried, ends.kept, ends.stands)

    def one_by_one(arrays) -> Paths:
        members, ts, asked = eqx.combine(arrays, fixed)
        alone = lambda own: equation.alone(members.with_own(own), ts, asked)  # noqa: E731
        states, t_end, end = jax.vmap(alone)(members.own)
        none = jnp.zeros(members.size, jnp.int32)
        return Paths(states, t_end, end, none, none, none)

    values = in_lanes if members.size >= FEWEST else one_by_one
    return with_derivatives_of(one_by_one, values)(arrays)
