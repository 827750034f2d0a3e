"""Checks of times, steps and controls along a motion."""

from typing import Any

import jax
import numpy as np

from jaxhamel._checks._traced import called, explained
from jaxhamel._checks._values import (
    any_tracer,
    check_arrays,
    check_finite,
    check_one_array,
    check_positive,
    check_shape,
    concrete,
    described,
    inline,
)
from jaxhamel._compiled import compiled


def first_time(ts) -> Any:
    """ts[0], without compiling a program to index the array (0.05 s of the first call)."""
    times = concrete(ts)
    return ts[0] if times is None else times[:1].reshape(())


def check_time_array(ts) -> None:
    """Checks that the times are an array or a list of numbers."""
    check_arrays(ts=ts)
    check_one_array("ts", ts, "an array of times or a list of numbers")


def check_times(ts) -> None:
    """Checks that the times are one-dimensional, not empty, finite and strictly increasing."""
    check_shape("ts", ts, ("T",), "Give the times in a list or an array, ts[0] the initial time.")
    if ts.shape[0] == 0:
        raise ValueError("`ts` is empty; it must have at least the initial time as `ts[0]`.")
    check_finite("ts", ts)
    array = concrete(ts)
    if array is None or np.all(np.diff(array) > 0):
        return
    at = int(np.argmax(np.diff(array) <= 0))
    raise ValueError(
        f"`ts` is out of order: ts[{at}] = {array[at]:.9g} and ts[{at + 1}] = {array[at + 1]:.9g}; "
        "times must be strictly increasing. Sort them, or drop repeated ones; to go backwards in "
        "time use diffrax.diffeqsolve with jaxhamel.vector_field."
    )


def check_steps(rtol, atol, dt) -> None:
    """Checks that tolerances or a step are given, each a positive scalar."""
    if dt is not None and (rtol is not None or atol is not None):
        raise ValueError(
            "`dt` is given together with `rtol` or `atol`; give `dt` alone for fixed steps, or the "
            "tolerances alone for adaptive ones."
        )
    for name, value in {"rtol": rtol, "atol": atol, "dt": dt}.items():
        if value is None:
            continue
        check_arrays(**{name: value})
        if np.shape(value) != ():
            raise ValueError(f"`{name}` has shape {np.shape(value)}; it must be one number.")
        check_positive(name, value, "It is a step [s] or a tolerance, say dt=0.01 or rtol=1e-8.")


def check_control_along(ts, control, name: str = "control") -> Any:
    """Checks that a control is finite at all times `ts`; returns its values there, or None if times or values are traced."""
    times = concrete(ts)
    if control is None or times is None or any_tracer(control):
        return None
    try:
        values = _evaluate_control(control, ts)
    except Exception as error:
        raise _of_one_time(f"`{name}`", control, times[0], error) from None
    if any_tracer(values):  # the control closes over traced values
        return None
    for leaf in jax.tree.leaves(values):
        bad = ~np.isfinite(np.asarray(leaf)).reshape(len(times), -1).all(axis=1)
        if bad.any():
            raise ValueError(
                f"`{name}` is not finite at t = {times[np.argmax(bad)]:.9g}: "
                f"{inline(np.asarray(leaf)[np.argmax(bad)])}. It must be finite at all times; look "
                "for a NaN among its coefficients or a time outside its span."
            )
    return values


def _of_one_time(name: str, control, t, error: Exception) -> Exception:
    """The error to raise for a control that has failed under `vmap`.

    If a call at the single time t fails, too, its own error is raised, since it is easier to understand.
    """
    for leaf in jax.tree.leaves(called(name, control, t)):
        if not hasattr(leaf, "shape") and not isinstance(leaf, int | float):
            return TypeError(
                f"{name} gives {described(leaf)}; its values must be numbers or arrays."
            )
    return explained(name, error)


@compiled
def _evaluate_control(control, ts):
    return jax.vmap(control)(ts)
