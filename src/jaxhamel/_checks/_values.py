"""Checks of single values: shape, finiteness, sign, unit length."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer


def concrete(value):
    """The value as a NumPy array, or None if it is not a known number or array.

    Under jit, vmap or grad a leaf is a tracer, and while a pytree is rebuilt it may be None or a placeholder. Checks leave
    these out: a user's numbers are known where they enter the package.
    """
    known = int | float | np.number | np.ndarray | jax.Array
    if isinstance(value, Tracer) or not isinstance(value, known):
        return None
    return np.asarray(value)


def check_shape(name: str, value, shape: tuple[int | str, ...], next_step: str = "") -> None:
    """Checks the shape of `value`; an entry that is a string (an axis name) accepts any length."""
    check_real(name, value)
    is_list = isinstance(value, list | tuple)
    got = _shape_of_lists(name, value) if is_list else getattr(value, "shape", None)
    if got is None or same_shape(tuple(got), shape):
        return
    wanted = ", ".join(str(axis) for axis in shape) + ("," if len(shape) == 1 else "")
    raise ValueError(
        f"`{name}` has shape {tuple(got)}; it must have shape ({wanted}). {next_step}".rstrip()
    )


def same_shape(got: tuple[int, ...], wanted: tuple[int | str, ...]) -> bool:
    """Whether two shapes are equal; a string in the wanted shape accepts any length."""
    return len(got) == len(wanted) and all(
        isinstance(want, str) or want == have for want, have in zip(wanted, got, strict=True)
    )


def check_real(name: str, value) -> None:
    """Checks that the value is a real number, an array of real numbers, or a function, which may return such."""
    if isinstance(value, list | tuple):
        _shape_of_lists(name, value)
    is_function = callable(value) and not isinstance(value, type)
    if not is_function and not is_real(value):
        raise TypeError(
            f"`{name}` is {described(value)}; it must be a real number or an array of real numbers, in SI units."
        )


def is_real(value) -> bool:
    """Whether a value is a real number, or an array or list of real numbers; tracers and abstract arrays count as arrays."""
    if isinstance(value, jax.Array | np.generic | np.ndarray):
        return getattr(value.dtype, "kind", "") in tuple("biufV")  # V: bfloat16 and similar types
    if isinstance(value, list | tuple):
        return all(map(is_real, value))
    if isinstance(value, int):
        return abs(value) < 2**1023  # larger ones are no floating-point numbers
    return isinstance(value, float) or hasattr(value, "shape")


def check_finite(name: str, value) -> None:
    """Checks that no entry is NaN or infinite."""
    check_real(name, value)
    array = concrete(value)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"`{name}` is {inline(array)}; every entry must be a finite number. "
            "Look where it was computed for a missing value or a division by zero."
        )


def check_positive(
    name: str, value, next_step: str = "Give it in SI units, larger than zero."
) -> None:
    """Checks that every entry is finite and > 0."""
    check_finite(name, value)
    array = concrete(value)
    if array is not None and not np.all(array > 0):
        raise ValueError(f"`{name}` is {inline(array)}; it must be positive. {next_step}")


def check_not_negative(name: str, value, next_step: str = "Give it in SI units.") -> None:
    """Checks that every entry is finite and >= 0."""
    check_finite(name, value)
    array = concrete(value)
    if array is not None and not np.all(array >= 0):
        raise ValueError(
            f"`{name}` is {inline(array)}; no entry may be negative, zero or more is accepted. "
            f"{next_step}"
        )


def check_zero(name: str, value, next_step: str) -> None:
    """Checks that every entry is 0."""
    array = concrete(value)
    if array is not None and np.any(array != 0):
        raise ValueError(f"`{name}` is {inline(array)}; it must be 0. {next_step}")


def check_unit_vectors(name: str, value) -> None:
    """Checks that every vector (last axis 3) has length 1, to 1e-5."""
    check_finite(name, value)
    array = concrete(value)
    if array is None:
        return
    length = np.sqrt(np.sum(array * array, axis=-1))
    if np.any(np.abs(length - 1.0) > UNIT_TOLERANCE):
        raise ValueError(
            f"`{name}` has vectors of length {inline(length)}; each must be a unit vector. "
            f"Divide it by `np.linalg.norm({name}, axis=-1, keepdims=True)`."
        )


def check_perpendicular(name: str, value, other_name: str, other) -> None:
    """Checks that two arrays of unit vectors are perpendicular row by row, to 1e-5."""
    array, reference = concrete(value), concrete(other)
    if array is None or reference is None:
        return
    cosine = np.sum(array * reference, axis=-1)
    if np.any(np.abs(cosine) > UNIT_TOLERANCE):
        raise ValueError(
            f"`{name}` must be perpendicular to `{other_name}`, row by row; the cosines of their "
            f"angles are {inline(cosine)}. "
            f"Subtract the part along `{other_name}` and make it a unit vector again."
        )


def inline(array) -> str:
    """An array as text on one line."""
    return " ".join(np.array2string(np.asarray(array), precision=6, threshold=12).split())


UNIT_TOLERANCE = 1e-5  # tolerates vectors written with seven digits or in single precision


def type_of(value) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return "None" if value is None else f"of type {type(value).__name__}"


def an_object(value) -> str:
    """The value for a message after "returns": None, a class, or "an object of type dict"."""
    return (
        type_of(value)
        if value is None or isinstance(value, type)
        else f"an object {type_of(value)}"
    )


def check_last_axes(name: str, value, axes: tuple[int, ...], what: str) -> None:
    """Checks that the last axes have the given lengths; any axes may precede them. `what`: a description of the array."""
    got = tuple(np.shape(value))
    if got[-len(axes) :] != axes:
        wanted = ", ".join(str(axis) for axis in axes)
        raise ValueError(
            f"`{name}` has shape {got}; it must have shape (..., {wanted}): {what}. "
            "Put the batch axes first."
        )


def check_vector(name: str, value) -> None:
    """Checks that an array has one axis."""
    if not hasattr(value, "shape") or len(value.shape) != 1:
        got = f"shape {value.shape}" if hasattr(value, "shape") else f"type {type(value).__name__}"
        raise ValueError(
            f"`{name}` has {got}; without a `space` it must be a point of Euclidean(n), an array "
            "of shape (n,). Give `space=` for any other configuration."
        )


def check_arguments(t, q, velocities: dict) -> None:
    """Checks that t is one finite time and that configuration and velocities are arrays."""
    check_one_time("t", t, ", and goes before q and u. For several use jax.vmap")
    check_arrays(q=q, **velocities)
    for name, value in velocities.items():
        check_velocity(name, value)


def check_one_time(name: str, t, next_step: str = "") -> None:
    """Checks that a time is one finite number."""
    check_arrays(**{name: t})
    check_one_array(name, t, "one time")
    if np.shape(t) != ():
        raise ValueError(f"`{name}` has shape {np.shape(t)}; it must be one time{next_step}.")
    check_finite(name, t)


def check_velocity(name: str, value) -> None:
    """Checks that a velocity is one array; a tuple would be a configuration."""
    if isinstance(value, tuple) and any(np.ndim(part) for part in jax.tree.leaves(value)):
        raise TypeError(
            f"`{name}` is a tuple of {len(value)}; it must be one array, the components of all velocities after one "
            "another. A tuple is a configuration, which goes before the velocity: q, then u."
        )
    check_one_array(name, value, "one array, the components of all velocities after one another")


def check_one_array(name: str, value, accepts: str) -> None:
    """Checks that a value is an array or a list of numbers, not a dictionary or another container."""
    if not isinstance(value, list | tuple) and not jax.tree_util.all_leaves([value]):
        raise TypeError(f"`{name}` is {type_of(value)}; it must be {accepts}.")


def _shape_of_lists(name: str, value) -> tuple:
    """The shape of the array with these nested lists as its rows.

    **Raises:** `ValueError` if the entries of one list differ in shape.
    """
    if not isinstance(value, list | tuple):
        return np.shape(value)
    shapes = sorted({_shape_of_lists(name, entry) for entry in value})
    if len(shapes) > 1:
        raise ValueError(
            f"`{name}` is ragged: entries of one list have the shapes {' and '.join(map(str, shapes))}; "
            "an array needs entries of one shape."
        )
    return (len(value), *shapes[0]) if shapes else (0,)


def check_constant_control(control) -> None:
    """Checks that a control that is not callable, hence constant, consists of numbers."""
    parts = jax.tree.leaves(control, is_leaf=lambda x: isinstance(x, list))
    for leaf in jax.tree.leaves(
        parts, is_leaf=lambda x: x is None
    ):  # None in a list is a leaf, and no number
        kind = getattr(leaf, "dtype", None)
        if (np.asarray(leaf).dtype if kind is None else np.dtype(kind)).kind in "OUSmMc":
            raise TypeError(
                f"`control` is {described(leaf)}; it must be a callable of t, or a constant made of numbers, or None."
            )


def check_not_ragged(name: str, value) -> None:
    """Checks that each list in a pytree has entries of one shape."""
    for part in jax.tree.leaves(value, is_leaf=lambda x: isinstance(x, list)):
        _shape_of_lists(name, part)


def check_arrays(**named) -> None:
    """Checks that every leaf of each argument can be converted to an array of real numbers."""
    for name, value in named.items():
        check_not_ragged(name, value)
        for leaf in jax.tree.leaves(value, is_leaf=lambda x: x is None):
            kind = getattr(leaf, "dtype", None)
            kind = np.asarray(leaf).dtype if kind is None else np.dtype(kind)
            if kind.kind not in "iufV":  # V: bfloat16 and similar types
                raise TypeError(
                    f"`{name}` is {type_of(leaf)} of dtype {kind}; it must be made of real numbers. "
                    "Give an array, a list of numbers, or a tuple of those on a product space."
                )


def any_tracer(tree) -> bool:
    """Whether some leaf is a tracer, so that its value is unknown."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def computed(f: Callable[..., Any], *arguments) -> Any:
    """f(*arguments) with concrete values, also inside of `jit`; None if the result depends on a tracer."""
    if any_tracer(arguments):
        return None
    with jax.ensure_compile_time_eval():
        found = f(*arguments)
    return None if any_tracer(found) else found


