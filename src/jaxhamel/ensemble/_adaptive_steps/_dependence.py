"""Which inputs of a function its results depend on, and which results on its inputs: read off its jaxpr."""

from collections.abc import Callable

import jax
from jax.extend.core import Literal


def moved(function: Callable, *values) -> list[bool]:
    """For each leaf of the results whether it changes with `values` at all."""
    jaxpr = jax.make_jaxpr(function)(*values).jaxpr
    reached = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(x in reached for x in equation.invars if not isinstance(x, Literal)):
            reached.update(equation.outvars)
    return [not isinstance(x, Literal) and x in reached for x in jaxpr.outvars]


def used(function: Callable, *values) -> list[bool]:
    """For each leaf of `values` whether the results need it."""
    jaxpr = jax.make_jaxpr(function)(*values).jaxpr
    needed = {x for x in jaxpr.outvars if not isinstance(x, Literal)}
    for equation in reversed(jaxpr.eqns):
        if any(x in needed for x in equation.outvars):
            needed.update(x for x in equation.invars if not isinstance(x, Literal))
    return [x in needed for x in jaxpr.invars]
