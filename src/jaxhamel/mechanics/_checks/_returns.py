"""Checks of the structure, shapes and dtypes of the results of a system's methods, by tracing the methods.

The values are not computed.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._traced import called, place_of
from jaxhamel._checks._values import concrete, described, inline, path_of, same_shape

WITH_CONTROL = "force", "bodies", "invariants"  # methods that receive the value of the control


class Returned(NamedTuple):
    """The result of one of the system's methods at a state, with an abstract array in place of each array."""

    name: str
    value: Any


class MissingControl(TypeError):
    """Raised if a method of the system needs a control and no control is given."""


def returns_of(system, names, t, q, u, control) -> list[Returned]:
    """Traces the methods `names` of the system at a state; returns their results as abstract arrays.

    **Raises:** `TypeError` with the method and its line, for a Python `if` on a traced value or for dtypes that do not mix.
    """
    dtype = jnp.result_type(*jax.tree.leaves(q))
    at = (t, q, jax.ShapeDtypeStruct((system.space.dim,), dtype), u, control)
    return [Returned(name, _returned(system, name, at)) for name in names]


def _returned(system, name: str, at: tuple[Any, ...]) -> Any:
    try:
        return called(_method_in_words(system, name), _CALLS[name], system, *at)
    except TypeError as error:
        words = _with_words_among_fields(system, error)
        is_of_control = words is error or None not in _no_numbers(system).values()
        if is_of_control and _lacks_control(system, name, at[-1]) and "None" in str(error):
            raise MissingControl(
                f"{_method_in_words(system, name)} fails where `control` is None: {error}. {_give_control(system, name)} "
                f"{place_of(error)}"
            ) from error
        if _calls_array(error) and name in WITH_CONTROL:
            raise TypeError(
                f"{_method_in_words(system, name)} calls an array as a function; its `control` is the value of the control "
                f"at the time t, not the function of time. {place_of(error)}"
            ) from error
        raise words from None


def _calls_array(error: TypeError) -> bool:
    """Whether the reason of the error is that the user's code called a traced array as a function."""
    return "Tracer' object is not callable" in str(error) and place_of(error) != ""


def _lacks_control(system, name: str, control) -> bool:
    """Whether a method takes a control and no control is given."""
    return control is None and (name in WITH_CONTROL or system.prescribed_motion)


def _give_control(system, name: str) -> str:
    count = "m" if system.n_controls is None else system.n_controls
    return f"Give `control`, such as jnp.zeros({count}), or have `{name}` accept None."


def _with_words_among_fields(system, error: TypeError) -> TypeError:
    """The error, extended by a list of the system's fields that are no numbers: one of them may be its cause. If the error
    names the type of some of them, the list has these alone.
    """
    found = _no_numbers(system)
    named = {path: x for path, x in found.items() if _names_type_of(error, x)}
    words = [f"`{path}` is {described(leaf)}" for path, leaf in (named or found).items()]
    if not words:
        return error
    return TypeError(
        f"{error} (of the fields of {type(system).__name__} {', '.join(words)}: no number)"
    )


def _names_type_of(error: TypeError, value) -> bool:
    """Whether the message has the name of the value's type, such as "list"; the "type(s)" of "operand type(s)" is none."""
    return re.search(rf"\b{type(value).__name__}\b(?!\(s\))", str(error)) is not None


def _no_numbers(system) -> dict[str, Any]:
    """The fields of the system, or entries of its lists and dictionaries, that are no numbers, by their path."""
    leaves = tree_flatten_with_path(system, is_leaf=_is_no_number)[0]
    found = {path_of(keys): leaf for keys, leaf in leaves if _is_no_number(leaf)}
    return {path: jax.tree.map(_plain, leaf, is_leaf=_is_none) for path, leaf in found.items()}


def _plain(x):
    """The Python number for an array of one number, since the user's own list had a number there."""
    value = concrete(x) if hasattr(x, "shape") else None
    return x if value is None else value.item()


def _is_none(x) -> bool:
    return x is None


def _is_no_number(value) -> bool:
    """Whether a field is None, a text, a class, or a list or set of numbers; not an array, a function or a part of the
    system.
    """
    if isinstance(value, list | set):
        return all(np.ndim(x) == 0 for x in jax.tree.leaves(value))
    return value is None or isinstance(value, str | bytes | type)


