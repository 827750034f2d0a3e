"""A canonical text of a JAX program, equal in every process, which contains only what affects the results.

JAX prints a jaxpr with names of functions and addresses, but without the values of captured arrays. Here each operation
is one line, variables are numbered in order, captured arrays are shown by their numbers or a digest of them, and names,
devices, derivative rules and prints are left out. A Python callback (`jax.pure_callback`) is described by its bytecode
and the values to which it refers (`code_text`).
"""

import dataclasses
import enum
import functools
import hashlib
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from typing import Any

import jax
import jax.core
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from jaxhamel._content._kinds import INSTALLED, names_in
from jaxhamel._content._walk import cells_with_values
from jaxhamel._lanes._tracing import for_description

WRITTEN_OUT = 8  # arrays with at most this many numbers are written out
# parameters that do not affect the results of an operation
_SILENT = {
    *("name", "debug_info", "sharding", "out_sharding", "in_shardings", "out_shardings", "in_layouts", "out_layouts"),
    *("donated_invars", "ctx_mesh", "inline", "keep_unused", "compiler_options_kvs", "weak_type", "mesh"),
}  # fmt: skip
_PRINTS = {"debug_callback", "debug_print"}


def program_text(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """The lines of the traced `function`. Equal lines mean equal results, up to rounding."""
    with for_description():
        closed = jax.make_jaxpr(function)(*arguments)
        writer = _Writer()
        writer.name(closed)
    return writer.lines


def array_text(x: Any) -> str:
    """An array as text: dtype, shape, and its numbers or a digest of them."""
    if hasattr(x, "dtype") and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        return f"{x.dtype} {array_text(jax.random.key_data(x))}"
    x = np.asarray(x)
    if x.size <= WRITTEN_OUT:
        return f"{_type(x)} {x.tolist()}"
    return f"{_type(x)} #{hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()[:16]}"


def _type(x: Any) -> str:
    shape = ",".join(map(str, x.shape))
    return f"{x.dtype}[{shape}]"


class _Writer:
    """The programs written so far, each with a name; equal programs share one name."""

    def __init__(self):
        self.lines: list[str] = []
        self._named: dict[tuple[str, ...], str] = {}

    def name(self, program: Any) -> str:
        """The name of a jaxpr; on its first occurrence its lines are added, after those of the programs that it calls."""
        lines = tuple(self._lines(program))
        if lines not in self._named:
            self._named[lines] = name = f"program {len(self._named)}"
            self.lines += [name, *lines]
        return self._named[lines]

    def _lines(self, program: Any) -> Iterator[str]:
        jaxpr, constants = program, ()
        if isinstance(program, ClosedJaxpr):
            jaxpr, constants = program.jaxpr, program.consts
        names = dict(zip(jaxpr.constvars, map(array_text, constants), strict=False))
        of = partial(_name_of, names)
        yield f"of {' '.join(f'{of(v)}:{_aval(v)}' for v in jaxpr.invars)}"
        for equation in jaxpr.eqns:
            if equation.primitive.name not in _PRINTS:
                yield self._operation(equation, of)
        yield f"gives {' '.join(map(of, jaxpr.outvars))}"

    def _operation(self, equation: Any, of: Callable[[Any], str]) -> str:
        inputs = map(of, equation.invars)
        outputs = (f"{of(v)}:{_aval(v)}" for v in equation.outvars)
        params = {k: v for k, v in sorted(equation.params.items()) if k not in _SILENT}
        called = [self.name(each) for each in _called(equation, params)]
        texts = ((k, _text(v, bool(called))) for k, v in params.items())
        words = (f"{k}={text}" for k, text in texts if text)
        return " ".join([*outputs, "=", equation.primitive.name, *inputs, *words, *called])


def _name_of(names: dict[Any, str], variable: Any) -> str:
    """The name of a variable; variables are numbered in order of appearance."""
    if isinstance(variable, Literal):
        return array_text(variable.val)
    return names.setdefault(variable, f"v{len(names)}")


def _aval(variable: Any) -> str:
    aval = variable.aval
    return _type(aval) if hasattr(aval, "shape") and hasattr(aval, "dtype") else str(aval)


def _called(equation: Any, params: Mapping[str, Any]) -> Iterator[Any]:
    """Yields the programs that an operation calls; for an operation of this package, the jaxpr that computes it."""
    primitive = equation.primitive
    if primitive.name.startswith("jaxhamel_"):
        run = partial(primitive.impl, **equation.params)
        yield jax.make_jaxpr(run)(*(v.aval for v in equation.invars))
        return
    for value in params.values():
        yield from _programs(value)


def _programs(value: Any) -> Iterator[Any]:
    if isinstance(value, Jaxpr | ClosedJaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _programs(each)


def _text(value: Any, calls: bool) -> str:
    """A parameter of an operation as text.

    If the operation `calls` programs, its other function parameters are rules for derivatives and batching, which are left
    out.
    """

    def again(x):
        return _text(x, calls)

    match value:
        case Jaxpr() | ClosedJaxpr() | jax.sharding.Sharding():
            return ""
        case None | bool() | int() | float() | complex() | str() | bytes():
            return repr(value)
        case enum.Enum():
            return str(value)
        case np.dtype() | type():
            return getattr(value, "name", getattr(value, "__name__", ""))
        case np.ndarray() | np.generic() | jax.Array():
            return array_text(value)
        case tuple() | list():
            return f"({', '.join(map(again, value))})"
        case Mapping():
            return f"({', '.join(sorted(f'{again(k)}: {again(v)}' for k, v in value.items()))})"
        case Set():
            return f"({', '.join(sorted(map(again, value)))})"
    if dataclasses.is_dataclass(value):
        fields = (f"{f.name}={again(getattr(value, f.name))}" for f in dataclasses.fields(value))
        return f"{type(value).__name__}({', '.join(fields)})"
    if callable(value):
        return "" if calls else code_text(value)
    return re.sub(r" at 0x[0-9a-f]+|0x[0-9a-f]{6,}", "", str(value))


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
