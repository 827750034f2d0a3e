"""Finds the operations of a function of one trajectory that stay operations on arrays in lanes.

A layer of a network, tanh(W x + b), with many numbers W that all lanes share is one product of a matrix with the states of
all lanes. Written out it would be a thousand scalar operations, and a thousand shared numbers to read; its gradient by W
would have a vector over the lanes for each entry of W, where the transpose of the product has a single sum over all lanes.
Timings: docs/performance.md#networks-in-lanes.
"""

import math
from collections.abc import Iterable
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, DropVar, Literal

from jaxhamel._lanes._divided._jaxprs import (
    CALLS,
    called_program,
    evaluated,
    inlined,
    read_by,
    variables,
)
from jaxhamel._lanes._divided._kept_loops import LOOPS, kept_loop
from jaxhamel._lanes._graph._primitive import Kind
from jaxhamel._lanes._rules._primitives import primitive_of
from jaxhamel._lanes._solutions._operator_solve import NAME as OPERATOR_SOLVE
from jaxhamel._lanes._solutions._operator_solve import solved_by_matrix

# The fewest numbers, other than 0 and ±1, of a shared array whose operations stay operations on arrays.
LEAST_SHARED = 120
# The same limit for a turn of a loop that has an operation on a larger array. In such a turn
# reverse mode adds up the cotangent of each shared matrix over the lanes; for a matrix written out as scalars this is slow
# (docs/performance.md#networks-in-lanes).
LEAST_SHARED_IN_TURN = 20
# For few lanes, products with constant arrays of at most this size are written out
# (docs/performance.md#networks-in-lanes).
MOST_KNOWN = 500
# Operations on the results of array operations stay array operations while their operands have at least this many entries.
LEAST_ENTRIES = 8

_KINDS = {Kind.ELEMENTWISE, Kind.MOVE, Kind.INDEXING, Kind.SUM, Kind.CALL}


def has_large_arrays(closed: ClosedJaxpr, batched: list[bool], least: int = LEAST_SHARED) -> bool:
    """Whether all lanes share an array of at least `least` numbers: the program may have operations on arrays."""
    pairs = zip(closed.jaxpr.invars, batched, strict=True)
    if any(v.aval.size >= least for v, varies in pairs if not varies):
        return True
    return _has_constants(closed, least)


def _has_constants(closed: ClosedJaxpr, least: int) -> bool:
    equations = closed.jaxpr.eqns
    called = [called_program(e) for e in equations if e.primitive.name in CALLS]
    called += [e.params["operator"] for e in equations if e.primitive.name == OPERATOR_SOLVE]
    return any(np.size(x) >= least for x in closed.consts) or any(
        _has_constants(each, least) for each in called
    )


