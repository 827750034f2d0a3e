"""Takes values from one function and derivatives from another."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax

from jaxhamel._lanes._derivatives._derivatives import is_float, same
from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel.ensemble._members._parameters import replaced


class Faster(NamedTuple):
    """Separate programs for first derivatives.

    - `back_to`: whether `backward` can differentiate by the leaves with the given indices;
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

    Values are always those of `function`; results that are no floats have no derivative. `faster` computes first
    derivatives where it can, `other` all further ones.
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
            of = partial(_of_active, partial(of_leaves, other), floats, active)
            ahead, back = _programs(of, faster, len(primals), active)
            along = [tangents[i] for i in active]
            known = [*primals, *(x for i, x in enumerate(out) if i not in floats)]
            rates = linear_map(ahead, back, known, along, [out[i] for i in floats])
            rates = dict(zip(floats, rates, strict=True))
            return out, [rates.get(i) for i in range(len(out))]

        def evaluated(*leaves):
            return own_derivative(partial(of_leaves, function), rule, leaves, shapes)

        return jax.tree.unflatten(of_results, evaluated(*leaves))

    return differentiable


def _programs(
    of: Callable, faster: Faster | None, n: int, active
) -> tuple[LinearProgram, LinearProgram]:
    """The forward and the backward program; `n` is the number of leaves."""

    def forward(known, along):
        moving, at = of(known[:n])
        return list(jax.jvp(moving, at, along)[1])

    def backward(known, bars):
        moving, at = of(known[:n])
        return list(jax.vjp(moving, *at)[1](list(bars)))

    if faster is None:
        return same(forward), same(backward)
    ahead = lambda known, along: faster.forward(known[:n], active, along)  # noqa: E731
    back = lambda known, bars: faster.backward(known[:n], known[n:], active, bars)  # noqa: E731
    back = back if faster.back_to(active) else backward
    return LinearProgram(ahead, forward, forward), LinearProgram(back, backward, backward)


def _of_active(function: Callable, floats: list[int], active: list[int], leaves):
    """The floating-point results as a function of the active leaves, and the values of these leaves."""

    def moving(*values):
        out = function(*replaced(leaves, active, values))
        return [out[i] for i in floats]

    return moving, [leaves[i] for i in active]
