"""Computes the integers of a program that follow from its constants, while it is traced.

Such integers are positions in arrays: those of the pairs of masses that springs connect, for example. A known position takes
no operation where the program is written out; one that is computed takes a selection for each place of the array.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr

from jaxhamel._lanes._divided._jaxprs import read_by, run_equation, variables

MOST_INTEGERS = 10_000  # of one array; a program with more positions is not written out


def with_known_integers(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with a constant in place of each array of integers or Booleans that depends on constants only.

    **Arguments:** `closed`: a program in which no function is called (`inlined`).
    """
    jaxpr, equations = closed.jaxpr, []
    pairs = zip(jaxpr.constvars, closed.consts, strict=True)
    known = {v: x for v, x in pairs if not isinstance(x, Tracer)}
    traced = [(v, x) for v, x in zip(jaxpr.constvars, closed.consts, strict=True) if v not in known]
    for equation in jaxpr.eqns:
        if _are_integers(equation) and variables(equation.invars) <= known.keys():
            with jax.ensure_compile_time_eval():
                known |= run_equation(jaxpr, equation, known)
        else:
            equations.append(equation)
    read = read_by(equations, range(len(equations))) | variables(jaxpr.outvars)
    constants = [*traced, *((v, x) for v, x in known.items() if v in read)]
    jaxpr = jaxpr.replace(constvars=[v for v, _ in constants], eqns=equations)
    return ClosedJaxpr(jaxpr, [x for _, x in constants])


def _are_integers(equation: Any) -> bool:
    """Whether all results of an equation are few integers or Booleans, and it has no other effect."""
    avals = [v.aval for v in equation.outvars]
    return not equation.effects and all(
        (jnp.issubdtype(x.dtype, jnp.integer) or x.dtype == bool) and x.size <= MOST_INTEGERS
        for x in avals
    )
