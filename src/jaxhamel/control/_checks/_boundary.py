"""Checks of free initial states and of conditions that relate both ends."""

import numpy as np

from jaxhamel._checks._values import check_finite, check_real, concrete, described


def check_coordinates(name: str, which: str, given, count: int) -> None:
    """Checks that the chosen coordinates are True, False, or different numbers below their count."""
    if isinstance(given, bool):
        return
    whole = isinstance(given, tuple) and all(
        isinstance(i, int | np.integer) and not isinstance(i, bool) and 0 <= i < count
        for i in given
    )
    if not whole or len(set(given)) < len(given):
        raise ValueError(
            f"`{which}` of `{name}` is {described(given)}; it must be True, False, or a tuple of different whole numbers "
            f"from 0 to {count - 1}, such as (0,)."
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