def with_large_solutions_as_arrays(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program in which a solution of M x = b is computed from the matrix M instead of the program of the product M x
    (`_operator_solve`), where that program reads large arrays."""

    def of_arrays(equation: Any, operands: list[Any]) -> list[Any] | None:
        if equation.primitive.name != OPERATOR_SOLVE or not _reads_large_arrays(equation, operands):
            return None
        return [solved_by_matrix(*operands, **equation.params)]

    return jax.make_jaxpr(lambda *x: evaluated(closed, x, of_arrays))(*closed.in_avals)


def _reads_large_arrays(equation: Any, operands: list[Any]) -> bool:
    read = (*operands[:-1], *equation.params["operator"].consts)
    return any(_unusual(x) >= LEAST_SHARED for x in read)


def array_equations(
    closed: ClosedJaxpr, batched: list[bool], most_known: int = 0, least: int = LEAST_SHARED
) -> set[int]:
    """The indices of the operations that stay operations on arrays, in a program whose calls are inlined.

    Shared arrays of at least `least` numbers are large, but not constant ones of up to `most_known` numbers.

    These are the operations on a large shared array and an array of each lane; the operations on their results, until few
    entries remain; and the operations whose results only array operations read. Operations that depend on
    each other are left out together if they read and return more numbers of each lane than they read shared numbers
    (`_of_few_lane_numbers`).
    """
    equations, count = closed.jaxpr.eqns, _Counts(closed, batched, most_known, least)
    found: set[int] = set()
    made: set[Any] = set()
    for i, equation in enumerate(equations):
        if count.varies(equation) and (
            count.is_shared_with(equation) or _goes_on(equation, made, count)
        ):
            found.add(i)
            made.update(equation.outvars)
    found |= _before(closed.jaxpr, found, count) if found else set()
    loops = {i for i in found if equations[i].primitive.name in LOOPS}
    return loops | {
        i
        for group in _connected(equations, found - loops)
        for i in _of_few_lane_numbers(closed.jaxpr, group, count)
    }


class _Counts:
    """For each value of a program whether it varies from lane to lane, and the number of its independent entries.

    A diagonal matrix made from n numbers has n independent entries. A constant array of up to `most_known` numbers has none,
    and neither has an array computed from such constants alone.
    """

    def __init__(self, closed: ClosedJaxpr, batched: list[bool], most_known: int, least: int):
        jaxpr, self.most_known, self.least = closed.jaxpr, most_known, least
        self.varying = {v for v, x in zip(jaxpr.invars, batched, strict=True) if x}
        self.own = {v: _entries(v) for v in jaxpr.invars}
        constants = zip(jaxpr.constvars, map(_unusual, closed.consts), strict=True)
        self.own |= {v: n if n > most_known else 0 for v, n in constants}
        known = {v for v in jaxpr.constvars if most_known and not self.own[v]}
        for equation in jaxpr.eqns:
            operands = variables(equation.invars)
            if not self.varying.isdisjoint(operands):
                self.varying.update(equation.outvars)
            most = sum(self.own[v] for v in operands) if self._keeps(equation) else math.inf
            if most_known and operands <= known:
                known.update(equation.outvars)
                most = 0
            self.own.update({v: min(_entries(v), most) for v in equation.outvars})

    def _keeps(self, equation: Any) -> bool:
        """Whether each number of the result is zero or a number of an operand, possibly times a shared number."""
        if (
            equation.primitive.name == "mul"
            and sum(v in self.varying for v in variables(equation.invars)) < 2
        ):
            return True
        if equation.primitive.name == "convert_element_type":  # as in `jnp.eye`
            return self.varying.isdisjoint(variables(equation.invars))
        return (
            primitive_of(equation).kind in (Kind.MOVE, Kind.INDEXING)
            or equation.primitive.name == "select_n"
        )

    def varies(self, equation: Any) -> bool:
        return not self.varying.isdisjoint(equation.outvars)

    def is_shared_with(self, equation: Any) -> bool:
        """Whether the operation takes a large shared array together with an array of each lane.

        A product with a sparse matrix of each lane is left out, since its zeros save most of the work in lanes.
        """
        if equation.primitive.name == "jaxhamel_pullback":
            return False
        flags = [not isinstance(v, Literal) and v in self.varying for v in equation.invars]
        inner = _programs(equation, flags)
        if inner:
            return any(
                array_equations(inlined(program), flags, self.most_known)
                for program, flags in inner
            )
        given = variables(equation.invars)
        own = given & self.varying
        sparse = equation.primitive.name == "dot_general" and all(
            2 * self.own[v] <= _size(v) for v in own
        )
        return not sparse and any(self.own[v] >= self.least for v in given - self.varying)

    def read_of(self, v: Any, readers: list[Any]) -> int:
        """How many numbers of an array the operations `readers` read: a slice reads only its own."""
        if not all(primitive_of(e).kind in (Kind.MOVE, Kind.INDEXING) for e in readers):
            return self.own[v]
        return min(self.own[v], sum(self.own[w] for e in readers for w in e.outvars))

    def large(self, atoms: Iterable[Any]) -> set[Any]:
        """Those of the values that vary from lane to lane and have at least `LEAST_ENTRIES` entries."""
        return {v for v in variables(atoms) & self.varying if _size(v) >= LEAST_ENTRIES}


def _size(v: Any) -> int:
    return math.prod(v.aval.shape)


def _entries(v: Any) -> int:
    return _size(v) if jnp.issubdtype(v.aval.dtype, jnp.inexact) else 0


def _unusual(value: Any) -> int:
    """The number of entries other than 0 and ±1; 0 for an array that is not of floating-point numbers."""
    if isinstance(value, jax.core.Tracer):
        return value.size
    value = np.asarray(value)
    if not jnp.issubdtype(value.dtype, jnp.inexact):
        return 0
    return int(np.sum(~np.isin(value, (0, 1, -1))))


def _is_of_arrays(equation: Any) -> bool:
    return primitive_of(equation).kind in _KINDS and equation.primitive.name != "jaxhamel_pullback"


def _goes_on(equation: Any, made: set[Any], count: _Counts) -> bool:
    """Whether the operation reads the arrays `made`, and no other large array of a lane."""
    large = count.large(equation.invars)
    return bool(large) and large <= made and _is_of_arrays(equation)


def _before(jaxpr: Any, found: set[int], count: _Counts) -> set[int]:
    """The operations whose results are large arrays that only operations of `found`, or of this set itself, read."""
    more: set[int] = set()
    elsewhere = variables(jaxpr.outvars)  # read by other operations
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        equation = jaxpr.eqns[i]
        out = [v for v in equation.outvars if not isinstance(v, DropVar)]
        if i not in found:
            kept = (
                out
                and count.large(out) == set(out)
                and elsewhere.isdisjoint(out)
                and _is_of_arrays(equation)
            )
            if not kept:
                elsewhere |= variables(equation.invars)
                continue
            more.add(i)
    return more


def _connected(equations: list[Any], places: set[int]) -> list[set[int]]:
    """The operations at these places in groups, so that no operation reads a result of another group."""
    groups: list[tuple[set[int], set[Any]]] = []  # operations, and the values that they make
    for i in sorted(places):
        given = variables(equations[i].invars)
        read = [group for group in groups if not group[1].isdisjoint(given)]
        groups = [group for group in groups if group[1].isdisjoint(given)]
        before = set().union(*(x for x, _ in read)), set().union(*(x for _, x in read))
        groups.append((before[0] | {i}, before[1] | set(equations[i].outvars)))
    return [places for places, _ in groups]


def _of_few_lane_numbers(jaxpr: Any, places: set[int], count: _Counts) -> set[int]:
    """Returns `places` if these operations should stay operations on arrays, an empty set if they should be written out.

    They stay if they read at least as many shared numbers as they exchange numbers of a lane with other operations. Each
    exchanged number is a vector in memory.

    A layer of a network reads many weights and few numbers of a lane; operations on all bodies of a tree, each with its own
    mass or inertia, read and return as many numbers of a lane (docs/performance.md#trees-in-ensembles).
    """
    equations = jaxpr.eqns
    made = {v for i in places for v in equations[i].outvars}
    others = read_by(equations, set(range(len(equations))) - places) | variables(jaxpr.outvars)
    readers: dict[Any, list[Any]] = {}
    for i in places:
        for v in variables(equations[i].invars) - made:
            readers.setdefault(v, []).append(equations[i])
    read = {v: count.read_of(v, of_v) for v, of_v in readers.items()}
    crossing = sum(count.own[v] for v in made & others)
    crossing += sum(n for v, n in read.items() if v in count.varying)
    shared = sum(n for v, n in read.items() if v not in count.varying)
    return places if crossing <= shared else set()


def _programs(equation: Any, flags: list[bool]) -> list[tuple[ClosedJaxpr, list[bool]]]:
    """The programs inside an equation, each with flags for its inputs that vary; `flags`: those of the operands."""
    name, params = equation.primitive.name, equation.params
    if name in LOOPS:
        loop = kept_loop(equation, flags)
        return [(loop.turn, loop.varies[loop.fixed[0] :])]
    if name == "cond":
        return [(branch, flags[1:]) for branch in params["branches"]]
    found = [params[x] for x in ("jaxpr", "call_jaxpr") if x in params]
    return [(x if hasattr(x, "consts") else ClosedJaxpr(x, ()), flags) for x in found]
