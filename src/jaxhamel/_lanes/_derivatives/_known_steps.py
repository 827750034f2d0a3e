"""Reverse mode of a sequence of equal steps whose states are known.

    y_{i+1} = F(i, y_i, p) ,    ȳ_i = F_y(y_i)ᵀ ȳ_{i+1} ,    p̄ = Σ_i F_p(y_i)ᵀ ȳ_{i+1} .

Each step is computed again from the state before it, so that only these states are stored, and the values inside a step stay
in the cache.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._active_inputs import tangent_maps, with_entries
from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative


def after_known_steps(
    step: Callable, y: Columns, given: Any, known: tuple[Columns, ...]
) -> Columns:
    """The state after several steps from y, whose reverse mode takes the states before each step from `known`.

    **Arguments:** `step`: (number of the step, state, `given`) → the state after the step; `given`: a pytree that all steps
    share; `known`: the states before each step, as columns, of which the first is y. Forward mode and further derivatives
    do not use `known`.
    """
    leaves, structure = jax.tree.flatten((tuple(y), given))
    before = tuple(jnp.stack(x) for x in zip(*jax.lax.stop_gradient(known), strict=True))

    def value(*leaves):
        y, given = jax.tree.unflatten(structure, leaves[: structure.num_leaves])
        return _after(step, len(known), y, given)

    def rule(leaves, tangents):
        active = [i for i, t in enumerate(tangents) if t is not None]
        out, along = differentiable(*leaves), [tangents[i] for i in active]
        forward, anew = tangent_maps(value, active)
        back = LinearProgram(partial(_back, step, structure, active), anew, anew)
        ahead = LinearProgram.in_all_forms(forward)
        return out, linear_map(ahead, back, [*leaves, *before], along, out)

    def differentiable(*leaves):
        return own_derivative(value, rule, leaves, y)

    return tuple(differentiable(*leaves))


def _after(step: Callable, count: int, y: Columns, given: Any) -> list:
    def turn(y, i):
        return tuple(step(i, y, given)), None

    return list(jax.lax.scan(turn, y, jnp.arange(count).astype(y[0].dtype))[0])


def _back(step: Callable, structure, active, given, bars):
    """The cotangents of the active leaves, by a loop over the steps from the last one to the first."""
    leaves, before = given[: structure.num_leaves], given[structure.num_leaves :]
    states = len(before)
    others = [i for i in active if i >= states]

    def turn(carry, at):
        bars, total = carry
        i, *y = at

        def after(y, values):
            new = with_entries([*y, *leaves[states:]], others, values)
            return tuple(step(i, *jax.tree.unflatten(structure, new)))

        back = jax.vjp(after, tuple(y), [leaves[k] for k in others])[1]
        bars, more = back(bars)
        return (bars, [a + b for a, b in zip(total, more, strict=True)]), None

    places = jnp.arange(len(before[0])).astype(before[0].dtype)
    start = tuple(bars), [jnp.zeros_like(leaves[k]) for k in others]
    (y_bar, p_bar), _ = jax.lax.scan(turn, start, (places, *before), reverse=True)
    return [*(y_bar[i] for i in active if i < states), *p_bar]
