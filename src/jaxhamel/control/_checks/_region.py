"""Checks of `region` and of `tail_mean`, which examine many motions of a closed loop."""

from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxhamel._checks._arguments import check_called_with
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    check_arrays,
    check_finite,
    check_one_array,
    check_positive,
    check_real,
    check_shape,
    concrete,
    described,
    inline,
    type_of,
)
from jaxhamel.mechanics._checks._system import check_state
from jaxhamel.mechanics._tangent import tangent_size


def check_grid(
    parts: tuple[Any, Any], along: Any, values: Any, size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Checks two directions and the values along them, and returns the values as arrays."""
    for name, pair in (("along", along), ("values", values)):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            got = f"{len(pair)} entries" if isinstance(pair, tuple | list) else type_of(pair)
            raise TypeError(f"`{name}` is {got}; it must be a pair, one for each of a and b.")
    for i, direction in enumerate(along):
        if callable(direction):
            _check_selected(f"along[{i}]", parts, direction)
        else:
            _check_direction(f"along[{i}]", direction, size)
    return _checked_row("values[0]", values[0]), _checked_row("values[1]", values[1])


def _check_direction(name: str, direction: Any, size: int) -> None:
    check_one_array(
        name, direction, "a direction of the state, or a function of (system, controller)"
    )
    if np.shape(direction) != (size,):
        raise ValueError(
            f"`{name}` has shape {np.shape(direction)}; it must be ({size},), a direction (δ_q, δ_u) of the state."
        )
    check_finite(name, direction)


def _check_selected(name: str, parts: tuple[Any, Any], select: Any) -> None:
    """Checks that one floating-point array of the system or of the controller is selected."""
    check_called_with(name, select, 2, "of (system, controller)")
    example = f"`{name}` must select one floating-point array, as lambda system, controller: system.mass does"
    try:
        found = select(*parts)
    except Exception as error:
        raise TypeError(f"{example}; it fails: {error}.") from error
    if not any(found is leaf for leaf in jax.tree.leaves(parts)) or not eqx.is_inexact_array(found):
        raise TypeError(f"{example}; it gives {type_of(found)}, which is none of theirs.")


def _checked_row(name: str, values: Any) -> np.ndarray:
    check_one_array(name, values, "the numbers along one direction")
    check_real(name, values)
    check_finite(name, values)
    if np.ndim(values) != 1 or np.size(values) == 0:
        raise ValueError(f"`{name}` has shape {np.shape(values)}; it must be (A,), one or more.")
    return np.asarray(values)


def check_goal(system: Any, goal: Any, tolerance: Any) -> None:
    """Checks that the goal is a state, and the tolerance one number or one for each coordinate of its tangent space."""
    if not isinstance(goal, tuple) or len(goal) != 2:
        raise TypeError(f"`goal` is {described(goal)}; it must be a state (q, u), or None.")
    check_state(system, *goal)
    check_real("tolerance", tolerance)
    size = tangent_size(system)
    if np.shape(tolerance) not in ((), (size,)):
        raise ValueError(
            f"`tolerance` has shape {np.shape(tolerance)}; it must be one number or ({size},), one for each number of "
            "(δ_q, δ_u)."
        )
    check_positive("tolerance", tolerance, "It is a distance of the last state from the goal.")


def check_held_function(held: Any, start: tuple[Any, Any], rows: int) -> None:
    """Checks that `held` gives one bool for a motion from the state `start` with this number of times."""
    if held is None:
        return
    check_called_with("held", held, 3, "of (ts, q, u)")

    def along(x):
        return jax.ShapeDtypeStruct((rows, *x.shape), x.dtype)

    q, u = jax.tree.map(along, start)
    found = called("`held`", held, jax.ShapeDtypeStruct((rows,), u.dtype), q, u)
    shape, dtype = getattr(found, "shape", None), getattr(found, "dtype", None)
    if shape != () or not isinstance(dtype, np.dtype) or dtype.kind != "b":
        got = type_of(found) if shape is None else f"an array of shape {shape} and {dtype}"
        raise TypeError(
            f"`held` gives {got}; it must give one bool for the whole motion, such as jnp.all(jnp.abs(q) < 1.0)."
        )


def check_tail(values, share) -> None:
    """Checks that there are values, real numbers, and that the share is above 0 and at most 1."""
    check_arrays(values=values)
    check_real("values", values)
    if np.ndim(values) == 0 or np.shape(values)[0] == 0:
        raise ValueError(
            f"`values` has shape {np.shape(values)}; it must be (N, ...), one row for each member of the ensemble."
        )
    check_shape("share", share, (), "It is the share of the largest values, say 0.05.")
    check_real("share", share)
    number = concrete(share)
    if number is not None and not 0 < number <= 1:
        raise ValueError(
            f"`share` is {inline(number)}; it must be above 0 and at most 1, say 0.05 for the largest 5 %."
        )
