"""Dependencies between the inputs and the results of a function, found from its jaxpr."""

from collections.abc import Callable

import jax
from jax.extend.core import Literal


def moved(function: Callable, *values) -> list[bool]:
    """For each leaf of the results, whether it depends on any of `values`."""
    jaxpr = jax.make_jaxpr(function)(*values).jaxpr
    reached = set(jaxpr.invars)
    for equation in jaxpr.eqns:
        if any(x in reached for x in equation.invars if not isinstance(x, Literal)):
            reached.update(equation.outvars)
    return [not isinstance(x, Literal) and x in reached for x in jaxpr.outvars]


def used(function: Callable, *values) -> list[bool]:
    """For each leaf of `values`, whether any result depends on it."""
    jaxpr = jax.make_jaxpr(function)(*values).jaxpr
    needed = {x for x in jaxpr.outvars if not isinstance(x, Literal)}
    for equation in reversed(jaxpr.eqns):
        if any(x in needed for x in equation.outvars):
            needed.update(x for x in equation.invars if not isinstance(x, Literal))
    return [x in needed for x in jaxpr.invars]
