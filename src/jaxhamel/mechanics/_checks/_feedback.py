"""Checks of controls that are functions: their arguments, and the value of a feedback at the initial state."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with, check_count
from jaxhamel._checks._values import concrete, inline, type_of
from jaxhamel.mechanics._system import System, controls_of


def check_of_time(control: Callable[..., Any]) -> None:
    """Checks that a control without state can be called with t alone."""
    if callable_with(control, 1):
        return
    if not callable_with(control, 3):
        raise TypeError(
            f"`control` is {type_of(control)} that cannot be called with one argument; a control is called with t alone. "
            "Write it as `lambda t: ...`."
        )
    raise TypeError(
        f"`control` is {type_of(control)} and takes three arguments; a control is called with t alone. If it depends on the "
        "state (t, q, u), give jaxhamel.Feedback(control)."
    )


def check_not_digital(control: Any) -> None:
    """Checks that a control is no digital controller, which has no value as a function of time."""
    if isinstance(control, type) or not (hasattr(control, "law") and hasattr(control, "period")):
        return
    raise TypeError(
        f"`control` is {type_of(control)}, a digital controller; simulate it by jaxhamel.control.closed_loop(system, q0, "
        "u0, controller, samples). In continuous time give jaxhamel.Feedback(law)."
    )


def check_of_state(function: Callable[..., Any]) -> None:
    """Checks that the function of a feedback can be called with (t, q, u)."""
    if not callable(function) or isinstance(function, type):
        raise TypeError(
            f"`function` of Feedback is {type_of(function)}; it must be a callable pytree (t, q, u) -> value."
        )
    if not callable_with(function, 3):
        raise TypeError(
            f"`function` of Feedback is {type_of(function)} that cannot be called with three arguments; it is called with "
            "(t, q, u). A control of time alone needs no Feedback."
        )


def check_takes_feedback(system) -> None:
    """Checks that the system accepts a feedback.

    A system with prescribed motion does not: it needs the rates of θ(t), and a feedback gives only a value.
    """
    if system.prescribed_motion:
        raise TypeError(
            f"`control` is a Feedback, but {type(system).__name__} needs the motion θ(t) of its parts with two rates, not a "
            "value at a state. Simulate jaxhamel.MovingParts(system): there θ and θ̇ are part of the state, and the control "
            "or feedback is θ̈."
        )


def check_made_for(name: str, thing: Any, system: Any) -> None:
    """Checks that a law or a model has states (q, u) of the same shapes as the system.

    A law that is made for the states of one system has the attribute `made_for`, the space of q and the length of u.
    """
    made_for: Any = getattr(thing, "made_for", None)
    if isinstance(thing, System):
        made_for = thing.space, thing.n_independent
    if made_for is None:
        return
    wanted, got = _shapes(made_for), _shapes((system.space, system.n_independent))
    if wanted != got:
        raise ValueError(
            f"{name} is made for states (q, u) of the shapes {wanted}; those of {type(system).__name__} have {got}. Give "
            "one that is made for this system."
        )


def _shapes(made_for: tuple[Any, int]) -> tuple[Any, tuple[int]]:
    space, velocities = made_for
    return jax.tree.map(lambda x: x.shape, space.stored), (velocities,)


def check_moving_parts(system, n_parts) -> None:
    """Checks that the system has prescribed motion, and that the number of its parts is known."""
    name = type(system).__name__
    if not system.prescribed_motion:
        raise TypeError(
            f"`system` is {name}, whose control prescribes no motion; MovingParts takes a system with `prescribed_motion`, "
            "such as jaxhamel.systems.RollingBall. Give a Feedback to this one directly."
        )
    if n_parts is None and system.n_controls is None:
        raise ValueError(
            f"`n_parts` is missing: {name} has no `n_controls`. Give `n_parts`, the number of entries of the motion θ."
        )
    if n_parts is not None:
        check_count("n_parts", n_parts, 0, 2**31 - 1)


def check_feedback_value(system, t, value, dtype, name: str) -> None:
    """Checks that a feedback gives finite real numbers in the state's dtype, in the system's number of controls."""
    for leaf in jax.tree.leaves(value):
        if leaf.dtype != dtype and not leaf.weak_type:
            raise TypeError(
                f"{name} gives {leaf.dtype} where the state (q, u) is {dtype}; both must be of one floating "
                "dtype. Cast its numbers, for example by `jax.tree.map(lambda x: x.astype(...), control)`."
            )
        _check_finite(t, leaf, name)
    wanted = controls_of(system) if isinstance(system, System) else None
    sizes = [leaf.shape for leaf in jax.tree.leaves(value)]
    if wanted is not None and sum(int(np.prod(shape)) for shape in sizes) != wanted:
        got = "no number" if not sizes else f"shape {sizes[0] if len(sizes) == 1 else sizes}"
        raise ValueError(
            f"{name} gives {got}; {type(system).__name__} takes ({wanted},). Change the result of its function (t, q, u)."
        )


def check_form_of_control(system, wanted: int, value, error: Exception) -> None:
    """Checks that the value of a control is one array (p,); `error`: the error of the system's methods with this value."""
    shape = getattr(value, "shape", None)
    if shape != (wanted,):
        got = f"a {type(value).__name__}" if shape is None else f"an array of shape {shape}"
        kind = TypeError if shape is None else ValueError
        raise kind(
            f"`control` gives {got}; {type(system).__name__} takes one array ({wanted},), since its `n_controls` is "
            f"{wanted}. Make one array of it, by `jnp.stack([...])` or `jnp.ravel`. With this control, {error}"
        )


def _check_finite(t, leaf, name: str) -> None:
    array = concrete(leaf)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"{name} gives {inline(array)} at the initial state, t = {inline(np.asarray(t))}; it must be "
            "finite. Look for a NaN among its numbers, or a quotient or root of zero."
        )
