"""Folds constants, and simplifies 0·x, 1·x, x + 0, 0/x, −(−x), x + x = 2 x and a (b x) = (a b) x with constants a and b.

The results are those of exact arithmetic for finite x, with x ≠ 0 in 0/x. If x is infinite or NaN, 0·x and 0/x become 0
instead of NaN; −0 + 0 stays −0. Only the product of two constants changes the rounding: sums keep their order.
"""

from collections.abc import Callable
from functools import cache

import numpy as np
from jax import lax


def converted(x, new_dtype, **_):
    """x in another dtype; a complex number becomes real by its real part, as in JAX."""
    return np.asarray(x if np.issubdtype(new_dtype, np.complexfloating) else np.real(x), new_dtype)


def selected(which, *cases):
    return cases[int(which)]


def by(function: Callable) -> Callable:
    """A folding rule made from a NumPy function; parameters of the primitive (such as `accuracy`) are ignored."""
    return lambda *values, **_: function(*values)


def quotient(x, y, **_):
    """The quotient x / y; integers are rounded towards zero, with −1 for y = 0, as in JAX."""
    if np.issubdtype(np.asarray(x).dtype, np.inexact):
        return np.divide(x, y)
    x, y = int(x), int(y)
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) if y else -1


def remainder(x, y, **_):
    """The remainder with the sign of x; of integers, x for y = 0."""
    integer = not np.issubdtype(np.asarray(x).dtype, np.inexact)
    return x if integer and y == 0 else np.fmod(x, y)


def clamped(low, x, high, **_):
    return np.minimum(np.maximum(x, low), high)


# --- simplifications: (graph, operands, dtype, params) ↦ an existing or simpler node with the same value, or None ------


def _equals(graph, node: int, number) -> bool:
    return graph.numbers.get(node) == number


def _negative(graph, node: int, dtype) -> int:
    return graph.apply(lax.neg_p, (node,), dtype)


def multiply(graph, operands, dtype, params):
    has_number = not graph.numbers.keys().isdisjoint(operands)
    for x, y in (operands, operands[::-1]) if has_number else ():
        if _equals(graph, x, 0) or _equals(graph, y, 1):
            return x
        if _equals(graph, x, -1):
            return _negative(graph, y, dtype)
    for x, y in (operands, operands[::-1]):
        positive = graph.negated(x)
        if positive is not None:  # −x·y = −(x·y): the graph may have the product already
            product = graph.apply(lax.mul_p, (positive, y), dtype, params)
            return _negative(graph, product, dtype)
    return _of_constants(graph, operands, dtype, params) if has_number else None


def _of_constants(graph, operands, dtype, params):
    """a (b x) = (a b) x for constants a and b whose product neither overflows nor underflows."""
    for first, y in (operands, operands[::-1]):
        product = graph.nodes[y]
        if product.primitive is not lax.mul_p or graph.numbers.keys().isdisjoint(product.operands):
            continue
        a = graph.value(first)
        for second, x in (product.operands, product.operands[::-1]):
            b = graph.value(second)
            if b is not None and _is_normal(a, b, dtype):
                return graph.apply(lax.mul_p, (graph.constant(a * b), x), dtype, params)
    return None


def _is_normal(a, b, dtype) -> bool:
    smallest, largest = _normal(dtype)
    return largest > 0 and smallest <= abs(float(a) * float(b)) <= largest


@cache
def _normal(dtype) -> tuple[float, float]:
    """The smallest and the largest normal number; (∞, 0) for a dtype that is not real."""
    if not np.issubdtype(dtype, np.floating):
        return np.inf, 0.0
    return float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)


def add(graph, operands, dtype, params):
    has_number = not graph.numbers.keys().isdisjoint(operands)
    for x, y in (operands, operands[::-1]):
        if has_number and _equals(graph, x, 0):
            return y
        positive = graph.negated(x)
        if positive is not None:
            return graph.apply(lax.sub_p, (y, positive), dtype)
    x, y = operands
    if x == y and np.issubdtype(dtype, np.floating):  # the derivative of x² by JAX is x + x
        return graph.apply(lax.mul_p, (graph.constant(np.asarray(2, dtype)), x), dtype)
    return None


def subtract(graph, operands, dtype, params):
    x, y = operands
    if not graph.numbers.keys().isdisjoint(operands):
        if _equals(graph, y, 0):
            return x
        if _equals(graph, x, 0):
            return _negative(graph, y, dtype)
    positive = graph.negated(y)
    return None if positive is None else graph.apply(lax.add_p, (x, positive), dtype)


def divide(graph, operands, dtype, params):
    x, y = operands
    return x if _equals(graph, x, 0) or _equals(graph, y, 1) else None


def negate(graph, operands, dtype, params):
    return graph.negated(operands[0])


def select(graph, operands, dtype, params):
    which, *cases = operands
    value = graph.value(which)
    if value is not None:
        return cases[int(value)]
    return cases[0] if all(case == cases[0] for case in cases) else None


def convert(graph, operands, dtype, params):
    return operands[0] if graph.nodes[operands[0]].dtype == dtype else None


def only_operand(graph, operands, dtype, params):
    return operands[0]


def power(graph, operands, dtype, params):
    return operands[0] if params["y"] == 1 else None
