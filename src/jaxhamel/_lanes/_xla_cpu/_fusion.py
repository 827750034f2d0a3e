"""Compiles the scalar operations of a kernel as one fusion of XLA's, with no memory between them.

In the function of a `reduce_window` XLA gives each operation a buffer of its own, and sets up all of them in every call of
the compiled program, although no kernel uses them: 0.1 µs for each operation, a third of the motion of six links. The
operations of a fusion have no buffers. XLA forms fusions itself, but computes shared values again in each of them; the
operation `mhlo.fusion` prescribes a single fusion. It is not part of JAX's documented interface, and XLA ends the process if
it meets one outside of a kernel. So it is used only inside of kernels, with the jaxlib and the operations that were tested.
Timings: docs/performance.md#fusions.
"""

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jaxlib.version
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from jax.interpreters import mlir
from jaxlib.mlir import ir

from jaxhamel._lanes._xla_cpu._straight_line import (
    called_program,
    inlined,
    ir_type,
    program_primitive,
    scalars_of,
)

# The jaxlib and the processors on which fusions and kernels of loops were tested.
TESTED_JAXLIB, PROCESSORS = (0, 10, 2), ("x86_64", "AMD64")

_COMPARISONS = {"eq", "ge", "gt", "le", "lt", "ne"}
_ARITHMETIC = {"abs", "add", "add_any", "clamp", "div", "max", "min", "mul", "neg", "rem", "sub"}
_LOGIC = {"and", "is_finite", "not", "or", "select_n", "xor"}
_FUNCTIONS = {"exp", "integer_pow", "log", "pow", "rsqrt", "sign", "sqrt", "square", "tanh"}
_INVERSES = {"acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt"}
_SIGMOIDS = {"cosh", "erf", "erfc", "exp2", "expm1", "log1p", "logistic", "sinh", "tan"}
_OTHERS = {"broadcast_in_dim", "ceil", "convert_element_type", "copy", "floor", "reshape", "round"}
TAKEN = _COMPARISONS | _ARITHMETIC | _LOGIC | _FUNCTIONS | _INVERSES | _SIGMOIDS | _OTHERS
_DTYPES = {np.dtype(x) for x in ("bool", "int32", "int64", "float32", "float64")}


def fusions_work() -> bool:
    """Whether this XLA is known to compile a fusion inside of a kernel."""
    return jaxlib.version.__version_info__ == TESTED_JAXLIB and platform.machine() in PROCESSORS


def fused(function: Callable, values: Sequence[Any]) -> list | None:
    """Computes `function(*values)` by one fusion inside of a kernel; returns None if XLA is not known to compile that.

    `function` consists of operations on single entries; all results have the same shape. Together they must depend on all
    values, also after XLA has simplified expressions such as x − x of integers.
    """
    program = flat_program(function, values) if fusions_work() else None
    return None if program is None else _fusion_p.bind(*values, program=program)


def flat_program(function: Callable, values: Sequence[Any]) -> ClosedJaxpr | None:
    """The program of `function` without calls and constants, or None if XLA is not known to compile it as a fusion."""
    traced = jax.make_jaxpr(function)(*values)
    if not is_taken(traced):
        return None
    if traced.consts or any(map(called_program, traced.jaxpr.eqns)):
        traced = jax.make_jaxpr(lambda *x: inlined(traced.jaxpr, traced.consts, x))(*values)
    return None if traced.consts else traced


def is_taken(program: ClosedJaxpr) -> bool:
    """Whether all operations are among those that were tested in fusions, and no result is an input or a constant."""
    jaxpr, equations = program.jaxpr, list(_operations(program.jaxpr))
    atoms = [v for e in equations for v in (*e.invars, *e.outvars)]
    given = {id(v) for v in (*jaxpr.invars, *jaxpr.constvars)}
    return (
        all(e.primitive.name in TAKEN for e in equations)
        and all(v.aval.dtype in _DTYPES for v in atoms)
        and not any(isinstance(v, Literal) or id(v) in given for v in jaxpr.outvars)
    )


def _operations(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        inner = called_program(equation) or scalars_of(equation)
        yield from [equation] if inner is None else _operations(inner.jaxpr)


def lower_fusion(context, *values, program):
    """The lowering rule of the primitive: an `mhlo.fusion` that contains the lowered program."""
    types = [ir_type(aval) for aval in context.avals_out]
    kind = ir.Attribute.parse("#mhlo<fusion_kind kLoop>")
    fusion = ir.Operation.create(
        "mhlo.fusion",
        results=types,
        operands=list(values),
        regions=1,
        attributes={"fusion_kind": kind},
    )
    block = fusion.regions[0].blocks.append(*(x.type for x in values))
    with ir.InsertionPoint(block):
        inside = mlir.lower_fun(jaxpr_as_fun(program))(context, *block.arguments)
        ir.Operation.create("mhlo.return", operands=list(inside))
    return fusion.results


_fusion_p = program_primitive("fusion")
mlir.register_lowering(_fusion_p, lower_fusion, platform="cpu")
