"""Checks of arguments that fits, searches and other functions share: classes, solvers, budgets, keys, callables."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxhamel._checks._values import (
    any_tracer,
    check_arrays,
    check_callable,
    check_finite,
    check_positive,
    check_shape,
    described,
    is_real,
    type_of,
)


def check_kind(name: str, value, kind: type, next_step: str) -> None:
    """Checks that the value is an object of the class (and not the class itself)."""
    if not isinstance(value, kind):
        raise TypeError(f"`{name}` is {type_of(value)}; {next_step}")


def each_of(name: str, given, kind: type) -> tuple:
    """Checks that `given` is a list or tuple of objects of the class, and returns these as a tuple."""
    if isinstance(given, kind):
        raise TypeError(
            f"`{name}` is one {type(given).__name__}; give it in a list, even where it is the only one."
        )
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise TypeError(f"`{name}` is {type_of(given)}; it must be a list or tuple.")
    entries = tuple(given)
    for entry in entries:
        if not isinstance(entry, kind):
            what = type_of(entry).replace("of type", "an object of type")
            raise TypeError(
                f"`{name}` holds {what}; it takes objects such as {EXAMPLES[kind.__name__]}, in a list or tuple."
            )
    return entries


EXAMPLES = {
    "AbstractParameter": 'identify.Positive("mass"), Free, Bounded, BodyInertia or RotationalInertia',
    "AbstractMeasurement": "identify.Position(), AngularRate() or Measured(function, columns)",
    "StatePrior": "identify.StatePrior(identify.Coordinate(0), mean, std)",
    "Run": "identify.Run(ts, values)",
    "AbstractCost": "control.Tracking(path), Endpoint(q=…), ControlEnergy() or Running(function)",
    "AbstractConstraint": "control.StateAtEnd(q=…) or ControlAt(value=…)",
}


def is_least_squares(solver) -> bool:
    """Whether the solver has the methods of one of optimistix; an optimiser of optax does not have them."""
    return hasattr(solver, "step") and hasattr(solver, "terminate")


def check_solver(solver) -> None:
    """Checks that the solver is an optimistix least-squares solver or an optax optimiser."""
    if isinstance(solver, type) or not (is_least_squares(solver) or hasattr(solver, "update")):
        raise TypeError(
            f"`solver` is {type_of(solver)}; it must be an optimistix least-squares solver such as "
            "optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-4), or an optax optimiser such as optax.adam(1e-2)."
        )


def check_outside(name: str, value) -> None:
    """Checks that no value is traced, for functions that do not work under jit, vmap or grad."""
    if any_tracer(value):
        raise TypeError(f"`{name}` is traced; {OUTSIDE}")


def check_number(name: str, value, next_step: str = "") -> None:
    """Checks that the value is one finite real number."""
    check_shape(name, value, (), next_step)
    check_finite(name, value)


def check_positive_number(name: str, value, next_step: str) -> None:
    """Checks that the value is one finite real number > 0."""
    check_shape(name, value, (), next_step)
    check_positive(name, value, next_step)


def check_random_key(name: str, key) -> None:
    """Checks that the value is one JAX random key."""
    dtype = getattr(key, "dtype", None)
    is_new = dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    if not (is_new and key.shape == ()) and not (dtype == np.uint32 and key.shape == (2,)):
        raise TypeError(
            f"`{name}` is {described(key)}; it must be one JAX random key, for example jax.random.key(0)."
        )


def check_start(name: str, start, shape: tuple, what: str) -> None:
    """Checks that the start of a search is concrete and finite and has this shape.

    `what`: the sentence that the message adds on the shape.
    """
    check_arrays(**{name: start})
    check_outside(name, start)
    check_shape(name, np.asarray(start), shape, what)
    check_finite(name, np.asarray(start))


def check_starts(starts, size: int, what: str) -> None:
    """Checks that the starts of a search are the rows of an array `(S, size)`, S ≥ 1; `what`: as in `check_start`."""
    check_start("starts", starts, ("S", size), what)
    if np.shape(starts)[0] == 0:
        raise ValueError("`starts` has no row; give one start at least, see `perturbed_starts`.")


def check_progress(progress) -> None:
    """Checks that `progress` is a function of one argument, or None."""
    if progress is not None:
        check_called_with("progress", progress, 1, "of a `Progress`, such as print")


def check_called_with(name: str, value, count: int, signature: str) -> None:
    """Checks that the argument is callable with `count` arguments, and not a class."""
    check_callable(name, value, signature)
    if not callable_with(value, count):
        raise TypeError(
            f"`{name}` is {type_of(value)} that cannot be called with {count} argument{'s' if count > 1 else ''}; it must "
            f"be a callable {signature}."
        )


def callable_with(function: Callable[..., Any], count: int) -> bool:
    """Whether the function can be called with this number of arguments, as far as its signature is known."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # no signature: built in
        return True
    return True


def check_budget(max_iterations, max_seconds) -> None:
    """Checks the limits of a search: a whole number of iterations, and seconds, 0 or more."""
    check_count("max_iterations", max_iterations)
    check_seconds(max_seconds)


def check_seconds(max_seconds) -> None:
    """Checks that the limit of time is one number, 0 or more."""
    if (
        not is_real(max_seconds)
        or isinstance(max_seconds, list | tuple)
        or np.shape(max_seconds)
        or not max_seconds >= 0
    ):
        raise ValueError(
            f"`max_seconds` is {described(max_seconds)}; it must be a number of seconds, 0 or more; with 0 only the start "
            "is evaluated."
        )


def check_count(name: str, value, least: int = 1, most: int = 2**63 - 1) -> None:
    """Checks that the number is a whole one from `least` to `most`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        limits = f"{least} or more" if most >= 2**63 - 1 else f"from {least} to {most}"
        raise ValueError(f"`{name}` is {described(value)}; it must be a whole number, {limits}.")


OUTSIDE = (
    "its value is needed, because fits, searches and Monte Carlo runs are loops in Python, which do not work under jit, "
    "vmap or grad. Call them outside; to differentiate, take `jaxhamel.simulate`, `ensemble.rollout`, `control.residual`, "
    "`GaitProblem.cost` or `identify.Experiment.information`."
)
