"""Conditions under which XLA's CPU compiler calls no library for an operation: a kernel of a whole loop cannot call one.

Each condition takes an equation and says whether a kernel may contain it.
"""

import math
from typing import Any

# The most numbers in a sum; for 4,096 of them XLA calls a library.
LONGEST_SUM = 1024
# The most numbers of a matrix in its product with a vector (tested up to 10,000, jaxlib 0.10.2).
LONGEST_PRODUCT = 4096
_SIDE = 8  # XLA calls a library for the product of two matrices with a side of this length


def is_short_sum(equation: Any) -> bool:
    return math.prod(equation.invars[0].aval.shape) <= LONGEST_SUM


def is_small_product(equation: Any) -> bool:
    x, y = (v.aval.shape for v in equation.invars)
    (summed, _), (batch, _) = equation.params["dimension_numbers"]
    count = math.prod(x[i] for i in summed)
    each = count * math.prod(x[i] for i in batch)
    if not each:
        return True
    rows, columns = math.prod(x) // each, math.prod(y) // each
    of_vector = min(rows, columns) == 1 and count * max(rows, columns) <= LONGEST_PRODUCT
    is_outer = count == 1 and rows * columns <= LONGEST_SUM  # XLA turns it into a multiplication
    return of_vector or is_outer or max(count, rows, columns) < _SIDE


def writes_one_window(equation: Any) -> bool:
    """Whether a scatter writes a single window."""
    return math.prod(equation.invars[1].aval.shape[:-1]) == 1
