"""Programs without loops, computed by NumPy operation by operation, where the tests of a folder examine equations.

XLA takes a fifth of a millisecond to compile an operation that NumPy computes in two microseconds: all routes to the
accelerations of the falling cat are 22,000 operations on small arrays, which a test needs at three states. The jaxpr is
the one that XLA would compile, so that the equations are the package's. Programs with loops, such as motions, are
compiled, and so is a program that is called often. The folders that examine programs (lanes, ensembles, simulation,
searches, commands) compile all of them.

The function that is replaced is private to JAX: if it is missing, all programs are compiled.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np
from jax._src import pjit
from jax._src.array import ArrayImpl
from jax.extend.core import ClosedJaxpr, Literal

from tests.moved_by_numpy import is_numpys, is_plain
from tests.rules_of_numpy import rule_of

FEW = 50  # calls of a program after which compiling it costs no more than it saves
RULES_FOR_EACH_OTHER = 10  # operations by NumPy for each one that JAX computes, at least
CALLS = {
    "jit": "jaxpr",
    "remat2": "jaxpr",
    "closed_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
}  # operations that call a program, and the name of the program
# Operations that JAX computes within a program if there is no rule.
BY_JAX = {
    *("cholesky", "eig", "eigh", "lu", "lu_pivots_to_permutation", "triangular_solve"),
    *("convert_element_type", "div", "erf", "pow", "rem", "round"),
    *("gather", "pad", "reduce_max", "reduce_min", "scatter", "scatter-add", "sort"),
}
_allowed = [False]


class NotByNumPy(Exception):
    """A program has loops or other operations that are unknown here, effects, types that NumPy lacks, or many operations of
    `BY_JAX`."""


class Step(NamedTuple):
    """One operation: its function of arrays, and the indices of its arguments and results in the list of all values."""

    function: Callable
    read: list[int]
    write: list[int]


class Program(NamedTuple):
    """A jaxpr as steps: the values of its literals, the number of all values, the steps, the places of the results; the
    number of operations, and of those without a rule."""

    literals: list[Any]
    size: int
    steps: list[Step]
    results: list[int]
    counts: tuple[int, int]


_programs: WeakKeyDictionary = WeakKeyDictionary()
_calls: WeakKeyDictionary = WeakKeyDictionary()


@contextmanager
def programs_by_numpy(allowed: bool = True) -> Iterator[None]:
    """Within it, NumPy computes programs without loops, if it is `allowed`."""
    allow(allowed)
    try:
        yield
    finally:
        allow(False)


def allow(allowed: bool) -> None:
    """Sets whether NumPy computes programs without loops from now on."""
    _allowed[0] = allowed


def install() -> None:
    """Replaces JAX's function that compiles and runs a program."""
    compiled = getattr(pjit, "_pjit_call_impl_python", None)
    if compiled is not None:
        pjit._pjit_call_impl_python = partial(_computed, compiled)


def _computed(compiled: Callable, *args: Any, jaxpr: Any, **options: Any) -> tuple:
    found = results_by_numpy(jaxpr, args) if _allowed[0] else None
    if found is None:
        return compiled(*args, jaxpr=jaxpr, **options)
    return found, None, None, []


def results_by_numpy(closed: Any, args: Any) -> list | None:
    """The results of a program; None if XLA is to compile it."""
    calls = _calls.get(closed.jaxpr, 0)
    if calls >= FEW or not all(map(_is_value, args)):
        return None
    _calls[closed.jaxpr] = calls + 1
    try:
        count, others = _program(closed).counts
        if count < RULES_FOR_EACH_OTHER * others:
            raise NotByNumPy
        with np.errstate(all="ignore"):
            pairs = zip(args, closed.in_avals, strict=True)
            found = evaluated(closed, [np.asarray(x, a.dtype) for x, a in pairs])
    except NotByNumPy:
        _calls[closed.jaxpr] = FEW
        return None
    return list(map(_array, found, closed.out_avals))


