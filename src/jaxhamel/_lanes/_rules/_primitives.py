"""`PRIMITIVES`: one record for each JAX primitive that `lanes`, or a kernel of a whole loop, can take."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxhamel._lanes._derivatives._pullback import pullback_rule
from jaxhamel._lanes._graph._elementwise import ELEMENTWISE
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._graph._primitive import Kind, Primitive, is_short_sum
from jaxhamel._lanes._rules._control_flow import CONTROL_FLOW
from jaxhamel._lanes._rules._convolution import CONVOLUTION
from jaxhamel._lanes._rules._fourier import FOURIER
from jaxhamel._lanes._rules._indexing import INDEXING
from jaxhamel._lanes._rules._linear_algebra import LIBRARY, LINEAR_ALGEBRA
from jaxhamel._lanes._rules._moves_and_sums import MOVES, SUMS
from jaxhamel._lanes._rules._operator_solve import OPERATOR_SOLVE
from jaxhamel._lanes._rules._order import ORDER


def _of_own_derivative(equation) -> list[Any]:
    """The program of a function with a derivative rule of its own.

    It is traced under `jit`, which keeps the trace, so that compilation does not trace the function again.
    """
    return _program(jax.jit(equation.params["function"]), *_input_avals(equation))


def _of_linear_map(equation) -> list[Any]:
    n, forward = equation.params["n"], jax.jit(equation.params["forward"].run)
    avals = _input_avals(equation)
    return _program(forward, avals[:n], avals[n:])


def _program(jitted: Callable, *avals) -> list[Any]:
    """The jaxpr of a function, in a list.

    It is traced inside a lambda, whose name JAX writes into its debug information: for a callable without a name JAX would
    write its text, with all jaxprs in it.
    """
    return [jax.make_jaxpr(lambda *values: jitted(*values))(*avals).jaxpr]


def _input_avals(equation) -> list[Any]:
    return [v.aval for v in equation.invars]


def _sets_one_place(equation) -> bool:
    """Whether equinox' `maybe_set` writes a single entry."""
    return all(math.prod(v.aval.shape) == 1 for v in equation.invars[3:])


def _is_taken_under_vmap(equation) -> bool:
    """Whether a kernel can take the primitive that equinox' `vprim` contains; `vprim` is the batched form of another one."""
    params = equation.params
    name, axes = params["prim"].name, params["__batch_axes"]
    return name in _EQUINOX or (name == "maybe_set" and all(axis is None for axis in axes[3:]))


def _unchanged(graph, equation, interpret, *operands) -> list[Any]:
    """The rule for equinox' operations on batches in a program of one lane: the only operand, unchanged."""
    del graph, interpret
    if equation.outvars[0].aval.shape != operands[0].shape:
        raise Unsupported(f"the primitive `{equation.primitive.name}` of an array")
    return [operands[0]]


def _chosen_alone(graph, equation, interpret, which, new, old) -> list[Any]:
    """The rule for `select_if_vmap` in a program of one lane: its second operand, since it selects only under `vmap`."""
    del graph, equation, interpret, which, old
    return [new]


def _of_lanes(graph, equation, interpret, *operands) -> list[Any]:
    """The rule for a function that `lanes` runs with a single lane: writes it out."""
    of = equation.params["function"]
    if getattr(of, "size", None) != 1:
        raise Unsupported("the primitive `jaxhamel_own_derivative`")
    entries = [x[0] if b else x for x, b in zip(operands, of.batched, strict=True)]
    return [np.asarray(x)[None] for x in interpret(graph, of.closed, entries)]


_of = partial(Primitive, Kind.WITHOUT_RULE, cpu_kernel=True)
_EQUINOX = {
    "nonbatchable": _of(of_one=_unchanged),
    "nondifferentiable_backward": _of(of_one=_unchanged),
    "select_if_vmap": _of(of_one=_chosen_alone),
    "unvmap_all": _of(of_one=_unchanged),
    "unvmap_any": _of(of_one=_unchanged),
    "unvmap_max": _of(of_one=_unchanged),
}
WITHOUT_RULE: dict[str, Primitive] = {
    **_EQUINOX,
    "custom_vmap_call": _of(),
    "jaxhamel_fusion": _of(),
    "jaxhamel_linear_map": _of(programs=_of_linear_map),
    "jaxhamel_own_derivative": _of(of_one=_of_lanes, programs=_of_own_derivative),
    "jaxhamel_scalars": _of(),
    "maybe_set": _of(cpu_kernel=_sets_one_place),
    "reduce_window": _of(cpu_kernel=is_short_sum),
    "vprim": _of(cpu_kernel=_is_taken_under_vmap),
    "xla_metadata_value": _of(),
}
PRIMITIVES: dict[str, Primitive] = {
    **ELEMENTWISE,
    **MOVES,
    **SUMS,
    **INDEXING,
    **CONVOLUTION,
    **FOURIER,
    **ORDER,
    **LINEAR_ALGEBRA,
    **LIBRARY,
    **OPERATOR_SOLVE,
    **CONTROL_FLOW,
    "jaxhamel_pullback": Primitive(Kind.CALL, pullback_rule, nested=True),
    **WITHOUT_RULE,
}
UNKNOWN = Primitive(Kind.WITHOUT_RULE)


def primitive_of(equation: Any) -> Primitive:
    """The record of an equation's primitive; `UNKNOWN` if `PRIMITIVES` has none."""
    return PRIMITIVES.get(equation.primitive.name, UNKNOWN)
