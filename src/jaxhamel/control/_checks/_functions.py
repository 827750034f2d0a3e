"""Checks of the functions that users give to problems: how they are called, and the shape of what they return."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import type_of

WAYS = {1: "(t)", 2: "(q, u)", 4: "(t, q, u, control)"}


def check_rows(name: str, function: Callable[..., Any], *at: Any, way: str = "") -> None:
    """Checks that a function gives a real vector `(r,)`; `way`: how it is called, for messages."""
    found = _floating(name, function, at, way)
    if len(found.shape) != 1:
        raise ValueError(
            f"{name} gives an array of shape {found.shape}; it must be (r,), such as jnp.stack([...])."
        )


def check_scalar(name: str, function: Callable[..., Any], *at: Any) -> None:
    """Checks that a function gives one real number."""
    found = _floating(name, function, at)
    if found.shape not in ((), (1,)):
        raise ValueError(f"{name} gives an array of shape {found.shape}; it must be one number.")


def _floating(name: str, function: Callable[..., Any], at: tuple[Any, ...], way: str = "") -> Any:
    """The shape and dtype of the function's value."""
    way = way or WAYS[len(at)]
    if not callable_with(function, len(at)):
        raise TypeError(f"{name} cannot be called as {way}; write it as a function of these.")
    found = called(name, function, *at)
    if not isinstance(found, jax.ShapeDtypeStruct):
        raise TypeError(
            f"{name} gives {type_of(found)}; it must be called as {way} and return one array."
        )
    if not np.issubdtype(found.dtype, np.floating):
        raise TypeError(f"{name} gives {found.dtype}; it must return real floating-point numbers.")
    return found
