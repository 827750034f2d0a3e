"""Replaces products with several constant matrices in a row by one product, where that takes fewer operations.

A Lagrangian of points with velocities A (c ∘ v), where A is constant, has momenta c ∘ Aᵀ (m ∘ A (c ∘ v)). The matrix
K = Aᵀ diag(m) A is known, so two products with A become one with K, which often has fewer rows. An entry of the mass matrix
then is K_ij c_i c_j. Timings: docs/performance.md#composed-products.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal

from jaxhamel._lanes._divided._jaxprs import CALLS, inlined, run_equation, variables
from jaxhamel._lanes._solutions._operator_solve import NAME as OPERATOR_SOLVE

# Products with smaller matrices are few operations anyway; larger ones are not written out, and take long to examine.
LEAST_ENTRIES, MOST_ENTRIES = 16, 40_000


class _Linear(NamedTuple):
    """A vector as K y: the variable y, the matrix K, and the number of products with constant matrices."""

    source: Any
    matrix: np.ndarray
    products: int


def with_composed_products(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same function with one product K y in place of products A B y with constant matrices, where that is shorter.

    Results differ by rounding. A program without such products is returned unchanged.
    """
    found = _compositions(inlined(closed), {}) if _may_have_products(closed) else None
    return closed if found is None else found


def _may_have_products(closed: ClosedJaxpr) -> bool:
    """Whether the program contains a constant matrix with enough entries, itself or in a function that it calls."""
    if any(np.ndim(x) == 2 and np.size(x) >= LEAST_ENTRIES for x in closed.consts):
        return True
    called = (
        e.params.get("jaxpr") or e.params.get("call_jaxpr")
        for e in closed.jaxpr.eqns
        if e.primitive.name in CALLS
    )
    return any(_may_have_products(each) for each in called)


def _compositions(program: ClosedJaxpr, inputs: dict[int, Any]) -> ClosedJaxpr | None:
    """The program with composed products and without its known `inputs`, given by their positions; None if nothing
    changes."""
    jaxpr, reading = program.jaxpr, _Reading(program, inputs)
    chosen = _chosen(jaxpr, reading)
    if not (chosen or reading.operators):
        return None
    replaced = {v: reading.linear[v] for v in chosen}
    free = [v for i, v in enumerate(jaxpr.invars) if i not in inputs]

    def run(*values):
        known = reading.given | dict(zip(free, values, strict=True))

        def read(v):
            return v.val if isinstance(v, Literal) else known[v]

        for i in _live(jaxpr, replaced):
            equation = jaxpr.eqns[i]
            of = replaced.get(_result(equation))
            if of is not None:
                x = known[of.source]
                known[_result(equation)] = jnp.asarray(of.matrix, x.dtype) @ x
            elif i in reading.operators:
                operator, kept = reading.operators[i]
                operands = [read(equation.invars[k]) for k in kept]
                out = equation.primitive.bind(*operands, **equation.params | {"operator": operator})
                known[_result(equation)] = out
            else:
                known |= run_equation(jaxpr, equation, known)
        return [read(v) for v in jaxpr.outvars]

    return jax.make_jaxpr(run)(*(v.aval for v in free))


def _result(equation: Any) -> Any:
    """The variable of the only result of an equation; None if it has none or several."""
    return equation.outvars[0] if len(equation.outvars) == 1 else None


