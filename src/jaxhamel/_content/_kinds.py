"""Kinds of Python objects: how the content of each kind is found, and whether the user wrote an object."""

import functools
import sys
import sysconfig
import types
from collections import deque
from typing import Any

import jax
import jax.core
import numpy as np

INSTALLED = tuple({sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")})
_OURS = __name__.partition(".")[0]
_NOT_USERS = (_OURS, "builtins", "jax", "equinox", "diffrax", "numpy")
_BY_VALUE = (bool, int, str, bytes, type(None), type(...), jax.ShapeDtypeStruct)


def is_users(value: Any) -> bool:
    """Whether a function or class is written by the user: not in this package, in an installed one, or in C."""
    if isinstance(value, type):
        return _is_users_class(value)
    name = getattr(value, "__module__", None) or ""
    if name.partition(".")[0] in _NOT_USERS:
        return False
    code = getattr(value, "__code__", None)
    return code is not None and not code.co_filename.startswith(INSTALLED)


@functools.lru_cache(maxsize=4096)
def _is_users_class(kind: type) -> bool:
    name = kind.__module__
    return name.partition(".")[0] not in _NOT_USERS and not is_installed(name)


@functools.lru_cache(maxsize=4096)
def is_installed(name: str) -> bool:
    """Whether a module belongs to the standard library, to an installed package or to this one."""
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if name.partition(".")[0] == _OURS or (module is not None and name in sys.builtin_module_names):
        return True
    return file is not None and file.startswith(INSTALLED)


HOW: dict[type, str] = {}  # the kind of each class: how the content of its objects is found
_KINDS: tuple[tuple[Any, str], ...] = (  # the first match is used
    (jax.core.Tracer, "tracer"),
    (jax.Array, "identity"),
    (np.ndarray | np.generic, "numbers"),
    (types.FunctionType, "function"),
    (types.MethodType, "method"),
    (functools.partial, "partial"),
    (types.ModuleType, "module"),
    (type, "class"),
    (dict | list | tuple | set | frozenset | deque | bytearray, "container"),
    (staticmethod | classmethod, "static method"),
    (property, "property"),
    (jax.tree_util.PyTreeDef, "value"),
)


def how_to_find(value: Any) -> str:
    kind = type(value)
    if kind in _BY_VALUE or kind in (float, complex):
        found = "value" if kind in _BY_VALUE else "float"
    else:
        otherwise = "opaque" if _is_opaque(kind) else "object"
        found = next((how for kinds, how in _KINDS if isinstance(value, kinds)), otherwise)
    if len(HOW) >= 4096:
        HOW.clear()
    HOW[kind] = found
    return found


def _is_opaque(kind: type) -> bool:
    """Whether the content of an object of this class is its identity: its attributes (locks, files) affect no result."""
    return kind.__module__ != "types" and kind.__module__.partition(".")[0] in _OPAQUE


_OPAQUE = (sys.stdlib_module_names - {"argparse", "__main__"}) | {"jax", "jaxlib", "matplotlib"}


def names_in(code: types.CodeType) -> set[str]:
    """The global names and attribute names that a function's code and the functions within it use."""
    inner = (names_in(c) for c in code.co_consts if isinstance(c, types.CodeType))
    return set(code.co_names).union(*inner)


_NAMES: dict[int, tuple[types.CodeType, tuple[str, ...]]] = {}


def sorted_names(code: types.CodeType) -> tuple[str, ...]:
    found = _NAMES.get(id(code))
    if found is None:
        if len(_NAMES) >= 4096:
            _NAMES.clear()
        found = _NAMES[id(code)] = (code, tuple(sorted(names_in(code))))
    return found[1]
