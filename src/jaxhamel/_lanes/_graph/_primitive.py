"""`Primitive`: the record of one JAX primitive, with everything that `lanes` know about it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import jax
import numpy as np

FLOAT, BOOL = jax.ShapeDtypeStruct((), np.float32), jax.ShapeDtypeStruct((), np.bool_)


class Kind(Enum):
    """The kinds of primitives; the value is the heading in docs/primitives.md."""

    ELEMENTWISE = "Elementwise operations"
    MOVE = "Moves of entries, at no cost"
    INDEXING = "Look-ups and updates by index"
    ORDER = "Sorting and searching"
    LINEAR_ALGEBRA = "Linear algebra, written out for small matrices"
    LIBRARY = "Operations of a library, which stay operations on arrays"
    CONTROL_FLOW = "Control flow"
    CALL = "Calls; the called program is written out"
    SUM = "Sums, products, extremes, constants"
    WITHOUT_RULE = "Without a rule; written out by JAX's definition, if there is one"


@dataclass(frozen=True)
class Primitive:
    """One JAX primitive. The tables of the rule files have one record for each name; `_rules/_primitives.py` joins them.

    - `rule`: (graph, equation, operands…) ↦ the nodes of its results. A `nested` rule also takes, after the equation, the
      function that writes out a program inside the primitive. Without a rule, JAX's definition is written out, if it has
      one (`_own_definition`).
    - `of_one`: the rule in its place in a program for one lane to which `vmap` has been applied (`Graph.alone`); it takes
      the arguments of a nested rule.
    - `program`: the name of the parameter that holds the called program, if the primitive is a call.
    - `programs`: the programs inside an equation, if they are not among its parameters.
    - `executed`: equation ↦ the programs inside it that scalar operations replace, each with the number of times that one
      evaluation of the equation executes it.

    An elementwise primitive is an operation of scalars:

    - `fold`: the NumPy function that computes its value if all operands are constants.
    - `simplify`: (graph, operands, dtype, params) ↦ an existing or simpler node with the same value, or None.
    - `factor`: (edges, operands, index of the operand, linear nodes) ↦ the node of the derivative with respect to that
      operand, by which reverse mode multiplies; None if the operation is never linear.
    - `signs`: the signs of its operands, if it is a sum.
    - `commutes`: whether its operands may be exchanged.
    - `same_as`: another primitive that always replaces it.
    - `function`, `arguments`: an example of its use in `jax.lax`, from which its usual parameters are read.
    - `spread`: whether JAX takes scalar operands together with vectors only after they are broadcast.
    - `length`: the number of processor operations that it takes.
    - `repeated`: the cost, in operations, if XLA computes it once more in another fusion; 0 if XLA never does that.

    Where it may run:

    - `one_lane`: whether a function of a single trajectory that contains it may be replaced by scalar operations.
    - `cpu_kernel`: whether a program with loops that contains it may become one CPU kernel; or a function of the equation
      that decides it.
    - `gpu_kernel`: whether a GPU kernel may contain it; `on_gpu`: the primitive that replaces it in such a kernel.
    """

    kind: Kind
    rule: Callable | None = None
    of_one: Callable | None = None
    nested: bool = False
    program: str | None = None
    programs: Callable[[Any], list[Any]] | None = None
    executed: Callable[[Any], list[tuple[Any, int]]] | None = None
    fold: Callable | None = None
    simplify: Callable[..., int | None] | None = None
    factor: Callable[..., int] | None = None
    signs: tuple[int, ...] = ()
    commutes: bool = False
    same_as: Any = None
    function: Callable | None = None
    arguments: tuple[jax.ShapeDtypeStruct, ...] = (FLOAT, FLOAT)
    spread: bool = False
    length: int = 1
    repeated: int = 1
    one_lane: bool = True
    cpu_kernel: bool | Callable[[Any], bool] = False
    gpu_kernel: bool = False
    on_gpu: Any = None


# Conditions for `Primitive.cpu_kernel`: a kernel of a whole loop cannot call a library. XLA's CPU compiler calls none for an
# equation that meets them.

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


def adds_one_window(equation: Any) -> bool:
    """Whether a scatter adds a single window at one position. An array of one position is refused: XLA makes one scatter
    with several windows of the sum of two such scatters, and then finds that its kernel cannot contain it.
    """
    return equation.invars[1].aval.ndim == 1
