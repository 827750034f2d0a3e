"""Derivatives of functions in lanes: ẏ = F′(x) ẋ and x̄ = F′(x)ᵀ ȳ, each computed from x by one program of scalars.

JAX differentiates the function of one trajectory, by the function's own rules where it has some (`jax.custom_jvp`). The
derivative is then written out like the function itself. Only x is stored between the forward and the backward pass. JAX's
transpose of the scalar operations would keep every factor of every product and compiles a hundred times as long
(docs/performance.md#reverse-mode).

Reverse mode computes each turn of a loop again. JAX would store the factors of every product for all turns: in lanes each
would be a vector in memory, and a turn of the backward loop would read thousands of them. Computed again, a turn stores only
the values that it begins with. A loop that is written out loses nothing: its repeated operations are merged.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxhamel._lanes._derivatives._active_inputs import of_active
from jaxhamel._lanes._derivatives._linear_map import LinearProgram, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative
from jaxhamel._lanes._divided._jaxprs import (
    CALLS,
    called_program,
    carried_and_scanned,
    evaluated,
)

# (function of one trajectory, whether each input varies from lane to lane, batch size, inputs) -> results of the batch
RunBatch = Callable[[Callable, list[bool], int, list], list]
# the same with one more argument, before the batch size: whether each result is summed over the lanes
RunSummed = Callable[[Callable, list[bool], list[bool], int, list], list]


def with_derivative(
    run: RunBatch,
    run_summed: RunSummed,
    evaluate: Callable,
    closed: ClosedJaxpr,
    batched: list[bool],
    size: int,
) -> Callable:
    """Attaches derivatives of any order and both modes, computed in lanes, to `evaluate`, which runs a jaxpr on a batch."""
    function, again = jaxpr_as_fun(closed), with_recomputed_turns(closed)
    floats = [is_float(aval) for aval in closed.out_avals]
    shapes = [jax.ShapeDtypeStruct((size, *x.shape), x.dtype) for x in closed.out_avals]

    def rule(primals, tangents):
        out = evaluated(*primals)
        active = [i for i, t in enumerate(tangents) if t is not None]
        forward = _forward(run, function, floats, active, batched, size)
        backward = _backward(run_summed, again, floats, active, batched, size)
        along, wanted = [tangents[i] for i in active], _only(floats, out)
        maps = LinearProgram.in_all_forms(forward), LinearProgram.in_all_forms(backward)
        rates = iter(linear_map(*maps, primals, along, wanted))
        return out, [next(rates) if of_float else None for of_float in floats]

    def evaluated(*values):
        return own_derivative(evaluate, rule, values, shapes)

    return evaluated


def is_float(x: Any) -> bool:
    """Whether a value is real or complex; others, such as integers, have no tangent."""
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _forward(run, function, floats, active, batched, size):
    """Forward mode as a function (x, ẋ) ↦ ẏ, with ẋ for the active inputs only, those with a tangent."""

    def rates(*given):
        x, along = given[: len(batched)], given[len(batched) :]
        moving, at = _of_active(function, floats, active, x)
        return jax.jvp(moving, at, along)[1]

    varies = batched + [batched[i] for i in active]
    return lambda x, along: run(rates, varies, size, [*x, *along])


def _backward(run_summed, function, floats, active, batched, size):
    """Reverse mode as a function (x, ȳ) ↦ x̄ of the active inputs; cotangents of shared inputs are summed over the lanes."""

    def cotangents(*given):
        x, bars = given[: len(batched)], given[len(batched) :]
        moving, at = _of_active(function, floats, active, x)
        return jax.vjp(moving, *at)[1](tuple(bars))

    varies = batched + [True] * sum(floats)
    shared = [not batched[i] for i in active]
    return lambda x, bars: run_summed(cotangents, varies, shared, size, [*x, *bars])


def _of_active(function, floats, active, x):
    """The differentiable results as a function of the active inputs, and the values of these inputs."""
    moving, at = of_active(lambda *values: tuple(_only(floats, function(*values))), active, x)
    return moving, tuple(at)


def _only(floats, values):
    return [value for value, of_float in zip(values, floats, strict=True) if of_float]


def with_recomputed_turns(closed: ClosedJaxpr) -> Callable[..., list[Any]]:
    """The function of a program in which reverse mode computes each turn of a `scan` again."""
    if not _has_loop(closed):
        return jaxpr_as_fun(closed)
    return lambda *values: evaluated(closed, values, _scan)


def _has_loop(closed: ClosedJaxpr) -> bool:
    """Whether a program contains a `scan`, itself or in a program that it calls."""
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
