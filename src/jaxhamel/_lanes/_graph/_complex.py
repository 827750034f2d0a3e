"""Operations on complex scalars, written as operations on their real and imaginary parts.

A kernel takes real operations only. So each result is stored as the node `complex(real part, imaginary part)`, whose parts
the next operation reads; where only parts are used, no complex number remains. An operation without a rule here stays
complex: it has the same value, but the program then runs outside of a fusion.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from jax import lax

if TYPE_CHECKING:  # the graph's module imports this one
    from jaxhamel._lanes._graph._graph import Graph

RealAndImaginary = tuple[int, int]  # the nodes of the real and the imaginary part


class _Reals:
    """Real operations of one dtype on the nodes of a graph."""

    def __init__(self, graph: "Graph", dtype: np.dtype):
        self.graph, self.dtype = graph, np.real(np.empty(0, dtype)).dtype

    def number(self, value: float) -> int:
        return self.graph.constant(np.asarray(value, self.dtype))

    def apply(self, primitive: Any, *operands: int, dtype: Any = None) -> int:
        return self.graph.apply(primitive, operands, self.dtype if dtype is None else dtype)

    def sum(self, x: int, y: int) -> int:
        return self.apply(lax.add_p, x, y)

    def difference(self, x: int, y: int) -> int:
        return self.apply(lax.sub_p, x, y)

    def product(self, x: int, y: int) -> int:
        return self.apply(lax.mul_p, x, y)

    def quotient(self, x: int, y: int) -> int:
        return self.apply(lax.div_p, x, y)

    def size(self, x: int) -> int:
        return self.apply(lax.abs_p, x)

    def larger(self, x: int, y: int) -> int:
        return self.apply(lax.max_p, self.size(x), self.size(y))

    def chosen(self, which: int, *cases: int) -> int:
        return self.apply(lax.select_n_p, which, *cases)


def in_real_parts(
    graph: "Graph", name: str, operands: tuple[int, ...], dtype: np.dtype, params: dict
) -> int | None:
    """The node of an operation with complex operands or a complex result; None if the operation stays complex."""
    dtypes = [dtype, *(graph.nodes[i].dtype for i in operands)]
    number = next((x for x in dtypes if x.kind == "c"), None)
    if number is None:
        return None
    reals = _Reals(graph, number)
    if name == "convert_element_type" and dtype.kind != "c":
        return graph.apply(
            lax.convert_element_type_p, (_parts(reals, operands[0])[0],), dtype, params
        )
    if dtype.kind != "c":
        rule = _REAL_RESULT.get(name)
        return None if rule is None else rule(reals, *(_parts(reals, i) for i in operands))
    found = _complex_result(reals, name, operands, params)
    return None if found is None else graph.apply(lax.complex_p, found, dtype)


def _complex_result(reals: _Reals, name: str, operands, params: dict) -> RealAndImaginary | None:
    if name == "select_n":
        which, *cases = operands
        pairs = zip(*(_parts(reals, i) for i in cases), strict=True)
        real, imaginary = (reals.chosen(which, *each) for each in pairs)
        return real, imaginary
    if name == "integer_pow":
        return _power(reals, _parts(reals, operands[0]), params["y"])
    rule = _COMPLEX_RESULT.get(name)
    return None if rule is None else rule(reals, *(_parts(reals, i) for i in operands))


def _parts(reals: _Reals, i: int) -> RealAndImaginary:
    """The real and the imaginary part of a node, which may be real."""
    node = reals.graph.nodes[i]
    if node.value is not None:
        return reals.number(np.real(node.value)), reals.number(np.imag(node.value))
    if node.dtype.kind != "c":
        params = {"new_dtype": reals.dtype, "weak_type": False, "sharding": None}
        part = reals.graph.apply(lax.convert_element_type_p, (i,), reals.dtype, params)
        return part, reals.number(0.0)
    if node.primitive is lax.complex_p:
        return node.operands[0], node.operands[1]
    return _part_of_other(reals, lax.real_p, i), _part_of_other(reals, lax.imag_p, i)


def _part_of_other(reals: _Reals, primitive: Any, i: int) -> int:
    """A part of a node that is no pair: an input, or the result of an operation without a rule."""
    return reals.graph.interned(primitive, (i,), reals.dtype)


# --- real and imaginary part of each result -------------------------------------------------------


def _sum(r: _Reals, x: RealAndImaginary, y: RealAndImaginary) -> RealAndImaginary:
    return r.sum(x[0], y[0]), r.sum(x[1], y[1])


def _difference(r: _Reals, x: RealAndImaginary, y: RealAndImaginary) -> RealAndImaginary:
    return r.difference(x[0], y[0]), r.difference(x[1], y[1])


def _product(r: _Reals, x: RealAndImaginary, y: RealAndImaginary) -> RealAndImaginary:
    real = r.difference(r.product(x[0], y[0]), r.product(x[1], y[1]))
    return real, r.sum(r.product(x[0], y[1]), r.product(x[1], y[0]))


def _quotient(r: _Reals, x: RealAndImaginary, y: RealAndImaginary) -> RealAndImaginary:
    """x / y = x ȳ / |y|², with y divided by its larger part, so that |y|² neither overflows nor underflows."""
    scale = r.larger(*y)
    unit = r.quotient(y[0], scale), r.quotient(y[1], scale)
    numerator = _product(r, x, _conjugate(r, unit))
    below = r.sum(r.product(y[0], unit[0]), r.product(y[1], unit[1]))
    return r.quotient(numerator[0], below), r.quotient(numerator[1], below)


def _negative(r: _Reals, x: RealAndImaginary) -> RealAndImaginary:
    return r.apply(lax.neg_p, x[0]), r.apply(lax.neg_p, x[1])


def _conjugate(r: _Reals, x: RealAndImaginary) -> RealAndImaginary:
    return x[0], r.apply(lax.neg_p, x[1])


def _exponential(r: _Reals, x: RealAndImaginary) -> RealAndImaginary:
    known = r.graph.value(x[0])
    size = r.apply(lax.exp_p, x[0]) if known is None else r.number(np.exp(known))
    turned = r.apply(lax.cos_p, x[1]), r.apply(lax.sin_p, x[1])
    return r.product(size, turned[0]), r.product(size, turned[1])


def _logarithm(r: _Reals, x: RealAndImaginary) -> RealAndImaginary:
    return r.apply(lax.log_p, _modulus(r, x)), r.apply(lax.atan2_p, x[1], x[0])


def _power(r: _Reals, x: RealAndImaginary, exponent: int) -> RealAndImaginary:
    """xⁿ by repeated squares."""
    found, square, left = (r.number(1.0), r.number(0.0)), x, abs(exponent)
    while left:
        found = _product(r, found, square) if left % 2 else found
        left //= 2
        square = _product(r, square, square) if left else square
    return found if exponent >= 0 else _quotient(r, (r.number(1.0), r.number(0.0)), found)


# --- real results ---------------------------------------------------------------------------------


def _modulus(r: _Reals, x: RealAndImaginary) -> int:
    """|x| = m √((x₁/m)² + (x₂/m)²) with the larger part m, so that no square overflows or underflows; 0 for x = 0."""
    largest = r.larger(*x)
    is_zero = r.apply(lax.eq_p, largest, r.number(0.0), dtype=bool)
    scale = r.chosen(is_zero, largest, r.number(1.0))
    squares = [r.product(p, p) for p in (r.quotient(part, scale) for part in x)]
    return r.product(largest, r.apply(lax.sqrt_p, r.sum(*squares)))


def _equal(r: _Reals, x: RealAndImaginary, y: RealAndImaginary) -> int:
    both = [r.apply(lax.eq_p, a, b, dtype=bool) for a, b in zip(x, y, strict=True)]
    return r.apply(lax.and_p, *both, dtype=bool)


def _different(r: _Reals, x: RealAndImaginary, y: RealAndImaginary) -> int:
    either = [r.apply(lax.ne_p, a, b, dtype=bool) for a, b in zip(x, y, strict=True)]
    return r.apply(lax.or_p, *either, dtype=bool)


_COMPLEX_RESULT: dict[str, Callable[..., RealAndImaginary]] = {
    "add": _sum,
    "conj": _conjugate,
    "convert_element_type": lambda r, x: x,
    "div": _quotient,
    "exp": _exponential,
    "log": _logarithm,
    "mul": _product,
    "neg": _negative,
    "square": lambda r, x: _product(r, x, x),
    "sub": _difference,
}
_REAL_RESULT: dict[str, Callable[..., int]] = {
    "abs": _modulus,
    "eq": _equal,
    "imag": lambda r, x: x[1],
    "ne": _different,
    "real": lambda r, x: x[0],
}
