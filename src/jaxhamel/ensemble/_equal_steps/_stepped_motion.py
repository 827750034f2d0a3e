"""An equation of motion in lanes, and the form of the arrays that its lanes share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._divided._array_equations import LEAST_SHARED
from jaxhamel._lanes._written_out import Written, written_out
from jaxhamel.ensemble._members._parameters import numbers


class SteppedMotion(NamedTuple):
    """An equation of motion in lanes: functions of one lane's numbers, and the columns of all lanes.

    - `rate`: (t, y, mine, shared) ↦ ẏ; `unit`: (y, shared) ↦ N(y).
    - `y`, `mine`: columns of the initial states and of each trajectory's own numbers; `shared`: a pytree of arrays.
    - `step`: (t, h, y, mine, shared) ↦ y₁ of a method on groups, else None.
    """

    rate: Callable
    unit: Callable
    y: Columns
    mine: Columns
    shared: Any  # a pytree of arrays
    step: Callable | None = None


# Shared arrays with at most this many numbers are split into scalars before the loops.
_FEW_NUMBERS = 64


def in_numbers(motion: SteppedMotion) -> SteppedMotion:
    """Splits small shared arrays into scalars: inside a loop XLA would compile a program for each entry that is read.

    An array that only operations on large arrays read (the biases of a network) stays an array.
    """
    leaves, structure = jax.tree.flatten(motion.shared)
    found = written_rate(motion) if any(x.size >= LEAST_SHARED for x in leaves) else None
    of_scalars = [True] * len(leaves)
    if found is not None and found.apart.operations:
        of_scalars = [bool(x) for x in found.arguments[-len(leaves) :]]
    small = [
        0 < x.size <= _FEW_NUMBERS and read for x, read in zip(leaves, of_scalars, strict=True)
    ]
    shared = [numbers(x) if few else x for few, x in zip(small, leaves, strict=True)]

    def whole(shared):
        pairs = zip(leaves, small, shared, strict=True)
        arrays = [jnp.reshape(jnp.stack(x), like.shape) if few else x for like, few, x in pairs]
        return jax.tree.unflatten(structure, arrays)

    def of_numbers(function):
        return function and (lambda *at: function(*at[:-1], whole(at[-1])))

    rate, unit, step = map(of_numbers, (motion.rate, motion.unit, motion.step))
    return motion._replace(rate=rate, unit=unit, step=step, shared=shared)


def written_rate(motion: SteppedMotion, t: Array | None = None) -> Written | None:
    """The rate of one lane as a program of scalars; `t`: the times of all lanes, None if they share the time."""
    time = jnp.zeros((), motion.y[0].dtype) if t is None else t
    given = time, motion.y, motion.mine, motion.shared
    return written_out(motion.rate, (t is not None, True, True, False), *given)
