"""The paths of an ensemble with adaptive steps (`_adaptive`), and their derivatives."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from jaxhamel._lanes._columns import ColumnLayout
from jaxhamel._lanes._derivatives._active_inputs import tangent_maps, with_entries
from jaxhamel._lanes._derivatives._derivatives import is_float
from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel.ensemble._adaptive_steps._adaptive import adaptive
from jaxhamel.ensemble._adaptive_steps._adaptive_reverse import reverse
from jaxhamel.ensemble._adaptive_steps._adaptive_step import StepLimits
from jaxhamel.ensemble._adaptive_steps._step_form import FEWEST
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._embedded_pairs import embedded_pair

# Takes values from one function and derivatives from another.


class Faster(NamedTuple):
    """Separate programs for first derivatives.

    - `back_to`: indices ↦ whether `backward` can differentiate with respect to the leaves with these indices;
    - `forward`: (leaves, indices, their tangents) ↦ tangents of the floating-point results;
    - `backward`: (leaves, other results, indices, cotangents of the floating-point results) ↦ cotangents of the leaves.
    """

    back_to: Callable[[list[int]], bool]
    forward: Callable[[list, list[int], list], list]
    backward: Callable[[list, list, list[int], list], list]


def with_derivatives_of(
    other: Callable, function: Callable, faster: Faster | None = None
) -> Callable:
    """`function` of a pytree of arrays, with the derivatives of `other`, whose values are nearly the same.

    Values are always those of `function`; results that are not of floating point have no derivative. `faster` computes first
    derivatives where it can; all others are those of `other`.
    """

    def differentiable(argument: Any) -> Any:
        leaves, structure = jax.tree.flatten(argument)
        shapes, of_results = jax.tree.flatten(jax.eval_shape(function, argument))
        floats = [i for i, x in enumerate(shapes) if is_float(x)]

        def of_leaves(which: Callable, *leaves) -> list:
            return jax.tree.leaves(which(jax.tree.unflatten(structure, leaves)))

        def rule(primals, tangents):
            out = evaluated(*primals)
            active = [i for i, t in enumerate(tangents) if t is not None]

            def of_floats(*leaves) -> list:
                values = of_leaves(other, *leaves[: len(primals)])
                return [values[i] for i in floats]

            maps = _programs(tangent_maps(of_floats, active), faster, len(primals), active)
            along = [tangents[i] for i in active]
            known = [*primals, *(x for i, x in enumerate(out) if i not in floats)]
            rates = linear_map(*maps, known, along, [out[i] for i in floats])
            rates = dict(zip(floats, rates, strict=True))
            return out, [rates.get(i) for i in range(len(out))]

        def evaluated(*leaves):
            return own_derivative(partial(of_leaves, function), rule, leaves, shapes)

        return jax.tree.unflatten(of_results, evaluated(*leaves))

    return differentiable


def _programs(
    maps: tuple[Callable, Callable], faster: Faster | None, n: int, active
) -> tuple[LinearProgram, LinearProgram]:
    """The forward and the backward program, from those of `other`; `n` is the number of leaves."""
    forward, backward = maps
    if faster is None:
        return LinearProgram.in_all_forms(forward), LinearProgram.in_all_forms(backward)

    def ahead(known, along):
        return faster.forward(known[:n], active, along)

    def back(known, bars):
        return faster.backward(known[:n], known[n:], active, bars)

    back = back if faster.back_to(active) else backward
    return LinearProgram(ahead, forward, forward), LinearProgram(back, backward, backward)


class AdaptiveOptions(NamedTuple):
    """The settings of adaptive steps: the method and the limit on their number, both static, and the tolerances."""

    solver: diffrax.AbstractERK
    max_steps: int
    rtol: Float[Array, ""]
    atol: Float[Array, ""]


class Paths(NamedTuple):
    """The motions of an ensemble.

    - `states`: at `ts`, `(B, T, …)`, NaN after an early end.
    - `t_end`, `end`: the last time and the state at that time; `stands`: the final status (`_adaptive_step`).
    - `tried`, `kept`: the numbers of attempted and of accepted steps.
    """

    states: PyTree[Array]
    t_end: Float[Array, " B"]
    end: PyTree[Array]
    tried: Int[Array, " B"]
    kept: Int[Array, " B"]
    stands: Int[Array, " B"]


class Equation(NamedTuple):
    """An equation in two forms, for lanes and for diffrax.

    - `in_lanes`: members ↦ (layout of a state, motion).
    - `alone`: (one member, ts, asked) ↦ (states at `ts`, last time, state at that time), by diffrax.
    - `first`: one member ↦ its initial state.

    As a static argument it is compared by identity: for the same equation the same object has to be passed.
    """

    in_lanes: Callable[[Members], tuple[ColumnLayout, SteppedMotion]]
    alone: Callable[[tuple, Float[Array, " T"], AdaptiveOptions], tuple[PyTree, Any, PyTree]]
    first: Callable[[tuple], PyTree]


def adaptive_paths(
    equation: Equation, members: Members, ts: Float[Array, " T"], asked: AdaptiveOptions
) -> Paths:
    """Integrates the members in lanes, with first derivatives in lanes as well.

    Further derivatives, reverse mode with respect to times, and ensembles of few members are left to diffrax under
    `jax.vmap`.
    """
    arrays, fixed = eqx.partition((members, ts, asked), eqx.is_array)
    pair = embedded_pair(asked.solver)

    def in_lanes(arrays) -> Paths:
        members, ts, asked = eqx.combine(arrays, fixed)
        state, motion = equation.in_lanes(members)
        limits = StepLimits.of(asked.rtol, asked.atol, ts, asked.max_steps)
        rows, ends = adaptive(motion, ts, pair, limits)
        states, end = state.entries(rows), state.entries(ends.y)
        return Paths(states, ends.t, end, ends.tried, ends.kept, ends.stands)

    def one_by_one(arrays) -> Paths:
        members, ts, asked = eqx.combine(arrays, fixed)

        def alone(own):
            return equation.alone(members.with_own(own), ts, asked)

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
        return jax.tree.unflatten(structure, with_entries(leaves, active, values))

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
