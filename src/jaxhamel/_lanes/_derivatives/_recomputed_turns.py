"""Loops whose turns are computed again in reverse mode, in place of storing the factors of every product in them.

JAX stores such factors for all turns. In lanes each would be a vector in memory, and a turn of the backward loop would read
thousands of them. Computed again, a turn stores only the values that it begins with. A loop that is written out loses
nothing: its repeated operations are merged.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxhamel._lanes._divided._jaxprs import CALLS, called_program, evaluated
from jaxhamel._lanes._rules._control_flow import carried_and_scanned


def with_recomputed_turns(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of a program in which reverse mode computes each turn of a `scan` again."""
    if not _has_loop(closed):
        return jaxpr_as_fun(closed)
    return lambda *values: evaluated(closed, values, _scan)


def _has_loop(closed: ClosedJaxpr) -> bool:
    """Whether a program, or one that it calls, has a `scan`."""
    equations = closed.jaxpr.eqns
    called = [called_program(e) for e in equations if e.primitive.name in CALLS]
    return any(e.primitive.name == "scan" for e in equations) or any(map(_has_loop, called))


def _scan(equation: Any, operands: list[Any]) -> list[Any] | None:
    if equation.primitive.name != "scan":
        return None
    params, (first, end) = equation.params, carried_and_scanned(equation)
    fixed, carry, rows = operands[:first], operands[first:end], operands[end:]
    again = jax.checkpoint(with_recomputed_turns(params["jaxpr"]), prevent_cse=False)

    def turn(carry: Sequence[Any], rows: Sequence[Any]):
        out = again(*fixed, *carry, *rows)
        return out[: end - first], out[end - first :]

    last, stacked = lax.scan(turn, carry, rows, params["length"], params["reverse"])
    return [*last, *stacked]
