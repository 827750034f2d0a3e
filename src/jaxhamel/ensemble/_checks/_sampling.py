"""Checks of sampling: distributions, number of samples, seed and sampler."""

import math
import os
from collections.abc import Mapping
from itertools import pairwise

import jax
import numpy as np

from jaxhamel._checks._arguments import check_outside
from jaxhamel._checks._values import (
    check_callable,
    check_finite,
    check_positive,
    check_real,
    described,
    type_of,
)

_WIDTHS = {
    "std": "It is the width of a distribution.",
    "sigma": "It is the standard deviation of the logarithm.",
    "median": "A lognormal number is positive; take the distribution normal for one that may not be.",
}
_OPEN_ENDS = {"truncated-normal": ("low", "high")}


def check_model(model) -> None:
    """Checks that the model is a function, and that neither it nor its closure holds a traced value."""
    check_callable("model", model, "of a dictionary of arrays, one for each distribution")
    cells = getattr(model, "__closure__", None) or ()
    check_outside("model", [model, *(cell.cell_contents for cell in cells)])


def check_distribution(name, parameters, known) -> None:
    """Checks that the distribution is known, and that its parameters are finite, broadcast, and give a positive width."""
    if not isinstance(name, str) or name not in known:
        raise ValueError(
            f"there is no distribution {described(name)}; take one of {', '.join(map(repr, known))} as `name`."
        )
    if set(parameters) != set(known[name]):
        raise ValueError(
            f"distribution {name!r} got {', '.join(parameters) or 'no parameters'}; it takes "
            f"{', '.join(known[name])}."
        )
    numbers = {key: _numbers_of(key, value) for key, value in parameters.items()}
    for key, value in numbers.items():
        open_end = key in _OPEN_ENDS.get(name, ()) and np.isinf(value)
        check_finite(key, np.where(open_end, 0.0, value))
    for key in _WIDTHS.keys() & numbers.keys():
        check_positive(key, numbers[key], _WIDTHS[key])
    _check_one_shape(name, numbers)
    ends = [numbers[key] for key in ("low", "mode", "high") if key in numbers]
    for low, high in pairwise(ends):
        if not np.all(low <= high) or not np.all(ends[0] < ends[-1]):
            raise ValueError(
                f"distribution {name!r} goes from {low} to {high}; `low` must be below `high`, and `mode` between."
            )


def _numbers_of(key, value):
    """Checks that a parameter consists of real numbers, and returns it as an array."""
    check_outside(key, value)
    try:
        check_real(key, value)
        return np.asarray(value, float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"`{key}` is {described(value)}; it must be a number or an array of numbers."
        ) from None


def _check_one_shape(name, numbers) -> None:
    """Checks that the parameters broadcast to one shape and that the random array, which has this shape, is not empty."""
    shapes = {key: value.shape for key, value in numbers.items()}
    said = ", ".join(f"`{key}` of shape {shape}" for key, shape in shapes.items())
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        raise ValueError(
            f"distribution {name!r} got {said}; they must broadcast to one shape, that of the random array. Give a single "
            "number for a parameter that all entries share."
        ) from None
    if 0 in shape:
        raise ValueError(
            f"distribution {name!r} got {said}: nothing to draw. Give at least one number."
        )


def check_sampling(
    distributions, size, seed, sampler, samplers, called: str = "trajectories"
) -> None:
    """Checks the arguments of sampling; `called` is the name of the argument with the number of samples."""
    if not isinstance(distributions, Mapping) or not distributions:
        raise ValueError(
            "`distributions` names nothing to draw; give a dictionary such as "
            '{"mass": Distribution("normal", mean=1.0, std=0.02)}.'
        )
    for name, each in distributions.items():
        if not isinstance(name, str):
            raise ValueError(
                f"`distributions` names a parameter {name!r}, {type_of(name)}; a name must be text."
            )
        if not hasattr(each, "quantile"):
            raise ValueError(
                f"`distributions` has {each!r} for {name!r}, which is no Distribution. Write a fixed number into `model`, "
                'or give Distribution("normal", mean=1.0, std=0.02), say.'
            )
    check_whole(called, size)
    check_room(called, size, 2)  # at least one quantity, and the failure flag
    if not _is_whole(seed) or seed < 0:
        raise ValueError(f"`seed` is {seed!r}; it must be a whole number, 0 or more.")
    if not isinstance(sampler, str) or sampler not in samplers:
        raise ValueError(
            f"`sampler` is {sampler!r}; it must be one of {', '.join(map(repr, samplers))}."
        )


def check_room(name, size, numbers) -> None:
    """Checks, before anything is allocated, that a table with this many rows and columns fits into memory."""
    there, wanted = _memory(), 8 * int(size) * numbers
    if wanted > there:
        raise ValueError(
            f"`{name}` is {size}; their table of {numbers} columns takes {wanted / 2**30:.3g} GiB of memory, and this "
            f"machine has {there / 2**30:.3g}. Take fewer, or fewer quantities."
        )


def _memory() -> float:
    """Memory of this machine in bytes; infinite if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def check_whole(name, value) -> int:
    """Checks that the number is whole and at least 1, and returns it."""
    if not _is_whole(value) or not 1 <= value < 2**63:
        raise ValueError(f"`{name}` is {described(value)}; it must be a whole number, at least 1.")
    return int(value)


def check_index(index, size) -> int:
    """Checks that the index is that of one of `size` trajectories, and returns it."""
    if not _is_whole(index) or not 0 <= index < size:
        raise ValueError(
            f"there is no trajectory {index!r}; there are {size}, counted from 0 to {size - 1}."
        )
    return int(index)


def refuses(said) -> bool:
    """Whether the result of a user's `check` is False, or a Boolean array that contains False."""
    known = isinstance(said, bool | np.bool_ | np.ndarray | jax.Array)
    return known and np.asarray(said).dtype == bool and not np.all(said)


def drawn_badly(index, seed, error) -> str:
    """The message for drawn parameters that the user's `check` refuses with this `error`."""
    return (
        f"the distributions draw parameters that are not valid: in trajectory {index} (seed {seed}), {error} Take a "
        "smaller spread, or a distribution without impossible values, such as lognormal or truncated-normal."
    )


def _is_whole(value) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