def _lagrangian(system, t, q, v, u, control):
    return system.lagrangian(t, q, v, *([control] if system.prescribed_motion else []))


def _force(system, t, q, v, u, control):
    if control is None or system.prescribed_motion:
        return system.force(t, q, v, control)
    return system.force(t, q, v, control(t))


def _bodies(system, t, q, v, u, control):
    found = system.bodies(t, q, v, control)
    return tuple(found) if hasattr(found, "__iter__") else found


_CALLS: dict[str, Callable] = {
    "lagrangian": _lagrangian,
    "frame": lambda system, t, q, v, u, control: system.frame(t, q),
    "inverse_frame": lambda system, t, q, v, u, control: system.inverse_frame(t, q),
    "drift": lambda system, t, q, v, u, control: system.drift(t, q),
    "force": _force,
    "bodies": _bodies,
    "holonomic": lambda system, t, q, v, u, control: system.holonomic(t, q),
    "constraints": lambda system, t, q, v, u, control: system.constraints(t, q),
    "invariants": lambda system, t, q, v, u, control: system.invariants(t, q, u, control),
}


def check_returns(system, returned: list[Returned], dtype) -> None:
    """Checks that each method returns a value of the form that the equations of motion need, in the state's dtype."""
    n = system.space.dim
    arrays: dict[str, tuple[tuple[int | str, ...], str]] = {
        "lagrangian": ((), "one number, L(t, q, v) [J]"),
        "frame": ((n, n), f"A of u = A v, one row for each of the {n} quasi-velocities"),
        "inverse_frame": ((n, n), "B = A⁻¹, or None where it is not known"),
        "drift": ((n,), f"a of u = A v + a, one entry for each of the {n} quasi-velocities"),
        "force": ((n,), f"Q dual to v, one entry for each of the {n} velocities"),
        "holonomic": (
            ("h",),
            "one value for each holonomic constraint, zero where it is satisfied",
        ),
        "constraints": (("r", n), "one row for each constraint one-form, or None"),
    }
    for name, value in returned:
        if name in arrays and not (name in _OR_NONE and value is None):
            shape, meaning = arrays[name]
            _check_array(system, name, value, shape, meaning, dtype)
    found = dict(returned)
    if found.get("bodies") is not None:
        _check_bodies(_method_in_words(system, "bodies"), found["bodies"], dtype)
    if "invariants" in found:
        _check_invariants(_method_in_words(system, "invariants"), found["invariants"])


def _method_in_words(system, name: str) -> str:
    return f"`{name}` of {type(system).__name__}"


def _check_array(
    system, name: str, value, shape: tuple[int | str, ...], meaning: str, dtype
) -> None:
    """Checks that a method returns an array of this shape; a letter in it stands for any length, `h` for at least one."""
    method = f"`{name}({_ARGUMENTS[name]})`"
    wanted = f"as {type(system).__name__} returns it; it must have shape {_shape(shape)}: {meaning}"
    if not isinstance(value, jax.ShapeDtypeStruct):
        of_control = name == "force" and value is None
        also = " A `control` that is not given is None." if of_control else ""
        raise TypeError(
            f"{method} is {_type_in_words(value)}, {wanted}. {_advice_for(value)}{also}"
        )
    if not same_shape(value.shape, shape) or (name == "holonomic" and not value.size):
        raise ValueError(
            f"{method} has shape {value.shape}, {wanted}. {_reshape(value.shape, shape)}"
        )
    if value.dtype != dtype and not value.weak_type:
        raise TypeError(
            f"{method} is {value.dtype} as {type(system).__name__} returns it, and the state (q, u) is {dtype}; both must "
            f"be of one floating dtype. {_cast(value.dtype, dtype)}"
        )


def _shape(wanted: tuple[int | str, ...]) -> str:
    """A shape as text, in which letters have no quotes."""
    return str(wanted).replace("'", "")


_OR_NONE = ("inverse_frame", "constraints")
_ARGUMENTS = {
    "lagrangian": "t, q, v",
    "frame": "t, q",
    "inverse_frame": "t, q",
    "drift": "t, q",
    "force": "t, q, v, control",
    "holonomic": "t, q",
    "constraints": "t, q",
}


