"""Linear factors: the derivatives of an operation with respect to one operand, by which reverse mode multiplies.

Each function maps (edges, operands, index k of the operand, linear nodes) to the node of the factor (`_elimination`).
"""

from collections.abc import Callable
from typing import Any

from jax import lax

from jaxhamel._lanes._graph._nodes import Unsupported


def of_sum(*signs: int) -> Callable[..., int]:
    return lambda edges, operands, k, linear: edges.constant(float(signs[k]))


def of_product(edges: Any, operands, k: int, linear: set[int]) -> int:
    if operands[1 - k] in linear:
        raise Unsupported("the derivative of `mul`")
    return operands[1 - k]


def of_quotient(edges: Any, operands, k: int, linear: set[int]) -> int:
    if k:
        raise Unsupported("the derivative of `div`")
    return edges.apply(lax.div_p, edges.constant(1.0), operands[1])


def of_choice(edges: Any, operands, k: int, linear: set[int]) -> int:
    cases = [edges.constant(float(n == k)) for n in range(1, len(operands))]
    return edges.apply(lax.select_n_p, operands[0], *cases)
