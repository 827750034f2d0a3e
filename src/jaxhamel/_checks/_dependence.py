"""Finds which results of a function depend on which arguments, from its traced program.

Each result of an operation counts as dependent on every operand. The function is only traced, not run.
"""

from collections.abc import Callable
from typing import Any

import jax
from jax.extend.core import Literal


def depends_on(function: Callable[..., Any], *arguments: Any) -> tuple[bool, ...]:
    """For each argument, a pytree of arrays, whether a result may depend on it."""
    reached = frozenset().union(*_sources_of_results(function, arguments))
    return tuple(i in reached for i in range(len(arguments)))


def dependent_results(function: Callable[..., Any], *arguments: Any) -> list[bool]:
    """For each leaf of the results, whether it may depend on an argument; if not, it is a constant."""
    return [bool(found) for found in _sources_of_results(function, arguments)]


def _sources_of_results(function: Callable[..., Any], arguments: tuple) -> list[frozenset[int]]:
    """For each leaf of the results, the indices of the arguments on which it may depend."""
    program = jax.make_jaxpr(function)(*arguments).jaxpr
    counts = [len(jax.tree.leaves(x)) for x in arguments]
    numbers = [i for i, count in enumerate(counts) for _ in range(count)]
    sources: dict[Any, frozenset[int]] = {}
    for variable, number in zip(program.invars, numbers, strict=True):
        sources[variable] = frozenset((number,))
    for equation in program.eqns:
        found = frozenset().union(*(_sources(x, sources) for x in equation.invars))
        sources.update(dict.fromkeys(equation.outvars, found))
    return [_sources(x, sources) for x in program.outvars]


def _sources(variable: Any, sources: dict[Any, frozenset[int]]) -> frozenset[int]:
    none: frozenset[int] = frozenset()
    return none if isinstance(variable, Literal) else sources.get(variable, none)