def check_callable(name: str, value, signature: str) -> None:
    """Checks that the argument is callable, and not a class."""
    if not callable(value) or isinstance(value, type):
        raise TypeError(f"`{name}` is {type_of(value)}; it must be a callable {signature}.")


def check_numbers(owner, positive: tuple[str, ...] = (), finite: tuple[str, ...] = ()) -> None:
    """Checks that the fields of a system with these names are finite single numbers, those named in `positive` > 0."""
    for name in (*positive, *finite):
        check_shape(name, getattr(owner, name), ())
    for name in positive:
        check_positive(name, getattr(owner, name))
    for name in finite:
        check_finite(name, getattr(owner, name))


def check_choice(name: str, value, choices) -> None:
    """Checks that the name is one of the given choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"`{name}` is {described(value)}; it must be one of {', '.join(map(repr, choices))}."
        )


def path_of(keys) -> str:
    """The path of a leaf of a pytree as a user writes it, for example `shell.mass`: names of fields, indices of entries, and
    keys of dictionaries.
    """
    return ".".join(map(_name_of_key, keys))


def _name_of_key(key) -> str:
    names = (getattr(key, kind, None) for kind in ("name", "idx", "key"))
    return str(next((name for name in names if name is not None), key))


def described(value) -> str:
    """The text of a value for a message: its `repr` if that is short, otherwise its type."""
    if value is None or isinstance(value, type):
        return type_of(value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # integers of thousands of digits
        return type_of(value)
    return text if 0 < len(text) <= 40 and " at 0x" not in text else type_of(value)
