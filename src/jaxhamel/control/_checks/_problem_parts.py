"""Checks of the parts of a problem: users' functions (arguments, and shapes of results), free initial states, conditions
that relate both ends, phases.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with
from jaxhamel._checks._dependence import depends_on
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    an_object,
    check_callable,
    check_finite,
    check_real,
    concrete,
    described,
    inline,
    type_of,
)
from jaxhamel.control._checks._collocation import check_has_value_only

# How a function with this number of arguments is called, for messages.
ARGUMENTS = {1: "(t)", 2: "(q, u)", 4: "(t, q, u, control)"}


def check_rows(name: str, function: Callable[..., Any], *at: Any, arguments: str = "") -> None:
    """Checks that a function gives a real vector `(r,)` or one number; `arguments`: their names, for messages."""
    found = _floating(name, function, at, arguments)
    if len(found.shape) > 1:
        raise ValueError(
            f"{name} gives an array of shape {found.shape}; it must be (r,), such as jnp.stack([...]), or one number."
        )


def check_depends(name: str, function: Callable[..., Any], *at: Any) -> None:
    """Checks that a function of states at the ends depends on one of its arguments."""
    if not any(depends_on(function, *at)):
        raise ValueError(
            f"{name} depends on none of its arguments, so that no motion can change it. Look at what it returns."
        )


def check_one_target(targets: list[Any]) -> None:
    """Checks that the targets (q, u) of `StateAtEnd` agree, None being free; traced numbers pass."""
    for k, which in enumerate("qu"):
        given = [jax.tree.leaves(target[k]) for target in targets if target[k] is not None]
        for leaves in zip(*given, strict=True):
            known = [x for x in map(concrete, leaves) if x is not None]
            if not all(np.array_equal(x, known[0]) for x in known):
                raise ValueError(
                    f"`constraints` has {len(given)} `StateAtEnd` whose `{which}` are {' and '.join(map(inline, known))}; a "
                    "motion ends in one state. Keep one of them."
                )


def check_scalar(name: str, function: Callable[..., Any], *at: Any) -> None:
    """Checks that a function gives one real number."""
    found = _floating(name, function, at)
    if found.shape not in ((), (1,)):
        raise ValueError(f"{name} gives an array of shape {found.shape}; it must be one number.")


def _floating(
    name: str, function: Callable[..., Any], at: tuple[Any, ...], arguments: str = ""
) -> Any:
    """Checks that a function can be called and gives a floating-point array; returns the array's shape and dtype."""
    arguments = arguments or ARGUMENTS[len(at)]
    if not callable_with(function, len(at)):
        raise TypeError(f"{name} cannot be called as {arguments}; write it as a function of these.")
    found = called(name, function, *at)
    if not isinstance(found, jax.ShapeDtypeStruct):
        advice = " The control is a function of t here: its value is control(t)."
        raise TypeError(
            f"{name} returns {an_object(found)}; it must be called as {arguments} and return one array."
            f"{advice if callable(found) else ''}"
        )
    if not np.issubdtype(found.dtype, np.floating):
        raise TypeError(f"{name} gives {found.dtype}; it must return real floating-point numbers.")
    return found


def check_selection(
    name: str, which: str, given, count: int, or_flag: str = "True, False, or "
) -> None:
    """Checks that the chosen coordinates are different numbers below their count; or, with `or_flag`, True or False."""
    if or_flag and isinstance(given, bool):
        return
    whole = isinstance(given, tuple) and all(
        isinstance(i, int | np.integer) and not isinstance(i, bool) and 0 <= i < count
        for i in given
    )
    if not whole or len(set(given)) < len(given):
        raise ValueError(
            f"`{which}` of `{name}` is {described(given)}; it must be {or_flag}a tuple of different whole numbers "
            f"from 0 to {count - 1}, such as (0,)."
        )


