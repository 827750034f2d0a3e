"""A canonical text of a Python function: its bytecode and the values that it refers to, equal in every process."""

import functools
import hashlib
import inspect
import re
import types
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.core
import numpy as np

from jaxhamel._content._kinds import INSTALLED, names_in
from jaxhamel._content._walk import cells_with_values


def code_text(function: Callable[..., Any]) -> str:
    """The function's name, and a digest of its bytecode and of the constants, arrays and functions to which it refers.

    Functions of installed packages are represented by their names only.
    """
    found = "\n".join(_lines(function, set()))
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name} #{hashlib.sha256(found.encode()).hexdigest()[:16]}"


def _lines(value: Any, seen: set[int]) -> Iterator[str]:
    """Yields the text of a value and of all values to which it refers; `seen`: ids of values that have been described."""
    if callable(value) and not isinstance(value, type):
        value = inspect.unwrap(value)  # the function inside of `jax.jit`
    if id(value) in seen:
        return
    if isinstance(value, jax.core.Tracer):  # a value captured from an enclosing trace
        yield str(value.aval)
    elif isinstance(value, np.ndarray | jax.Array):
        yield f"{value.dtype}{value.shape} {hashlib.sha256(np.asarray(value).tobytes()).hexdigest()}"
    elif value is None or isinstance(value, _PLAIN):
        yield repr(value)
    elif isinstance(value, types.ModuleType):
        yield value.__name__
    elif isinstance(value, type) or _is_of_others(value):
        yield getattr(value, "__qualname__", type(value).__qualname__)
    else:
        seen.add(id(value))
        for part in _determining_values(value):
            yield from _lines(part, seen)


_PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.dtype)


def _is_of_others(value: Any) -> bool:
    """Whether the value is a callable of an installed package, or one that is not written in Python."""
    if not callable(value) or isinstance(value, functools.partial | types.MethodType):
        return False
    code = getattr(value, "__code__", None) or getattr(type(value).__call__, "__code__", None)
    return code is None or code.co_filename.startswith(INSTALLED)


def _determining_values(value: Any) -> Iterator[Any]:
    """The values that determine the result of a function or object."""
    match value:
        case functools.partial():
            yield from (value.func, value.args, value.keywords)
        case types.MethodType():
            yield from (value.__func__, value.__self__)
        case types.FunctionType():
            yield from (value.__code__, value.__defaults__, value.__kwdefaults__)
            yield from (cell.cell_contents for cell in cells_with_values(value.__closure__))
            names = sorted(names_in(value.__code__))
            yield from (value.__globals__[n] for n in names if n in value.__globals__)
        case types.CodeType():
            yield from (value.co_code, value.co_names, value.co_consts)
        case dict():
            yield from (x for pair in sorted(value.items(), key=lambda p: str(p[0])) for x in pair)
        case tuple() | list():
            yield from value
        case set() | frozenset():
            yield from sorted(value, key=repr)
        case jax.tree_util.PyTreeDef():
            yield re.sub(r" at 0x[0-9a-f]+", "", str(value))
        case _:  # an object: its class, its `__call__`, its fields
            kind = type(value)
            yield from (
                kind,
                kind.__call__ if callable(value) else None,
                getattr(value, "__dict__", None),
            )