def _array(x: Any, aval: Any) -> jax.Array:
    """An array of JAX with a copy of the values, since both may share the memory."""
    if (x.shape, x.dtype) != (aval.shape, aval.dtype):
        raise TypeError(f"a rule gives {x.dtype}{x.shape} instead of {aval.str_short()}")
    found = jax.device_put(np.array(x, order="C"))
    if not aval.weak_type:
        return found
    return ArrayImpl(found.aval.update(weak_type=True), found.sharding, [found], committed=False)


def _is_value(x: Any) -> bool:
    return isinstance(x, bool | int | float | complex) or is_plain(x)


def evaluated(closed: Any, arguments: Any) -> list:
    """The results of a closed jaxpr."""
    program = _program(closed)
    values = [*program.literals, *map(np.asarray, closed.consts), *arguments]
    values += [None] * (program.size - len(values))
    for function, read, write in program.steps:
        found = function(*[values[i] for i in read])
        if isinstance(found, list):
            for i, x in zip(write, found, strict=True):
                values[i] = x
        else:
            values[write[0]] = found
    return [values[i] for i in program.results]


def _program(closed: Any) -> Program:
    if closed.jaxpr not in _programs:
        _programs[closed.jaxpr] = prepared(closed.jaxpr)
    return _programs[closed.jaxpr]


def prepared(jaxpr: Any) -> Program:
    """The steps of a jaxpr in their order."""
    used = [*(x for eqn in jaxpr.eqns for x in eqn.invars), *jaxpr.outvars]
    literals = {id(x): x for x in used if isinstance(x, Literal)}
    variables = [*jaxpr.constvars, *jaxpr.invars, *(v for e in jaxpr.eqns for v in e.outvars)]
    if jaxpr.effects or not all(is_numpys(getattr(v.aval, "dtype", None)) for v in variables):
        raise NotByNumPy
    places = {x: i for i, x in enumerate([*literals, *map(id, variables)])}
    at = lambda xs: [places[id(x)] for x in xs]
    steps = [Step(_function(eqn), at(eqn.invars), at(eqn.outvars)) for eqn in jaxpr.eqns]
    counts = [getattr(step.function, "counts", (1, 0)) for step in steps]
    count, others = (sum(x) for x in zip((0, 0), *counts, strict=True))
    values = [np.asarray(x.val, x.aval.dtype) for x in literals.values()]
    return Program(values, len(values) + len(variables), steps, at(jaxpr.outvars), (count, others))


def _function(eqn: Any) -> Callable:
    """The function of arrays that computes an operation."""
    name = eqn.primitive.name
    if name == "cond":
        return _branch(eqn.params["branches"])
    if name.startswith("jaxhamel_"):  # the function that computes it outside of `jit`
        run = partial(eqn.primitive.impl, **eqn.params)
        return _call(jax.make_jaxpr(run)(*(v.aval for v in eqn.invars)))
    if name in CALLS:
        return _call(eqn.params[CALLS[name]])
    rule = rule_of(name, eqn)
    if rule is None and name not in BY_JAX:
        raise NotByNumPy
    return rule or _by_jax(eqn)


def _call(jaxpr: Any) -> Callable:
    closed = jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())
    run = lambda *arrays: evaluated(closed, arrays)
    run.counts = _program(closed).counts
    return run


def _branch(branches: Any) -> Callable:
    functions = list(map(_call, branches))
    run = lambda index, *arrays: functions[int(np.clip(index, 0, len(functions) - 1))](*arrays)
    run.counts = functions[0].counts
    return run


def _by_jax(eqn: Any) -> Callable:
    """An operation without a rule, as a program of its own."""

    def run(*arrays):
        found = eqn.primitive.bind(*map(jax.numpy.asarray, arrays), **eqn.params)
        return list(map(np.asarray, found)) if eqn.primitive.multiple_results else np.asarray(found)

    run.counts = (1, 1)
    return run
