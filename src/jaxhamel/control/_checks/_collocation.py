"""Checks of collocation and of the constraints that only collocation takes."""

import equinox as eqx
import jax
import numpy as np

from jaxhamel._checks._arguments import check_budget
from jaxhamel._checks._dependence import depends_on
from jaxhamel._checks._values import (
    check_positive,
    check_real,
    check_shape,
    concrete,
    described,
    inline,
    type_of,
)

MOST_INTERVALS = 10**6


def check_collocation(method) -> None:
    """Checks the settings of collocation."""
    named = method.intervals is None or method.intervals == "auto"
    if not (named or _is_whole(method.intervals, MOST_INTERVALS)):
        raise ValueError(
            f'`intervals` is {described(method.intervals)}; it must be a whole number from 1 to {MOST_INTERVALS}, "auto", '
            "or None for the intervals of the problem's `ts`."
        )
    if not _is_whole(method.degree, 9):
        raise ValueError(
            f"`degree` is {described(method.degree)}; it must be a whole number from 1 to 9. Take 4, or 3."
        )
    if not isinstance(method.points, str) or method.points not in ("auto", "gauss", "radau"):
        raise ValueError(
            f'`points` is {described(method.points)}; it must be "auto", "gauss" or "radau".'
        )
    for name, example in (("tolerance", "1e-9"), ("barrier", "0.1")):
        value = getattr(method, name)
        check_positive(name, value, f"Give a number larger than zero, say {example}.")
        check_shape(name, value, ())
    if method.error is not None:
        check_positive("error", method.error, "Give a number larger than zero, say 1e-8, or None.")
        check_shape("error", method.error, ())
    check_budget(method.max_iterations, method.max_seconds)


