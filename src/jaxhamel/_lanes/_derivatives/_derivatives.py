"""Derivatives of functions in lanes: ẏ = F′(x) ẋ and x̄ = F′(x)ᵀ ȳ, each one program of scalars that starts from x.

The function of one trajectory is differentiated as JAX does it, by its own rules where it has some (`jax.custom_jvp`), and
what comes out is written out, folded and shared as the function itself was. Nothing but x is kept between the forward and
the backward pass. The alternative, JAX's transpose of the scalar operations, keeps every factor of every product: the
backward pass of the rolling ball with three masses then compiled for 100 s instead of 1.1 s. Scalar operations of its
right-hand side: 650; with F′ẋ 2,055; F′ᵀȳ by state and 54 parameters 2,128, by the state alone 1,520.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

from jaxhamel._lanes._derivatives._linear_map import Program, linear_map
from jaxhamel._lanes._derivatives._own_derivative import own_derivative

# (function of one trajectory, which inputs vary from lane to lane, batch size, inputs) -> results of the batch
Run = Callable[[Callable, list[bool], int, list], list]


def with_derivative(
    run: Run, evaluate: Callable, closed: ClosedJaxpr, batched: list[bool], size: int
) -> Callable:
    """`evaluate`, a jaxpr on a batch, differentiated as the jaxpr is, both derivatives in lanes again, of any order."""
    function = jaxpr_as_fun(closed)
    floats = [is_float(aval) for aval in closed.out_avals]
    shapes = [jax.ShapeDtypeStruct((size, *x.shape), x.dtype) for x in closed.out_avals]

    def rule(primals, tangents):
        out = evaluated(*primals)
        active = [i for i, t in enumerate(tangents) if t is not None]
        forward = _forward(run, function, floats, active, batched, size)
        backward = _backward(run, function, floats, active, batched, size)
        along, wanted = [tangents[i] for i in active], _only(floats, out)
        rates = iter(linear_map(same(forward), same(backward), primals, along, wanted))
        return out, [next(rates) if of_float else None for of_float in floats]

    def evaluated(*values):
        return own_derivative(evaluate, rule, values, shapes)

    return evaluated


def is_float(x: Any) -> bool:
    """Whether a value has a tangent."""
    return jnp.issubdtype(jnp.result_type(x), jnp.inexact)


def _forward(run, function, floats, active, batched, size):
    """(x, ẋ) ↦ ẏ, ẋ of the active inputs."""

    def rates(*given):
        x, along = given[: len(batched)], given[len(batched) :]
        moving, at = _of_active(function, floats, active, x)
        return jax.jvp(moving, at, along)[1]

    varies = batched + [batched[i] for i in active]
    return lambda x, along: run(rates, varies, size, [*x, *along])


def _backward(run, function, floats, active, batched, size):
    """(x, ȳ) ↦ x̄ of the active inputs; one that all lanes share gets the sum over them."""

    def cotangents(*given):
        x, bars = given[: len(batched)], given[len(batched) :]
        moving, at = _of_active(function, floats, active, x)
        return jax.vjp(moving, *at)[1](tuple(bars))

    varies = batched + [True] * sum(floats)

    def of_batch(x, bars):
        found = run(cotangents, varies, size, [*x, *bars])
        return [
            bar if batched[i] else jnp.sum(bar, axis=0)
            for i, bar in zip(active, found, strict=True)
        ]

    return of_batch


def _of_active(function, floats, active, x):
    """What has a tangent of the results, as a function of the active inputs, and these."""

    def moving(*values):
        filled = list(x)
        for i, value in zip(active, values, strict=True):
            filled[i] = value
        return tuple(_only(floats, function(*filled)))

    return moving, tuple(x[i] for i in active)


def _only(floats, values):
    return [value for value, of_float in zip(values, floats, strict=True) if of_float]


def same(function) -> Program:
    """One program for all purposes: of lanes, it can be differentiated both ways."""
    return Program(function, function, function)