class _Reading:
    """The values of a program that are known, and its vectors as products K y.

    - `given`: constants and known inputs. `known`: these, and values that are computed from them.
    - `linear`: vectors that are a constant matrix times another vector.
    - `operators`: for solutions of linear equations, by their positions: the program M x with composed products, and the
      positions of the operands that it still takes.
    """

    def __init__(self, program: ClosedJaxpr, inputs: dict[int, Any]):
        jaxpr = program.jaxpr
        pairs = zip(jaxpr.constvars, program.consts, strict=True)
        self.given = dict(pairs) | {jaxpr.invars[i]: x for i, x in inputs.items()}
        self.known = {v: x for v, x in self.given.items() if not isinstance(x, Tracer)}
        self.linear: dict[Any, _Linear] = {}
        self.operators: dict[int, tuple[ClosedJaxpr, list[int]]] = {}
        for i, equation in enumerate(jaxpr.eqns):
            if equation.primitive.name == OPERATOR_SOLVE:
                self._read_operator(i, equation)
            elif _result(equation) is not None:
                self._read(equation)

    def value(self, v: Any) -> Any:
        return v.val if isinstance(v, Literal) else self.known.get(v)

    def _read(self, equation: Any) -> None:
        name, out = equation.primitive.name, equation.outvars[0]
        values = [self.value(v) for v in equation.invars]
        if values and all(x is not None for x in values) and name in _FOLDED:
            with np.errstate(all="ignore"):
                self.known[out] = _FOLDED[name](equation, *map(np.asarray, values))
        elif name in _LINEAR and _is_vector(out) and _in_one_dtype(equation):
            with np.errstate(all="ignore"):
                found = _LINEAR[name](self, equation, values)
            if found is not None and np.all(np.isfinite(found.matrix)):
                self.linear[out] = found

    def of(self, v: Any) -> _Linear:
        """The vector as a matrix times a vector; times itself if nothing is known."""
        unknown = v not in self.linear
        return _Linear(v, np.eye(v.aval.size), 0) if unknown else self.linear[v]

    def _read_operator(self, i: int, equation: Any) -> None:
        operator = equation.params["operator"]
        constants = list(enumerate(equation.invars[:-1]))
        inputs = {k: x for k, v in constants if (x := self.value(v)) is not None}
        found = _compositions(inlined(operator), inputs)
        if found is not None:
            kept = [k for k in range(len(equation.invars)) if k not in inputs]
            self.operators[i] = found, kept


def _is_vector(v: Any) -> bool:
    return len(v.aval.shape) == 1 and jnp.issubdtype(v.aval.dtype, jnp.floating)


def _in_one_dtype(equation: Any) -> bool:
    return len({v.aval.dtype for v in (*equation.invars, *equation.outvars)}) == 1


def _scaled(reading: _Reading, equation: Any, values: list[Any]) -> _Linear | None:
    """Reads the product of a vector with known numbers, entry by entry, as K y."""
    for x, known in ((0, values[1]), (1, values[0])):
        if known is not None and values[x] is None:
            of = reading.of(equation.invars[x])
            return of._replace(matrix=np.reshape(known, (-1, 1)) * of.matrix)
    return None


def _summed(sign: int) -> Callable[..., _Linear | None]:
    def sum_of_two(reading: _Reading, equation: Any, values: list[Any]) -> _Linear | None:
        if any(x is not None for x in values):
            return None
        x, y = map(reading.of, equation.invars)
        if x.source is not y.source or not (x.products and y.products):
            return None
        return x._replace(matrix=x.matrix + sign * y.matrix, products=max(x.products, y.products))

    return sum_of_two


def _negative(reading: _Reading, equation: Any, values: list[Any]) -> _Linear:
    of = reading.of(equation.invars[0])
    return of._replace(matrix=-of.matrix)


def _product(reading: _Reading, equation: Any, values: list[Any]) -> _Linear | None:
    """Reads the product of a constant matrix with a vector as K y; None if the product has another form."""
    (sums, (batch, _)) = equation.params["dimension_numbers"]
    for x, known in ((0, values[1]), (1, values[0])):
        vector = equation.invars[x]
        if known is None or values[x] is not None or vector.aval.ndim != 1 or batch:
            continue
        matrix, of = np.asarray(known), reading.of(vector)
        if matrix.ndim == 2 and matrix.size <= MOST_ENTRIES and len(sums[x]) == 1:
            rows = np.moveaxis(matrix, sums[1 - x][0], -1)
            return of._replace(matrix=rows @ of.matrix, products=of.products + 1)
    return None


_LINEAR = {
    "mul": _scaled,
    "add": _summed(1),
    "add_any": _summed(1),
    "sub": _summed(-1),
    "neg": _negative,
    "dot_general": _product,
}