def _type_in_words(value) -> str:
    if value is None:
        return "None"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"


def _advice_for(value) -> str:
    if value is None:
        return "Is a `return` missing?"
    if isinstance(value, list | tuple):
        return "Make one array of it: `jnp.array(...)`, or `jnp.stack` and `jnp.concatenate` of arrays."
    return "Return a JAX array."


def _reshape(got: tuple, wanted: tuple[int | str, ...]) -> str:
    if "h" in wanted:
        return "Use `jnp.stack([...])`, also for one number."
    if wanted == () and np.prod(got, dtype=int) == 1:
        return (
            "Sum it (`jnp.sum`) or take its only entry; `jnp.dot(v, M @ v)` of vectors is a number."
        )
    if len(wanted) == 1 and np.prod(got, dtype=int) <= 1:
        return "One number would act on all of them: write out the entries that are zero."
    return "Nothing is broadcast here; zeros are written out."


def _cast(got, wanted) -> str:
    if not jnp.issubdtype(got, jnp.floating):
        return f"Return real floating numbers: `jnp.asarray(..., dtype={wanted})`, or `astype`."
    return (
        f"Fields of the system and numbers in the method have to be {wanted}, or q0 and u0 {got}: "
        "`jax.tree.map(lambda x: x.astype(...), system)` casts all fields."
    )


_PARTS: dict[str, dict[str, tuple[str | int, ...]]] = {
    "Points": {"mass": ("b",), "velocity": ("b", 3), "force": ("b", 3), "axes": (3,)},
    "Spins": {"inertia": ("b", 3, 3), "omega": ("b", 3), "torque": ("b", 3)},
}


def _check_bodies(method: str, bodies, dtype) -> None:
    """Checks that `bodies` is a tuple of `Points` and `Spins` (or objects with the same fields) with matching shapes."""
    if not isinstance(bodies, tuple) or not bodies:
        raise TypeError(
            f"{method} returned {_type_in_words(bodies)}; it must return Points and Spins in a tuple, for example "
            "`return (Points(...), Spins(...))`, or None."
        )
    for place, part in enumerate(bodies):
        kind = type(part).__name__
        if kind not in _PARTS and not hasattr(part, "momentum_rate"):
            raise TypeError(
                f"{method} returned {_type_in_words(part)} as entry {place}; each must be jaxhamel.Points or jaxhamel.Spins."
            )
        sizes: dict[str, int] = {}
        for field, shape in _PARTS.get(kind, {}).items():
            _check_field(
                f"`{field}` of {kind} {place} from {method}",
                getattr(part, field),
                shape,
                sizes,
                dtype,
            )


def _check_field(name: str, value, shape: tuple, sizes: dict[str, int], dtype) -> None:
    """Checks the shape and dtype of a field; `sizes`: the lengths of the axes with letters that are known from others."""
    got = getattr(value, "shape", None)
    if got is not None and len(got) == len(shape):
        wanted = tuple(
            sizes.setdefault(a, have) if isinstance(a, str) else a
            for a, have in zip(shape, got, strict=True)
        )
    else:
        wanted = shape
    if got != wanted:
        axes = ", ".join(str(sizes.get(str(a), a)) for a in shape) + (
            "," if len(shape) == 1 else ""
        )
        is_now = _type_in_words(value) if got is None else f"of shape {got}"
        raise ValueError(
            f"{name} is {is_now}; it must have shape ({axes}), where b is the number of bodies."
        )
    if value.dtype != dtype and not value.weak_type:
        raise TypeError(
            f"{name} is {value.dtype} where the state (q, u) is {dtype}. {_cast(value.dtype, dtype)}"
        )


def _check_invariants(method: str, value) -> None:
    good = isinstance(value, dict) and all(
        isinstance(x, jax.ShapeDtypeStruct) for x in value.values()
    )
    if not good:
        got = inline(sorted(map(str, value))) if isinstance(value, dict) else _type_in_words(value)
        raise TypeError(
            f"{method} returned {got}; it must return a dictionary of arrays by name, for example "
            '`{"energy": energy}`, or an empty one.'
        )
