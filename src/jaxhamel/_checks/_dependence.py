"""Finds the arguments on which the results of a function depend, from its traced program."""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Literal


def depends_on(function: Callable[..., Any], *arguments: Any) -> tuple[bool, ...]:
    """For each argument, whether a result may depend on it; the leaves of the arguments are arrays.

    Each result of an operation counts as dependent on every operand. The function is only traced, not run.
    """
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    counts = [len(jax.tree.leaves(x)) for x in arguments]
    numbers = [i for i, count in enumerate(counts) for _ in range(count)]
    sources: dict[Any, frozenset[int]] = {}
    for variable, number in zip(program.invars, numbers, strict=True):
        sources[variable] = frozenset((number,))
    for equation in program.eqns:
        found = _sources(equation.invars, sources)
        sources.update(dict.fromkeys(equation.outvars, found))
    reached = _sources(program.outvars, sources)
    return tuple(i in reached for i in range(len(arguments)))


def _sources(variables, sources: dict[Any, frozenset[int]]) -> frozenset[int]:
    known = (sources.get(x, frozenset()) for x in variables if not isinstance(x, Literal))
    return frozenset().union(*known)
