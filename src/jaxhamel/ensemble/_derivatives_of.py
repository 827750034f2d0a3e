"""Values by one route, derivatives by another."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax

from jaxhamel._lanes._derivatives import is_float, same
from jaxhamel._lanes._linear_map import linear_map
from jaxhamel._lanes._own_derivative import own_derivative


def with_derivatives_of(other: Callable, function: Callable) -> Callable:
    """`function` of a pytree of arrays, with the derivatives of `other`, which gives nearly the same.

    Values are those of `function`, differentiated or not; what is no float has no derivative.
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
            forward = lambda x, along: list(jax.jvp(*of(x), along)[1])  # noqa: E731
            backward = lambda x, bars: list(jax.vjp(of(x)[0], *of(x)[1])[1](list(bars)))  # noqa: E731
            along = [tangents[i] for i in active]
            wanted = [out[i] for i in floats]
            rates = linear_map(same(forward), same(backward), primals, along, wanted)
            rates = dict(zip(floats, rates, strict=True))
            return out, [rates.get(i) for i in range(len(out))]

        def evaluated(*leaves):
            return own_derivative(partial(of_leaves, function), rule, leaves, shapes)

        return jax.tree.unflatten(of_results, evaluated(*leaves))

    return differentiable


def _of_active(function: Callable, floats: list[int], active: list[int], leaves):
    """What is a float of the results, as a function of the active leaves, and these."""

    def moving(*values):
        filled = list(leaves)
        for i, value in zip(active, values, strict=True):
            filled[i] = value
        out = function(*filled)
        return [out[i] for i in floats]

    return moving, [leaves[i] for i in active]