def _is_whole(value, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def check_name(name, argument: str = "name") -> None:
    """Checks that the name of a constraint, or its unit, is a string."""
    if not isinstance(name, str):
        raise TypeError(f"`{argument}` is {described(name)}; it must be a string, for messages.")


def check_bounds(name: str, lower, upper, shape=None, strict: bool = False) -> None:
    """Checks that lower ≤ upper (`strict`: <), that neither is NaN, and their shape: `shape`, by default any `(r,)`."""
    check_real(f"lower` of `{name}", lower)
    check_real(f"upper` of `{name}", upper)
    low, high = concrete(lower), concrete(upper)
    if low is None or high is None:
        return
    shapes = {np.shape(x) for x in (low, high)} - {()}
    fits = len(shapes) <= 1 if shape is None else shapes <= {shape}
    if not fits or (shape is None and any(len(shape) > 1 or 0 in shape for shape in shapes)):
        wanted = "(r,)" if shape is None else f"of the shape {shape}"
        raise ValueError(
            f"`lower` and `upper` of `{name}` have the shapes {np.shape(low)} and {np.shape(high)}; each must be a number "
            f"or {wanted}."
        )
    if np.any(np.isnan(low)) or np.any(np.isnan(high)):
        raise ValueError(f"`lower` or `upper` of `{name}` has NaN; give numbers, or infinity.")
    if np.any(low == np.inf) or np.any(high == -np.inf):
        raise ValueError(
            f"`lower` of `{name}` is {inline(low)} and `upper` is {inline(high)}; no finite number lies between them. No "
            "limit is -inf below and inf above."
        )
    if strict and np.any(low == high):
        raise ValueError(
            f"`lower` and `upper` of `{name}` are both {inline(low)}; a fixed parameter is no unknown: leave it out."
        )
    if not np.all(low <= high):
        raise ValueError(
            f"`lower` of `{name}` is {inline(low)} and `upper` is {inline(high)}; no value lies between them. Swap them?"
        )


def check_designed(name: str, system, where) -> None:
    """Checks that `where` selects one floating-point array of the system."""
    leaves = jax.tree.leaves(system)
    try:
        found = where(system)
    except Exception as error:
        raise TypeError(
            f"`where` of `{name}` fails on {type(system).__name__}: {error}. It must select one array of the system, as "
            "lambda system: system.mass does."
        ) from error
    if not any(found is leaf for leaf in leaves) or not eqx.is_inexact_array(found):
        raise TypeError(
            f"`where` of `{name}` gives {type_of(found)}; it must select one floating-point array of the "
            f"{type(system).__name__} itself, not a copy or a part of it."
        )


def check_end_times(lower, upper) -> None:
    """Checks that lower < upper, both finite."""
    check_real("lower` of `FreeEndTime", lower)
    check_real("upper` of `FreeEndTime", upper)
    low, high = concrete(lower), concrete(upper)
    if low is None or high is None:
        return
    if not (np.ndim(low) == 0 and np.ndim(high) == 0 and np.isfinite(low) and np.isfinite(high)):
        raise ValueError(
            f"`lower` and `upper` of `FreeEndTime` are {inline(low)} and {inline(high)}; give two finite times [s]."
        )
    if not low < high:
        raise ValueError(
            f"`lower` of `FreeEndTime` is {low:.9g} and `upper` {high:.9g}; the end time must lie between them. For a fixed "
            "end time leave `FreeEndTime` out."
        )


def check_after(lower, t0) -> None:
    """Checks that a free end time is after the first time."""
    low, first = concrete(lower), concrete(t0)
    if low is not None and first is not None and not low > first:
        raise ValueError(
            f"`lower` of `FreeEndTime` is {low:.9g} s and the first of `ts` {first:.9g} s; the end must come later."
        )


def check_one_end_time(count: int) -> None:
    """Checks that at most one constraint frees the end time."""
    if count > 1:
        raise ValueError(f"`constraints` has {count} `FreeEndTime`; give one, with both bounds.")


def check_limit_shape(name: str, shape: tuple[int, ...], lower, upper) -> None:
    """Checks that the bounds are numbers, or have the shape of the value of the path limit's function."""
    for side, bound in (("lower", lower), ("upper", upper)):
        if np.shape(bound) not in ((), shape):
            raise ValueError(
                f"`{side}` of `{name}` has shape {np.shape(bound)}; its function gives {shape}. Give one number, or an "
                "array of this shape."
            )


def check_limit_can_hold(
    name: str, function, q0, u0, value, lower, upper, starts_there: bool
) -> None:
    """Checks that a path limit depends on the state or the control, and that the initial state is within it.

    `function`: (q, u, value of the control) → `(r,)`, at the first time; `starts_there`: whether the motion begins at
    (q0, u0).
    """
    by_q, by_u, by_control = depends_on(function, q0, u0, value)
    if not (by_q or by_u or by_control):
        raise ValueError(
            f"the path limit `{name}` depends on neither q, u nor the control, so that no motion can change it. Look at "
            "what its function returns."
        )
    if by_control or not starts_there:
        return
    _check_within(name, function(q0, u0, value), lower, upper, "initial state (q0, u0)", "Begin")


def check_target_within(
    name: str, function, q, u, value, lower, upper, is_free: tuple[bool, bool]
) -> None:
    """Checks that a path limit that does not depend on the control allows the state of `StateAtEnd`.

    `function`: as for `check_limit_can_hold`, at the last time; `is_free`: whether q and u are free there.
    """
    by_q, by_u, by_control = depends_on(function, q, u, value)
    if not (by_control or (by_q and is_free[0]) or (by_u and is_free[1])):
        _check_within(name, function(q, u, value), lower, upper, "state of `StateAtEnd`", "End")


def _check_within(name: str, found, lower, upper, place: str, verb: str) -> None:
    """Raises if a limit's value at a given state is not within its bounds; traced numbers pass."""
    found, low, high = (concrete(x) for x in (found, lower, upper))
    if found is None or low is None or high is None:
        return
    room = 1e-6 * (1 + np.abs(found))
    if np.any((found < low - room) | (found > high + room)):
        raise ValueError(
            f"the path limit `{name}` is {inline(found)} at the {place}; its bounds are {_written(low)} to "
            f"{_written(high)}. {verb} within them, or widen them."
        )


def _written(numbers) -> str:
    """Numbers for a message."""
    return inline(numbers) if numbers.ndim else f"{float(numbers):.6g}"


def check_fits(state):
    """Returns a restored part of a saved search; raises `ValueError` if it is None, as the arrays do not fit the problem."""
    if state is None:
        raise ValueError(
            "the saved search is damaged, or one of another problem, mesh or precision: its arrays do not fit. Start "
            "without it."
        )
    return state


def check_has_optimum(result) -> None:
    """Checks that a result has the unknowns and multipliers of its optimum."""
    if getattr(result, "optimum", None) is None:
        raise TypeError(
            f"`result` is {type_of(result)} without multipliers; give the result of "
            "control.solve(problem, control.Collocation())."
        )


def check_has_value_only(system) -> None:
    """Checks that the system needs no rates of its control."""
    if system.prescribed_motion:
        raise TypeError(
            f"the control of {type(system).__name__} prescribes motion, of which a piecewise polynomial has no second rate. "
            f"Give the problem MovingParts({type(system).__name__}(...)), whose control is the acceleration of the parts."
        )