def _broadcast(equation: Any, x: np.ndarray, *rest) -> np.ndarray:
    shape, axes = equation.params["shape"], equation.params["broadcast_dimensions"]
    long = [x.shape[axes.index(i)] if i in axes else 1 for i in range(len(shape))]
    return np.broadcast_to(x.reshape(long), shape)


_FOLDED: dict[str, Callable[..., np.ndarray]] = {
    "mul": lambda equation, x, y: x * y,
    "add": lambda equation, x, y: x + y,
    "add_any": lambda equation, x, y: x + y,
    "sub": lambda equation, x, y: x - y,
    "neg": lambda equation, x: -x,
    "transpose": lambda equation, x: np.transpose(x, equation.params["permutation"]),
    "convert_element_type": lambda equation, x: x.astype(equation.params["new_dtype"]),
    "broadcast_in_dim": _broadcast,
}


def _chosen(jaxpr: Any, reading: _Reading) -> list[Any]:
    """The vectors that become one product with a constant matrix: each makes the program shorter."""
    chosen: dict[Any, _Linear] = {}
    ends = _ends_of_chains(jaxpr, reading)
    if not ends:
        return []
    linear = [e for e in jaxpr.eqns if _result(e) in reading.linear]
    lengths = {_result(e): _length(e, reading) for e in linear}
    own = {v: multiplications(reading.linear[v].matrix) for v in ends}

    def total(chosen) -> int:
        live = [_result(jaxpr.eqns[i]) for i in _live(jaxpr, chosen)]
        return sum(own[v] if v in chosen else lengths.get(v, 0) for v in live)

    shortest = total(chosen)
    for v in ends:
        more = chosen | {v: reading.linear[v]}
        length = total(more)
        if length < shortest:
            chosen, shortest = more, length
    return list(chosen)


def _ends_of_chains(jaxpr: Any, reading: _Reading) -> list[Any]:
    """Vectors after two products or more that a result needs, or an operation that does not continue the chain."""
    chains = {v: of for v, of in reading.linear.items() if of.products > 1}
    read = variables(jaxpr.outvars)
    for equation in jaxpr.eqns:
        of = chains.get(_result(equation))
        operands = variables(equation.invars)
        read |= {
            v for v in operands & chains.keys() if of is None or of.source is not chains[v].source
        }
    return [v for v in chains if v in read]


def _live(jaxpr: Any, replaced: dict[Any, _Linear]) -> list[int]:
    """The positions of the equations that results depend on or that have effects.

    Values in `replaced` depend on their sources only.
    """
    needed, found = variables(jaxpr.outvars), []
    for i in range(len(jaxpr.eqns) - 1, -1, -1):
        equation = jaxpr.eqns[i]
        if needed.isdisjoint(equation.outvars) and not equation.effects:
            continue
        found.append(i)
        of = replaced.get(_result(equation))
        needed |= variables(equation.invars) if of is None else {of.source}
    return found[::-1]


def _length(equation: Any, reading: _Reading) -> int:
    """The number of scalar operations of an equation with a vector as its result."""
    if equation.primitive.name != "dot_general":
        return equation.outvars[0].aval.size
    (sums, _) = equation.params["dimension_numbers"]
    for v, (axis,) in zip(equation.invars, sums, strict=True):
        if v.aval.ndim == 2:
            return multiplications(np.moveaxis(np.asarray(reading.value(v)), axis, -1))
    return 0


def multiplications(matrix: np.ndarray) -> int:
    """The number of products and sums of matrix times vector, where equal products and nested sums are computed once."""
    rows = sorted(
        (frozenset((j, x) for j, x in enumerate(r) if x) for r in matrix.tolist()), key=len
    )
    products = len({(j, abs(x)) for row in rows for j, x in row if abs(x) != 1})
    done: list[frozenset] = []
    sums = 0
    for row in rows:
        inside = max((len(known) for known in done if known <= row), default=1)
        sums += max(len(row) - inside, 0)
        done.append(row)
    return products + sums
