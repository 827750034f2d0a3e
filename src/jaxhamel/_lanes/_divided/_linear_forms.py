"""Reads the vectors of a program as products K y of a constant matrix K with another vector y."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Literal

from jaxhamel._lanes._divided._jaxprs import inlined
from jaxhamel._lanes._solutions._operator_solve import NAME as OPERATOR_SOLVE

# (program, known inputs by their positions) -> the program with composed products; None if nothing changes
Compose = Callable[[ClosedJaxpr, dict[int, Any]], ClosedJaxpr | None]

MOST_ENTRIES = 40_000  # larger matrices are not written out, and take long to examine


class LinearForm(NamedTuple):
    """A vector as K y: the variable y, the matrix K, and the number of products with constant matrices."""

    source: Any
    matrix: np.ndarray
    products: int


class LinearForms:
    """The values of a program that are known, and its vectors as products K y.

    - `given`: constants and known inputs. `known`: these, and values that are computed from them.
    - `linear`: vectors that are a constant matrix times another vector.
    - `operators`: for solutions of linear equations, by their positions: the program M x with composed products, and the
      positions of the operands that it still takes.

    **Arguments:** `program`; `inputs`: known inputs, by their positions; `composed`: composes the products of M x.
    """

    def __init__(self, program: ClosedJaxpr, inputs: dict[int, Any], composed: Compose):
        jaxpr = program.jaxpr
        pairs = zip(jaxpr.constvars, program.consts, strict=True)
        self.given = dict(pairs) | {jaxpr.invars[i]: x for i, x in inputs.items()}
        self.known = {v: x for v, x in self.given.items() if not isinstance(x, Tracer)}
        self.linear: dict[Any, LinearForm] = {}
        self.operators: dict[int, tuple[ClosedJaxpr, list[int]]] = {}
        for i, equation in enumerate(jaxpr.eqns):
            if equation.primitive.name == OPERATOR_SOLVE:
                self._read_operator(i, equation, composed)
            elif result_of(equation) is not None:
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

    def of(self, v: Any) -> LinearForm:
        """The vector as a matrix times a vector; times itself if nothing is known."""
        unknown = v not in self.linear
        return LinearForm(v, np.eye(v.aval.size), 0) if unknown else self.linear[v]

    def _read_operator(self, i: int, equation: Any, composed: Compose) -> None:
        operator = equation.params["operator"]
        constants = list(enumerate(equation.invars[:-1]))
        inputs = {k: x for k, v in constants if (x := self.value(v)) is not None}
        found = composed(inlined(operator), inputs)
        if found is not None:
            kept = [k for k in range(len(equation.invars)) if k not in inputs]
            self.operators[i] = found, kept


def _is_vector(v: Any) -> bool:
    return len(v.aval.shape) == 1 and jnp.issubdtype(v.aval.dtype, jnp.floating)


def _in_one_dtype(equation: Any) -> bool:
    return len({v.aval.dtype for v in (*equation.invars, *equation.outvars)}) == 1


def _scaled(reading: LinearForms, equation: Any, values: list[Any]) -> LinearForm | None:
    """Reads the product of a vector with known numbers, entry by entry, as K y."""
    for x, known in ((0, values[1]), (1, values[0])):
        if known is not None and values[x] is None:
            of = reading.of(equation.invars[x])
            return of._replace(matrix=np.reshape(known, (-1, 1)) * of.matrix)
    return None


def _summed(sign: int) -> Callable[..., LinearForm | None]:
    def sum_of_two(reading: LinearForms, equation: Any, values: list[Any]) -> LinearForm | None:
        if any(x is not None for x in values):
            return None
        x, y = map(reading.of, equation.invars)
        if x.source is not y.source or not (x.products and y.products):
            return None
        return x._replace(matrix=x.matrix + sign * y.matrix, products=max(x.products, y.products))

    return sum_of_two


def _negative(reading: LinearForms, equation: Any, values: list[Any]) -> LinearForm:
    of = reading.of(equation.invars[0])
    return of._replace(matrix=-of.matrix)


def _product(reading: LinearForms, equation: Any, values: list[Any]) -> LinearForm | None:
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


def result_of(equation: Any) -> Any:
    """The variable of the only result of an equation; None if it has none or several."""
    return equation.outvars[0] if len(equation.outvars) == 1 else None
