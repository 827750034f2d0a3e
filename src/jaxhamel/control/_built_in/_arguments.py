"""Checks the arguments of the built-in problems by name, and converts them to arrays."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec

import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._checks._arguments import check_kind
from jaxhamel._checks._values import check_finite, check_positive, check_shape
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import System

P = ParamSpec("P")
AS_THEY_ARE = ("constraints",)  # arguments passed on unchanged; `ControlProblem` checks them


def number(value: Any) -> Array:
    """A number in JAX's default precision."""
    return jnp.asarray(value, jnp.result_type(float))


def checked(
    kind: type[System], positive: tuple[str, ...] = (), planar: tuple[str, ...] = ()
) -> Callable[[Callable[P, ControlProblem]], Callable[P, ControlProblem]]:
    """Decorates the function of a built-in problem, so that it checks its arguments and converts the numbers to arrays.

    **Arguments:** `kind`: the class of the argument `system`; `positive`: names of arguments that must be larger than zero,
    besides `duration`; `planar`: names of arguments that may have the shape `(2,)` or `()`; others must be single numbers.
    All must be finite.

    **Raises:** the decorated function raises `TypeError` or `ValueError`, which names the argument.
    """

    def decorated(make: Callable[P, ControlProblem]) -> Callable[P, ControlProblem]:
        signature = inspect.signature(make)

        def one(name: str, value: Any) -> Any:
            if name == "system":
                return _checked_system(value, kind)
            if name in AS_THEY_ARE:
                return value
            check = check_positive if name in ("duration", *positive) else check_finite
            check(name, value)
            return _in_shape(name, number(value), name in planar)

        @functools.wraps(make)
        def call(*args: P.args, **kwargs: P.kwargs) -> ControlProblem:
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            found = {name: one(name, value) for name, value in given.arguments.items()}
            return make(**found)  # pyright: ignore[reportCallIssue]

        return call

    return decorated


def _in_shape(name: str, value: Array, planar: bool) -> Array:
    """Checks that a value is a single number or, if `planar`, a number or `(2,)`; returns it."""
    if not planar or value.ndim:
        check_shape(name, value, (2,) if planar else ())
    return value


def _checked_system(system: Any, kind: type[System]) -> Any:
    """Returns the system after a check that it is of the class `kind`, or None."""
    if system is not None:
        step = f"it must be a {kind.__name__}, or None for that of the problem."
        check_kind("system", system, kind, step)
    return system
