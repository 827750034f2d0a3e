"""Every check of what a user passes: the message names the argument, what it got, what it accepts
and what to do.

Values are checked where they are concrete, at the boundary (construction, the call of `simulate`),
never inside a right-hand side, where one check by value costs a factor of three in time.
"""

import jax
import numpy as np
from jax.core import Tracer


def concrete(value):
    """The value as a NumPy array, or None where there is nothing to look at.

    Under jit, vmap or grad the leaves are tracers, and None or a placeholder while a pytree is
    rebuilt: values are checked only where they are known, which is where a user's numbers enter.
    """
    known = int | float | np.number | np.ndarray | jax.Array
    if isinstance(value, Tracer) or not isinstance(value, known):
        return None
    return np.asarray(value)


def check_shape(name: str, value, shape: tuple[int | str, ...], next_step: str = "") -> None:
    """`value` has the given shape; an entry that is a string (an axis name) accepts any length."""
    got = getattr(value, "shape", None)
    if got is None or _same_shape(tuple(got), shape):
        return
    wanted = ", ".join(str(axis) for axis in shape) + ("," if len(shape) == 1 else "")
    raise ValueError(
        f"`{name}` has shape {tuple(got)}; it must have shape ({wanted}). {next_step}".rstrip()
    )


def _same_shape(got, wanted) -> bool:
    return len(got) == len(wanted) and all(
        isinstance(want, str) or want == have for want, have in zip(wanted, got, strict=True)
    )


def check_finite(name: str, value) -> None:
    """No NaN and no infinity."""
    array = concrete(value)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"`{name}` is {_short(array)}; every entry must be a finite number. "
            "Look where it was computed for a missing value or a division by zero."
        )


def check_positive(
    name: str, value, next_step: str = "Give it in SI units, larger than zero."
) -> None:
    """Every entry is finite and > 0."""
    check_finite(name, value)
    array = concrete(value)
    if array is not None and not np.all(array > 0):
        raise ValueError(f"`{name}` is {_short(array)}; it must be positive. {next_step}")


def check_not_negative(name: str, value, next_step: str = "Give it in SI units.") -> None:
    """Every entry is finite and >= 0."""
    check_finite(name, value)
    array = concrete(value)
    if array is not None and not np.all(array >= 0):
        raise ValueError(
            f"`{name}` is {_short(array)}; no entry may be negative, zero or more is accepted. "
            f"{next_step}"
        )


def check_inertia(name: str, value) -> None:
    """An inertia that a rigid body can have: symmetric, positive definite, triangle inequality.

    **Arguments:**

    - `name`: the argument as the user knows it.
    - `value`: `(3,)` principal moments along the body axes, or `(3, 3)`, kg m². Of tracers only
        the shape is known, and only that is checked.

    **Raises:** ValueError that names the argument, what it got, what it accepts and what to do.
    """
    shape = tuple(getattr(value, "shape", (3,)))
    if shape not in ((3,), (3, 3)):
        raise ValueError(
            f"`{name}` has shape {shape}; an inertia is (3,), the principal moments along the body "
            "axes, or (3, 3), the whole symmetric matrix, in kg m². "
            "For a batch of bodies make the system inside `jax.vmap`."
        )
    check_finite(name, value)
    array = concrete(value)
    if array is not None:
        _check_moments(name, _principal_moments(name, array), _rounding(array))


def _principal_moments(name, array):
    """Eigenvalues, ascending; symmetry is checked here because eigvalsh reads one triangle only."""
    if array.ndim == 1:
        return np.sort(array)
    asymmetry = np.max(np.abs(array - array.T))
    if asymmetry > _rounding(array):
        raise ValueError(
            f"`{name}` is not symmetric: it differs from its transpose by up to {asymmetry:.3g}. "
            "An inertia matrix is symmetric: look at its products of inertia, "
            "or take (I + I.T) / 2 if the difference is rounding."
        )
    return np.linalg.eigvalsh(array)


def _check_moments(name, moments, slack) -> None:
    if moments[0] <= 0:
        raise ValueError(
            f"`{name}` has the principal moments {moments}; all three must be positive "
            "(a positive definite inertia). "
            "Give a thin rod or a point a small positive moment about every axis."
        )
    largest, others = moments[2], moments[0] + moments[1]
    if largest > others + slack:
        raise ValueError(
            f"`{name}` has the principal moments {moments}; no rigid body has one larger than the "
            f"sum of the other two (the triangle inequality), and {largest:.6g} > {others:.6g}. "
            "Check the units, the point it is taken about, the sign of the products of inertia."
        )


def _rounding(array) -> float:
    """Slack for the rounding of the array's own precision, relative to its largest entry."""
    precision = np.finfo(array.dtype).eps if np.issubdtype(array.dtype, np.floating) else 0.0
    return 64.0 * float(precision) * float(np.max(np.abs(array)))


def check_unit_vectors(name: str, value) -> None:
    """Every vector (last axis 3) has length 1, to 1e-5."""
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    length = np.sqrt(np.sum(array * array, axis=-1))
    if np.any(np.abs(length - 1.0) > _UNIT):
        raise ValueError(
            f"`{name}` has vectors of length {_short(length)}; each must be a unit vector. "
            f"Divide it by `np.linalg.norm({name}, axis=-1, keepdims=True)`."
        )


def check_perpendicular(name: str, value, other_name: str, other) -> None:
    """Two arrays of unit vectors, perpendicular row by row, to 1e-5."""
    array, reference = concrete(value), concrete(other)
    if array is None or reference is None:
        return
    cosine = np.sum(array * reference, axis=-1)
    if np.any(np.abs(cosine) > _UNIT):
        raise ValueError(
            f"`{name}` must be perpendicular to `{other_name}`, row by row; the cosines of their "
            f"angles are {_short(cosine)}. "
            f"Subtract the part along `{other_name}` and make it a unit vector again."
        )


def _short(array) -> str:
    return np.array2string(np.asarray(array), precision=6, threshold=12)


_UNIT = 1e-5  # loose enough for vectors written with seven digits or in single precision


def check_frames(name: str, value, count: int) -> None:
    """`value` has one row for each time of a picture, and every entry is finite."""
    array = np.asarray(value)
    if array.ndim == 0 or len(array) != count:
        raise ValueError(
            f"`{name}` has shape {array.shape}; its first axis must have length {count}, one row for each entry of `ts`. "
            "Give arrays sampled at the same times."
        )
    if not np.all(np.isfinite(array)):
        row = int(np.argwhere(~np.isfinite(array))[0][0])
        raise ValueError(
            f"`{name}` is not finite at row {row}; a picture needs finite numbers. "
            "Cut the arrays before the time at which the simulation broke down."
        )
