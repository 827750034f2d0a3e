"""The table of elementwise primitives: they are the operations of a program of scalars."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxhamel._lanes._graph import _folding as folding
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported
from jaxhamel._lanes._graph._primitive import BOOL, FLOAT, Kind, Primitive

if TYPE_CHECKING:  # the graph's module imports this one
    from jaxhamel._lanes._graph._graph import Graph


def elementwise(graph: "Graph", equation, *operands: Nodes) -> list[Nodes]:
    """The rule of every elementwise primitive: one node for each entry of the result."""
    out = equation.outvars[0].aval
    if equation.primitive.name == "bitcast_convert_type" and out.shape != operands[0].shape:
        raise Unsupported("bitcast_convert_type between widths")
    spread = [np.broadcast_to(x, out.shape).ravel().tolist() for x in operands]
    params = dict(equation.params)
    if equation.primitive.name == "convert_element_type":
        params = {"new_dtype": np.dtype(params["new_dtype"]), "weak_type": False, "sharding": None}
    nodes = [
        graph.apply(equation.primitive, each, out.dtype, params)
        for each in zip(*spread, strict=True)
    ]
    return [np.array(nodes, dtype=int).reshape(out.shape)]


# Linear factors: derivatives of an operation with respect to one operand, by which reverse mode multiplies. Each function
# maps (edges, operands, index k of the operand, linear nodes) to the node of the factor (`_elimination`).


def _factor_of_sum(*signs: int) -> Callable[..., int]:
    return lambda edges, operands, k, linear: edges.constant(float(signs[k]))


def _factor_of_product(edges: Any, operands, k: int, linear: set[int]) -> int:
    if operands[1 - k] in linear:
        raise Unsupported("the derivative of `mul`")
    return operands[1 - k]


def _factor_of_quotient(edges: Any, operands, k: int, linear: set[int]) -> int:
    if k:
        raise Unsupported("the derivative of `div`")
    return edges.apply(lax.div_p, edges.constant(1.0), operands[1])


def _factor_of_choice(edges: Any, operands, k: int, linear: set[int]) -> int:
    cases = [edges.constant(float(n == k)) for n in range(1, len(operands))]
    return edges.apply(lax.select_n_p, operands[0], *cases)


_of = partial(Primitive, Kind.ELEMENTWISE, elementwise, cpu_kernel=True, gpu_kernel=True)
_by = folding.by

# XLA computes a division once, but functions such as the sine again in every fusion that uses them. Each such repetition
# counts as this many operations.
_FUNCTION = 100

# The number of operations that a processor does for a sine or cosine (those of one argument share its reduction), and for
# an arctangent.
_SINE = 30
_ARCTANGENT = 40

# `gpu_kernel=False` marks the primitives that JAX does not lower to Triton (0.10.1 and 0.10.2). `lt_to` and
# `le_to` are total-order comparisons, with −0 below 0 and NaN above all (`jnp.searchsorted`, `jnp.interp`). A GPU kernel
# uses `<` and `<=` instead (`on_gpu`): the position found among equal table entries may then differ by one; the value does
# not. fmt: off
ELEMENTWISE: dict[str, Primitive] = {
    "abs": _of(fold=_by(np.abs), arguments=(FLOAT,)),
    "acos": _of(),
    "acosh": _of(),
    "add": _of(
        fold=_by(np.add),
        simplify=folding.add,
        factor=_factor_of_sum(1, 1),
        signs=(1, 1),
        commutes=True,
    ),
    "add_any": _of(same_as=lax.add_p),
    "and": _of(
        fold=_by(np.bitwise_and), function=lax.bitwise_and, arguments=(BOOL, BOOL), commutes=True
    ),
    "asin": _of(),
    "asinh": _of(),
    "atan": _of(),
    "atan2": _of(length=_ARCTANGENT, repeated=_FUNCTION),
    "atanh": _of(),
    "bessel_i0e": _of(gpu_kernel=False),
    "bessel_i1e": _of(gpu_kernel=False),
    "bitcast_convert_type": _of(gpu_kernel=False),
    "cbrt": _of(),
    "ceil": _of(fold=_by(np.ceil)),
    "clamp": _of(fold=folding.clamped, spread=True),
    "clz": _of(gpu_kernel=False),
    "complex": _of(gpu_kernel=False),
    "conj": _of(gpu_kernel=False),
    "convert_element_type": _of(
        fold=folding.converted, simplify=folding.convert, factor=_factor_of_sum(1)
    ),
    "copy": _of(simplify=folding.only_operand, factor=_factor_of_sum(1), gpu_kernel=False),
    "cos": _of(fold=_by(np.cos), arguments=(FLOAT,), length=_SINE, repeated=_FUNCTION),
    "cosh": _of(),
    "digamma": _of(gpu_kernel=False),
    "div": _of(
        fold=folding.quotient, simplify=folding.divide, factor=_factor_of_quotient, repeated=0
    ),
    "eq": _of(fold=_by(np.equal), commutes=True),
    "erf": _of(gpu_kernel=False),
    "erf_inv": _of(),
    "erfc": _of(gpu_kernel=False),
    "exp": _of(arguments=(FLOAT,), repeated=_FUNCTION),
    "exp2": _of(),
    "expm1": _of(),
    "floor": _of(fold=_by(np.floor)),
    "ge": _of(fold=_by(np.greater_equal)),
    "gt": _of(fold=_by(np.greater)),
    "imag": _of(gpu_kernel=False),
    "integer_pow": _of(simplify=folding.power),
    "is_finite": _of(fold=_by(np.isfinite)),
    "le": _of(fold=_by(np.less_equal)),
    "le_to": _of(on_gpu=lax.le_p),
    "lgamma": _of(gpu_kernel=False),
    "log": _of(arguments=(FLOAT,), repeated=_FUNCTION),
    "log1p": _of(),
    "log2": _of(),
    "logistic": _of(),
    "lt": _of(fold=_by(np.less)),
    "lt_to": _of(on_gpu=lax.lt_p),
    "max": _of(fold=_by(np.maximum), commutes=True),
    "min": _of(fold=_by(np.minimum), commutes=True),
    "mul": _of(
        fold=_by(np.multiply), simplify=folding.multiply, factor=_factor_of_product, commutes=True
    ),
    "ne": _of(fold=_by(np.not_equal), commutes=True),
    "neg": _of(
        fold=_by(np.negative),
        simplify=folding.negate,
        factor=_factor_of_sum(-1),
        signs=(-1,),
        arguments=(FLOAT,),
    ),
    "nextafter": _of(),
    "not": _of(fold=_by(np.invert), function=lax.bitwise_not, arguments=(BOOL,)),
    "one_minus_square": _of(),
    "or": _of(
        fold=_by(np.bitwise_or), function=lax.bitwise_or, arguments=(BOOL, BOOL), commutes=True
    ),
    "population_count": _of(gpu_kernel=False),
    "polygamma": _of(gpu_kernel=False, repeated=_FUNCTION),
    "pow": _of(repeated=_FUNCTION),
    "real": _of(gpu_kernel=False),
    "reduce_precision": _of(gpu_kernel=False),
    "rem": _of(fold=folding.remainder),
    "round": _of(gpu_kernel=False),
    "rsqrt": _of(),
    "select_n": _of(
        fold=folding.selected,
        simplify=folding.select,
        factor=_factor_of_choice,
        arguments=(BOOL, FLOAT, FLOAT),
        spread=True,
    ),
    "shift_left": _of(),
    "shift_right_arithmetic": _of(),
    "shift_right_logical": _of(),
    "sign": _of(fold=_by(np.sign)),
    "sin": _of(fold=_by(np.sin), arguments=(FLOAT,), length=_SINE, repeated=_FUNCTION),
    "sinh": _of(),
    "sqrt": _of(fold=_by(np.sqrt), arguments=(FLOAT,)),
    "square": _of(fold=_by(np.square)),
    "stop_gradient": _of(fold=_by(np.positive), simplify=folding.only_operand),
    "sub": _of(
        fold=_by(np.subtract),
        simplify=folding.subtract,
        factor=_factor_of_sum(1, -1),
        signs=(1, -1),
    ),
    "tan": _of(repeated=_FUNCTION),
    "tanh": _of(repeated=_FUNCTION),
    "xor": _of(fold=_by(np.bitwise_xor), commutes=True),
}
# fmt: on

# `pick`, a look-up in a table of scalars (`_rules/_indexing.py`), occurs in graphs only.
SCALARS: dict[str, Primitive] = {**ELEMENTWISE, "pick": Primitive(Kind.INDEXING, gpu_kernel=True)}


def scalar(node) -> Primitive | None:
    """The record of a node's operation; None for an input or a constant."""
    return None if node.primitive is None else SCALARS[node.primitive.name]


def broadcast(node, operands: list[Any]) -> list[Any]:
    """The operands, vectors and scalars, in shapes that the node's primitive accepts.

    Most primitives broadcast scalars themselves; for the others this is done here, if the node varies from lane to lane.
    """
    return in_one_shape(node.primitive, operands) if node.batched else operands


def in_one_shape(primitive, operands: list[Any]) -> list[Any]:
    """The operands of a primitive, scalars and arrays of one shape; scalars are broadcast if it does not do so itself."""
    if not SCALARS[primitive.name].spread:
        return operands
    shape = next((np.shape(x) for x in operands if np.ndim(x)), ())
    return [jnp.broadcast_to(jnp.asarray(x), shape) for x in operands] if shape else operands
