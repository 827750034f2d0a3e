"""Traces a user's function for the shape of its result; turns errors of tracing into one line with the user's line."""

import re
import traceback
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

_THIS_PACKAGE = Path(__file__).parents[2]
_NAMES = ("jax", "equinox", "numpy", "diffrax", "optimistix", "lineax")
_FOUND = [spec for name in _NAMES if (spec := find_spec(name)) is not None]
_OTHER_PACKAGES = [Path(str(spec.origin)).parent for spec in _FOUND]


def called(name: str, call: Callable, *arguments) -> Any:
    """The result of `call(*arguments)`, with a `jax.ShapeDtypeStruct` in place of each array; the call is only traced.

    **Raises:** an error of one line, with `name` and the user's line, if the call cannot be traced or if JAX or NumPy raises
    an error in it. An error that the user's own code raises is passed on unchanged.
    """
    found, raised = [], []

    def traced(arguments):
        try:
            found.append(jax.tree.map(_abstract, call(*arguments)))
        except Exception as error:
            raised.append(
                error
            )  # raised outside of the trace, where JAX adds no notes about its own frames

    eqx.filter_eval_shape(traced, arguments)
    if raised:
        raise explained(name, raised[0])
    return found[0]


def looks_at_values(name: str, call: Callable, *arguments) -> bool:
    """Whether tracing `call(*arguments)` fails because the call needs the value of an array. Other errors are raised."""
    found = []

    def traced(arguments):
        try:
            call(*arguments)
        except Exception as error:
            found.append(error)

    eqx.filter_eval_shape(traced, arguments)
    if found and not isinstance(found[0], _KINDS):
        raise explained(name, found[0])
    return bool(found)


def explained(name: str, error: Exception) -> Exception:
    """The error to raise in place of `error`: one with its cause and the user's line, or `error` itself.

    `error` itself is returned if the user's own code raised it.
    """
    for kinds, said in _TRACING:
        if isinstance(error, kinds):
            return TypeError(f"{name} {said}. {place_of(error)}")
    if type(error).__name__ == "TypePromotionError":
        return TypeError(f"{name} mixes {_dtypes_in(error)}: {_ONE_DTYPE}. {place_of(error)}")
    own_kind = next((kind for kind in _RAISED_AGAIN if isinstance(error, kind)), None)
    if own_kind is None or not _raised_in_another_package(error):
        return error
    message = " ".join(str(error).split("\n")[0].split())
    return own_kind(f"{name} fails: {message.rstrip('.')}. {place_of(error)}")


def _abstract(x):
    if isinstance(x, jax.Array | np.ndarray | np.generic):
        aval = jax.typeof(x)
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)
    if isinstance(x, bool | int | float | complex):
        return jax.ShapeDtypeStruct(
            (),
            jax.numpy.result_type(x),
            weak_type=isinstance(x, int | float) and not isinstance(x, bool),
        )
    return x


_TRACING: list[tuple[type | tuple[type, ...], str]] = [  # the first match is used
    (
        jax.errors.TracerBoolConversionError,
        "decides by the value of a traced array (`if`, `while`, `and`, `max`): use jnp.where or jax.lax.cond",
    ),
    (
        jax.errors.TracerArrayConversionError,
        "gives a traced array to NumPy: use jax.numpy, or numpy on constants only",
    ),
    (
        jax.errors.NonConcreteBooleanIndexError,
        "takes entries by a traced mask, so their number is not known: use jnp.where with a value for the others",
    ),
    (
        (jax.errors.ConcretizationTypeError, jax.errors.TracerIntegerConversionError),
        "needs the value of a traced array (`float`, `int`, `range`, a shape): use jax.numpy, or a static field",
    ),
]
_KINDS = tuple(
    kind for kinds, _ in _TRACING for kind in (kinds if isinstance(kinds, tuple) else (kinds,))
)
_ONE_DTYPE = "with jax_numpy_dtype_promotion = 'strict' fields of the system and state must have one floating dtype"
_RAISED_AGAIN = (IndexError, AttributeError, TypeError, ValueError)


def _dtypes_in(error: Exception) -> str:
    names = re.findall(r"(?:bfloat|float|uint|int|complex|bool)\d*", str(error).split(".")[0])
    return " and ".join(sorted(set(names))) or "dtypes"


def _raised_in_another_package(error: Exception) -> bool:
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and _is_below(_OTHER_PACKAGES, frames[-1].filename)


def place_of(error: Exception) -> str:
    """A sentence with the user's line in which the error was raised; empty if no line of the user's was involved."""
    frames = traceback.extract_tb(error.__traceback__)
    others = [_THIS_PACKAGE, *_OTHER_PACKAGES]
    own = [frame for frame in frames if not _is_below(others, frame.filename)]
    return f"It is line {own[-1].lineno} of {own[-1].filename}: {own[-1].line}" if own else ""


def _is_below(roots: list[Path], path: str) -> bool:
    return any(Path(path).is_relative_to(root) for root in roots)
