"""The paths of an ensemble with adaptive steps (`_adaptive`), and their derivatives."""

from collections.abc import Callable
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxhamel._lanes._derivatives._derivatives import is_float
from jaxhamel.ensemble._adaptive_steps._adaptive import FEWEST, adaptive, widths_for
from jaxhamel.ensemble._adaptive_steps._adaptive_reverse import reverse
from jaxhamel.ensemble._adaptive_steps._adaptive_step import StepLimits
from jaxhamel.ensemble._adaptive_steps._derivatives_of import Faster, with_derivatives_of
from jaxhamel.ensemble._equal_steps._equal_steps import SteppedMotion
from jaxhamel.ensemble._members._columns import ColumnLayout
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._members._parameters import replaced
from jaxhamel.ensemble._methods._embedded_pairs import embedded_pair


class Asked(NamedTuple):
    """Method and limit on the number of steps (static), and tolerances."""

    solver: diffrax.AbstractERK
    max_steps: int
    rtol: Float[Array, ""]
    atol: Float[Array, ""]


class Paths(NamedTuple):
    """States at `ts`, (B, T, …), NaN after the end; the ends; numbers of attempted and accepted steps; final status."""

    states: PyTree[Array]
    t_end: Float[Array, " B"]
    end: PyTree[Array]
    tried: Int[Array, " B"]
    kept: Int[Array, " B"]
    stands: Int[Array, " B"]


class Equation(NamedTuple):
    """An equation in two forms, for lanes and for diffrax.

    - `in_lanes`: members ↦ layout of a state, motion.
    - `alone`: (one member, ts, asked) ↦ states at `ts`, last time, last state, by diffrax.
    - `first`: one member ↦ its first state.

    It is a static argument, so equal equations have to be identical objects."""

    in_lanes: Callable[[Members], tuple[ColumnLayout, SteppedMotion]]
    alone: Callable[[tuple, Float[Array, " T"], Asked], tuple[PyTree, Any, PyTree]]
    first: Callable[[tuple], PyTree]


def adaptive_paths(
    equation: Equation, members: Members, ts: Float[Array, " T"], asked: Asked
) -> Paths:
    """Integrates the members in lanes, with first derivatives in lanes as well.

    Further derivatives, derivatives by times, and ensembles of few members are left to diffrax under `jax.vmap`."""
    arrays, fixed = eqx.partition((members, ts, asked), eqx.is_array)
    pair = embedded_pair(asked.solver)

    def in_lanes(arrays) -> Paths:
        members, ts, asked = eqx.combine(arrays, fixed)
        state, motion = equation.in_lanes(members)
        limits = StepLimits.of(asked.rtol, asked.atol, ts, asked.max_steps)
        rows, ends = adaptive(motion, ts, pair, limits, widths_for(members.size))
        states, end = state.entries(rows), state.entries(ends.y)
        return Paths(states, ends.t, end, ends.tried, ends.kept, ends.stands)

    def one_by_one(arrays) -> Paths:
        members, ts, asked = eqx.combine(arrays, fixed)
        alone = lambda own: equation.alone(members.with_own(own), ts, asked)  # noqa: E731
        states, t_end, end = jax.vmap(alone)(members.own)
        none = jnp.zeros(members.size, jnp.int32)
        return Paths(states, t_end, end, none, none, none)

    if members.size < FEWEST:
        return with_derivatives_of(one_by_one, one_by_one)(arrays)
    return with_derivatives_of(one_by_one, in_lanes, _faster(equation, in_lanes, arrays, fixed))(
        arrays
    )


def _faster(equation: Equation, in_lanes: Callable, arrays: Any, fixed: Any) -> Faster:
    """Separate programs for first derivatives with respect to the members' entries."""
    structure, many = jax.tree.structure(arrays), len(jax.tree.leaves(arrays[0]))

    def whole(leaves, active, values):
        return jax.tree.unflatten(structure, replaced(leaves, active, values))

    def forward(leaves, active, along):
        def moving(*values):
            found = in_lanes(whole(leaves, active, values))
            return [x for x in jax.tree.leaves(found) if is_float(x)]

        return list(jax.jvp(moving, [leaves[i] for i in active], list(along))[1])

    def backward(leaves, counts, active, bars):
        def ensemble_of(*values):
            return equation.in_lanes(eqx.combine(whole(leaves, active, values), fixed)[0])

        _, ts, asked = eqx.combine(jax.tree.unflatten(structure, leaves), fixed)
        limits = StepLimits.of(asked.rtol, asked.atol, ts, asked.max_steps)
        tried, _, stands = counts
        of_states = (
            len(bars) // 2
        )  # the next entry is the cotangent of the last time, which no member affects
        bars = [*bars[:of_states], *bars[of_states + 1 :]]
        values, pair = [leaves[i] for i in active], embedded_pair(asked.solver)
        return list(reverse(ensemble_of, values, ts, pair, limits, (tried, stands), bars))

    return Faster(lambda active: max(active) < many, forward, backward)