def check_free(name: str, which: str, target, free, count: int) -> None:
    """Checks the indices of free coordinates of a target, which is None if all of it is free."""
    check_selection(name, f"free_{which}", free, count, "")
    if free and target is None:
        raise ValueError(
            f"`free_{which}` of `{name}` is {free}, but `{which}` is None, which frees all of it. Give `{which}`, or leave "
            f"`free_{which}` out."
        )


def check_some_coordinates(name: str, count: int) -> None:
    """Checks that at least one coordinate is chosen."""
    if not count:
        raise ValueError(
            f"`{name}` selects no coordinate: give True or the numbers of some for `q` or `u`, or leave it out."
        )


def check_displacement(name: str, displacement, n: int) -> None:
    """Checks that a displacement is finite, and a number or `(n,)`."""
    argument = f"displacement` of `{name}"
    check_real(argument, displacement)
    check_finite(argument, displacement)
    if np.shape(displacement) not in ((), (n,)):
        raise ValueError(
            f"`{argument}` has shape {np.shape(displacement)}; it must be 0 or ({n},), in the tangent space of the first "
            "configuration."
        )
    value = concrete(displacement)
    if value is not None and np.shape(value) == () and n > 1 and value != 0:
        raise ValueError(
            f"`{argument}` is one number; give all {n} coordinates of it, or 0 for a closed motion."
        )


def check_one_initial_state(count: int) -> None:
    """Checks that there is at most one free initial state."""
    if count > 1:
        raise ValueError(
            f"`constraints` has {count} FreeInitialState; a problem has one initial state. Give one with all of its free "
            "coordinates."
        )


def check_phases(problems, links) -> None:
    """Checks that there are two problems or more, of one precision, with a link from each to the next."""
    given = isinstance(problems, tuple | list)
    if not given or not all(hasattr(x, "constraints") and hasattr(x, "ts") for x in problems):
        raise TypeError(
            f"`problems` is {type_of(problems)}; it must be a tuple of control.ControlProblem, one for each phase."
        )
    if len(problems) < 2:
        raise ValueError(
            f"`problems` has {len(problems)} problem; phases take at least two. Solve a single one by itself."
        )
    dtypes = sorted({str(x.u0.dtype) for x in problems})
    if len(dtypes) > 1:
        raise ValueError(f"`problems` have the precisions {' and '.join(dtypes)}; give them one.")
    for problem in problems:
        check_has_value_only(problem.system)
    if links is not None and not isinstance(links, tuple | list):
        raise TypeError(
            f"`links` is {type_of(links)}; it must be a list with a function (q, u, q_next, u_next) -> (r,), or None, "
            "for each two phases."
        )
    if links is not None and len(links) != len(problems) - 1:
        raise ValueError(
            f"`links` has {len(links)} entries; {len(problems)} phases take {len(problems) - 1}; None is a continuous state."
        )


def check_link(k: int, link, before, after) -> None:
    """Checks that a link is a function of the states before and after it or, if it is None, that their shapes are equal."""
    if link is not None:
        check_callable(f"links[{k}]", link, "(q, u, q_next, u_next) -> (r,)")
        names = "(q, u, q_next, u_next)"
        check_rows(f"`links[{k}]`", link, *before, *after, arguments=names)
        return
    shapes = [jax.tree.map(np.shape, x) for x in (before, after)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"the states of phases {k + 1} and {k + 2} have the shapes {shapes[0]} and {shapes[1]}, so that they cannot be "
            f"continuous; give `links` with a function (q, u, q_next, u_next) -> (r,) as entry {k}."
        )


def check_result_of_phases(result, kind) -> None:
    """Checks that a result is one of `control.phases`, by its system's right-hand side."""
    function = getattr(getattr(getattr(result, "problem", None), "system", None), "function", None)
    if not isinstance(function, kind) or getattr(result, "ts", None) is None:
        raise TypeError(
            f"`result` is {type_of(result)} of another problem; give that of control.solve(control.phases(...), "
            "control.Collocation())."
        )
