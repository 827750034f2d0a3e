"""Checks of ordinary differential equations as systems."""

import jax
import jax.numpy as jnp

from jaxhamel._checks._arguments import callable_with
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import check_callable, type_of
from jaxhamel.geometry import AbstractSpace
from jaxhamel.geometry._checks import check_dimension


def check_space(space) -> None:
    """Checks that the space of an ODE is a number of equations or a space."""
    if isinstance(space, bool) or not isinstance(space, int | AbstractSpace):
        raise TypeError(
            f"`space` is {type_of(space)}; it must be the number of equations, or a space such as jaxhamel.SE2()."
        )
    if isinstance(space, int) and space < 1:
        raise ValueError(f"`space` is {space}; an ODE has at least one equation.")
    if isinstance(space, int):
        check_dimension("space", space)


def check_function(function) -> None:
    """Checks that the right-hand side of an ODE is a function of time, state and control."""
    check_callable("function", function, "(t, y, control) -> (n,)")
    if not callable_with(function, 3):
        raise TypeError(
            "`function` of `ODE` cannot be called as (t, y, control); write it as a function of these."
        )


def check_rate(function, space, t, control) -> None:
    """Checks that the right-hand side gives one real number for each dimension of the space."""
    value = None if control is None else control(t)
    found = called(
        "`function` of `ODE`", function, t, space.identity(jnp.result_type(float)), value
    )
    accepts = f"({space.dim},), a derivative for each dimension of the state"
    if not isinstance(found, jax.ShapeDtypeStruct):
        raise TypeError(
            f"`function` of `ODE` gives {type_of(found)}; it must be one array {accepts}: take jnp.stack([...])."
        )
    if found.shape != (space.dim,):
        raise ValueError(
            f"`function` of `ODE` gives an array of shape {found.shape}; it must be {accepts}."
        )
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise TypeError(f"`function` of `ODE` gives {found.dtype}; it must give real numbers.")
