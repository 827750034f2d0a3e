"""Functions of several inputs, as functions of the active ones: those with respect to which they are differentiated."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax


def with_entries(values: Sequence[Any], places: Iterable[int], new: Iterable[Any]) -> list[Any]:
    """A copy of the list `values` with `new` values at the indices `places`."""
    found = list(values)
    for i, value in zip(places, new, strict=True):
        found[i] = value
    return found


def of_active(
    function: Callable, active: Sequence[int], values: Sequence[Any]
) -> tuple[Callable, list[Any]]:
    """`function(*values)` as a function of the values with the indices `active`, and these values."""

    def of_these(*new):
        return function(*with_entries(values, active, new))

    return of_these, [values[i] for i in active]


def tangent_maps(function: Callable, active: Sequence[int]) -> tuple[Callable, Callable]:
    """Forward and reverse mode of a function y = F(*x), whose result is a list, with respect to the active inputs.

    **Returns:** (x, ẋ) ↦ F′(x) ẋ and (x, ȳ) ↦ F′(x)ᵀ ȳ, where ẋ and F′ᵀȳ are lists with an entry for each active input.
    """

    def forward(values, along):
        of_these, at = of_active(function, active, values)
        return list(jax.jvp(of_these, at, list(along))[1])

    def backward(values, bars):
        of_these, at = of_active(function, active, values)
        return list(jax.vjp(of_these, *at)[1](list(bars)))

    return forward, backward
