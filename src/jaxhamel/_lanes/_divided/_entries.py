"""Runs functions such as tanh on arrays with every entry as a lane of its own.

A program that is compiled for fusions over the lanes (`_tracing`) uses XLA's older code generator, which does not
vectorise these functions outside of such fusions: they take four times as long (docs/performance.md#networks-in-lanes).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel._lanes._divided._jaxprs import evaluated, variables

FUNCTIONS = {
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
    "log", "log1p", "logistic", "sin", "sinh", "tan", "tanh",
}  # fmt: skip

# (program of one number, numbers (n,)) -> its values (n,)
OfEntries = Callable[[ClosedJaxpr, jax.Array], jax.Array]


def with_entries_in_lanes(
    program: ClosedJaxpr, of_entries: OfEntries, results: bool = True
) -> Callable[..., list]:
    """Replaces the operations in `FUNCTIONS` (exp and others) by `of_entries`, which has a lane for each array element.

    `results`: whether those are replaced, too, that compute a result of the program.
    """
    kept = set() if results else variables(program.jaxpr.outvars)

    def special(equation, operands: Sequence[Any]) -> list | None:
        if equation.primitive.name not in FUNCTIONS or equation.invars[0].aval.size < 2:
            return None
        if not kept.isdisjoint(equation.outvars):
            return None
        return [_function(equation, operands[0], of_entries)]

    return lambda *values: evaluated(program, values, special)


def _function(equation: Any, x: jax.Array, of_entries: OfEntries) -> jax.Array:
    """The value of an operation of `FUNCTIONS` at x, with a derivative that uses this value."""
    bind = partial(equation.primitive.bind, **equation.params)

    def value(x):
        of_one = jax.make_jaxpr(bind)(jax.ShapeDtypeStruct((), x.dtype))
        return [jnp.reshape(of_entries(of_one, jnp.ravel(x)), x.shape)]

    def rule(at, along):
        y = _function(equation, at[0], of_entries)
        return [y], [_rate(bind, equation.primitive, at[0], y, along[0], of_entries)]

    return own_derivative(value, rule, [x], [jax.ShapeDtypeStruct(x.shape, x.dtype)])[0]


def _rate(bind: Callable, primitive: Any, x, y, along, of_entries: OfEntries) -> jax.Array:
    """JAX's derivative of the operation along a tangent; `y`, its value at x, is not computed again."""
    rate = jax.make_jaxpr(lambda x, v: jax.jvp(bind, (x,), (v,))[1])(x, along)

    def special(equation, operands: Sequence[Any]) -> list | None:
        if equation.primitive is primitive and operands[0] is x:
            return [y]
        if equation.primitive.name in FUNCTIONS:
            return [_function(equation, operands[0], of_entries)]
        return None

    return evaluated(rate, (x, along), special)[0]
