"""Checks of collocation and of the constraints that only collocation takes."""

import numpy as np

from jaxhamel._checks._arguments import check_budget
from jaxhamel._checks._values import check_positive, concrete, inline, type_of


def check_collocation(method) -> None:
    """Checks the settings of collocation."""
    if method.intervals is not None and (
        not isinstance(method.intervals, int) or method.intervals < 1
    ):
        raise ValueError(
            f"`intervals` is {method.intervals!r}; it must be a whole number, 1 or more, or None for the intervals of the "
            "problem's `ts`."
        )
    if not isinstance(method.degree, int) or not 1 <= method.degree <= 9:
        raise ValueError(
            f"`degree` is {method.degree!r}; it must be a whole number from 1 to 9. Take 4, or 3."
        )
    if method.points not in ("gauss", "radau"):
        raise ValueError(f'`points` is {method.points!r}; it must be "gauss" or "radau".')
    check_positive("tolerance", method.tolerance, "Give a number larger than zero, say 1e-9.")
    check_budget(method.max_iterations, method.max_seconds)


def check_bounds(name: str, lower, upper) -> None:
    """Checks that lower ≤ upper, that neither is NaN, and that one of them is finite."""
    low, high = concrete(lower), concrete(upper)
    if low is None or high is None:
        return
    shapes = {np.shape(x) for x in (low, high)} - {()}
    if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
        raise ValueError(
            f"`lower` and `upper` of `{name}` have the shapes {np.shape(low)} and {np.shape(high)}; each must be a number "
            "or (r,)."
        )
    if np.any(np.isnan(low)) or np.any(np.isnan(high)):
        raise ValueError(f"`lower` or `upper` of `{name}` has NaN; give numbers, or infinity.")
    if not np.all(low <= high):
        raise ValueError(
            f"`lower` of `{name}` is {inline(low)} and `upper` is {inline(high)}; no value lies between them. Swap them?"
        )


def check_end_times(lower, upper) -> None:
    """Checks that lower < upper, both finite."""
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
    """Checks that a path limit's function gives (r,), and that the bounds fit."""
    if len(shape) != 1:
        raise ValueError(
            f"the function of the path limit `{name}` gives an array of shape {shape}; it must be (r,), such as "
            "jnp.stack([...])."
        )
    for side, bound in (("lower", lower), ("upper", upper)):
        if np.shape(bound) not in ((), shape):
            raise ValueError(
                f"`{side}` of `{name}` has shape {np.shape(bound)}; its function gives {shape}. Give a number or as many."
            )


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
