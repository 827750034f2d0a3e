"""Writes a program of scalars as a jaxpr, and that jaxpr as StableHLO, without tracing each operation.

JAX takes some 50 µs to trace an operation, and as long to lower it. Here an equation is a copy of one that JAX has traced
for the same primitive, and the most frequent operations are created directly, equal constants once. Timings:
docs/performance.md#first-values.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, Literal, Var, jaxpr_as_fun
from jax.interpreters import ad, mlir
from jaxlib.mlir import ir

from jaxhamel._lanes._graph._elementwise import in_one_shape
from jaxhamel._lanes._own_primitive import batch_size, own_primitive
from jaxhamel._lanes._xla_cpu._parts import name_of
from jaxhamel._lanes._xla_cpu._trigonometry import (
    arctangent,
    has_arctangent,
    has_sine,
    sine_and_cosine,
)


def computed(graph, nodes: list[int], results: list[int], values: dict[int, Any]) -> list:
    """The values of `results`, from those of other nodes in `values`, scalars or arrays of one shape.

    `nodes` are the operations between them, in order. The values are those of `_parts.compute`; as there, sine and cosine
    of one value are computed together.
    """
    own = set(nodes)
    read = {i for n in nodes for i in graph.nodes[n].operands}
    given = [i for i in values if i in read and i not in own]
    made = [i for i in dict.fromkeys(results) if i in own]
    program = _written(graph, nodes, made, {i: jax.typeof(values[i]) for i in given})
    out = _scalars_p.bind(*(values[i] for i in given), program=program)
    found = values | dict(zip(made, out, strict=True))
    return [found[i] for i in results]


def _written(graph, nodes: list[int], results: list[int], given: dict[int, Any]) -> ClosedJaxpr:
    """The jaxpr of the operations `nodes`; `given`: the shapes and dtypes of its inputs."""
    frame = jax.make_jaxpr(lambda *values: list(values))(*given.values())
    lines = _Lines(graph, dict(zip(given, frame.jaxpr.invars, strict=True)))
    for i in nodes:
        lines.write(i)
    outvars = [lines.atoms[i] for i in results]
    return ClosedJaxpr(frame.jaxpr.replace(eqns=lines.equations, outvars=outvars), ())


class _Lines:
    """The equations of a program as they are written, and the variable or constant of each node."""

    def __init__(self, graph, atoms: dict[int, Any]):
        self.graph, self.atoms = graph, atoms
        self.equations: list[Any] = []
        self.pairs: dict[int, list[Any]] = {}  # sine and cosine, by their operand

    def write(self, i: int) -> None:
        node = self.graph.nodes[i]
        operands, name = [self._atom(j) for j in node.operands], name_of(node)
        if name in ("sin", "cos") and has_sine(node.dtype):
            of = node.operands[0]
            if of not in self.pairs:
                self.pairs[of] = self._copied(
                    _pattern(sine_and_cosine, *_avals(operands)), operands
                )
            self.atoms[i] = self.pairs[of][name == "cos"]
        elif name == "atan2" and has_arctangent(node.dtype):
            (self.atoms[i],) = self._copied(_pattern(arctangent, *_avals(operands)), operands)
        else:
            pattern = _operation(node.primitive, node.params, *_avals(operands))
            (self.atoms[i],) = self._copied(pattern, operands)

    def _atom(self, i: int) -> Any:
        if i not in self.atoms:
            value = self.graph.nodes[i].value
            self.atoms[i] = Literal(value, jax.typeof(value))
        return self.atoms[i]

    def _copied(self, pattern: ClosedJaxpr, operands: list) -> list:
        """Adds the equations of a pattern with new variables; returns the variables of its results."""
        known = dict(zip(pattern.jaxpr.invars, operands, strict=True))
        for e in pattern.jaxpr.eqns:
            known.update((v, Var(v.aval)) for v in e.outvars)
            read = [v if isinstance(v, Literal) else known[v] for v in e.invars]
            self.equations.append(e.replace(invars=read, outvars=[known[v] for v in e.outvars]))
        return [known[v] for v in pattern.jaxpr.outvars]


def _avals(atoms: list) -> list:
    return [v.aval for v in atoms]


@lru_cache(maxsize=1024)
def _operation(primitive, params: tuple, *avals) -> ClosedJaxpr:
    """The traced program of one operation of scalars."""

    def bound(*operands):
        return primitive.bind(*in_one_shape(primitive, list(operands)), **dict(params))

    return _traced(bound, *avals)


@lru_cache(maxsize=1024)
def _pattern(function: Callable, *avals) -> ClosedJaxpr:
    return _traced(function, *avals)


def _traced(function: Callable, *avals) -> ClosedJaxpr:
    """The program of a function; the programs of jitted functions that it calls stand in it in full."""
    found = jax.make_jaxpr(function)(*avals)
    if any(map(called_program, found.jaxpr.eqns)):
        found = jax.make_jaxpr(lambda *x: inlined(found.jaxpr, found.consts, x))(*avals)
    return found


def called_program(equation: Any) -> ClosedJaxpr | None:
    """The program of the jitted function that an equation calls; None for any other equation."""
    return equation.params["jaxpr"] if equation.primitive.name in ("jit", "pjit") else None


def scalars_of(equation: Any) -> ClosedJaxpr | None:
    """The program of an equation that `computed` has made; None for any other equation."""
    return equation.params["program"] if equation.primitive is _scalars_p else None


def inlined(jaxpr: Any, consts: Sequence, values: Sequence) -> list:
    """Runs a program with the operations of jitted functions in place of calls to them: a fusion may not contain calls."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *values), strict=True))

    def read(v):
        return v.val if isinstance(v, Literal) else known[v]

    for e in jaxpr.eqns:
        operands, inner = [read(v) for v in e.invars], called_program(e)
        if inner is None:
            out = e.primitive.bind(*operands, **e.params)
            out = out if e.primitive.multiple_results else [out]
        else:
            out = inlined(inner.jaxpr, inner.consts, operands)
        known.update(zip(e.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def program_primitive(name: str) -> Any:
    """A primitive that computes the results of its parameter `program`; it has no rule for lowering of its own."""
    return own_primitive(name, run=_plain, abstract=_abstract, jvp=_jvp, batch=_batch)


def _plain(*values, program):
    return jaxpr_as_fun(program)(*values)


def _abstract(*values, program):
    del values
    return program.out_avals


def _jvp(primals, tangents, *, program):
    dense = tuple(ad.instantiate_zeros(t) for t in tangents)
    return jax.jvp(lambda *x: jaxpr_as_fun(program)(*x), primals, dense)


def _batch(values, axes, *, program):
    size = batch_size(values, axes)
    out = jax.vmap(jaxpr_as_fun(program), axes, axis_size=size)(*values)
    return out, [0] * len(out)


# The operations of floating-point numbers, or Booleans, that are created directly, with their names in StableHLO.
_OF_FLOATS = {"abs": "abs", "add": "add", "div": "divide", "floor": "floor", "max": "maximum"}
_OF_FLOATS |= {"min": "minimum", "mul": "multiply", "neg": "negate", "sub": "subtract"}
_OF_BOOLEANS = {"and": "and", "not": "not", "or": "or", "xor": "xor"}
_COMPARISONS = {x: x.upper() for x in ("eq", "ge", "gt", "le", "lt", "ne")}


class _Writer:
    """Creates the operations of a program at the current place of a module."""

    def __init__(self, context, program: ClosedJaxpr, values: Sequence[Any]):
        self.context, self.jaxpr = context, program.jaxpr
        self.known = dict(zip(program.jaxpr.invars, values, strict=True))
        self.constants: dict[Any, Any] = {}

    def results(self) -> list:
        for e in self.jaxpr.eqns:
            self.known.update(zip(e.outvars, self._created(e), strict=True))
        return [self.known[v] for v in self.jaxpr.outvars]

    def _created(self, e) -> list:
        name, out, shape = e.primitive.name, e.outvars[0].aval, e.outvars[0].aval.shape
        kinds = {v.aval.dtype.kind for v in e.invars}
        table = {"f": _OF_FLOATS, "b": _OF_BOOLEANS}.get("".join(kinds), {})
        if name in table:
            return self._operation(table[name], out, self._read(e.invars, shape))
        if name in _COMPARISONS and kinds == {"f"}:
            attributes = _comparison(_COMPARISONS[name])
            return self._operation("compare", out, self._read(e.invars, shape), attributes)
        if name == "select_n" and e.invars[0].aval.dtype == bool and len(e.invars) == 3:
            which, first, second = self._read(e.invars, shape)
            return self._operation("select", out, [which, second, first])
        return self._lowered(e)

    def _operation(self, name: str, out, operands: list, attributes: Any = None) -> list:
        made = ir.Operation.create(
            f"stablehlo.{name}", results=[ir_type(out)], operands=operands, attributes=attributes
        )
        return [made.result]

    def _read(self, atoms: list, shape: tuple) -> list:
        return [self._value(v, shape) for v in atoms]

    def _value(self, atom, shape: tuple) -> Any:
        """The value of a variable or constant, with the shape of the operation that reads it."""
        of_atom = tuple(atom.aval.shape)
        if of_atom == shape and not isinstance(atom, Literal):
            return self.known[atom]
        key = _bits(atom) if isinstance(atom, Literal) else atom, shape
        if key not in self.constants:
            value = _constant(atom) if isinstance(atom, Literal) else self.known[atom]
            self.constants[key] = value if of_atom == shape else _spread(value, atom.aval, shape)
        return self.constants[key]

    def _lowered(self, e) -> list:
        """The results of an operation by JAX's own rule."""
        avals = [v.aval for v in e.invars]
        context = self.context.replace(
            primitive=None, avals_in=avals, avals_out=[v.aval for v in e.outvars]
        )
        rule = mlir.lower_fun(
            lambda *x: e.primitive.bind(*x, **e.params),
            multiple_results=e.primitive.multiple_results,
        )
        operands = [self._value(v, tuple(v.aval.shape)) for v in e.invars]
        return list(rule(context, *operands))


def _bits(literal: Literal) -> tuple:
    value = np.asarray(literal.val)
    return value.dtype, value.tobytes()


def _constant(literal: Literal) -> Any:
    aval: Any = literal.aval
    return mlir.ir_constant(np.asarray(literal.val, aval.dtype))


def _spread(value, aval, shape: tuple) -> Any:
    """A scalar as an array of `shape`."""
    attributes: dict[str, Any] = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get([])}
    out = ShapedArray(shape, aval.dtype)
    made = ir.Operation.create(
        "stablehlo.broadcast_in_dim",
        results=[ir_type(out)],
        operands=[value],
        attributes=attributes,
    )
    return made.result


def _comparison(direction: str) -> dict[str, Any]:
    return {
        "comparison_direction": ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>"),
        "compare_type": ir.Attribute.parse("#stablehlo<comparison_type FLOAT>"),
    }


def ir_type(aval: Any) -> ir.Type:
    return ir.RankedTensorType.get(aval.shape, mlir.dtype_to_ir_type(jnp.dtype(aval.dtype)))


def _lowering(context, *values, program):
    # without a location an operation has no metadata, which XLA would copy with it
    with ir.Location.unknown():
        return _Writer(context, program, values).results()


_scalars_p = program_primitive("scalars")
mlir.register_lowering(_scalars_p, _lowering, platform="cpu")
