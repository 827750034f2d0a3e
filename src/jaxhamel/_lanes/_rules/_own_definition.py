"""Replaces an operation without a rule by JAX's own definition of it in terms of other operations.

New versions of JAX bring new operations. An operation that contains a program is replaced by that program; a high-level
operation (`jax.experimental.hijax`) by its own expansion; any other by the function that JAX uses to lower it, if there is
one.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def own_definition(equation: Any) -> ClosedJaxpr | None:
    """A program equivalent to the operation, without the operation itself; None if JAX has no such definition."""
    for definition in (_inner_program, _traced_expansion):
        found = definition(equation)
        if found is not None and _defines(found, equation):
            return found
    return None


def _inner_program(equation: Any) -> ClosedJaxpr | None:
    """The program among the operation's parameters; None unless there is exactly one."""
    found = [x for x in equation.params.values() if isinstance(x, Jaxpr | ClosedJaxpr)]
    if len(found) != 1:
        return None
    return found[0] if isinstance(found[0], ClosedJaxpr) else ClosedJaxpr(found[0], ())


def _traced_expansion(equation: Any) -> ClosedJaxpr | None:
    """The jaxpr of the operation's expansion, or of the function that lowers it."""
    avals = [v.aval for v in equation.invars]
    for function in _functions(equation.primitive):
        try:
            return jax.make_jaxpr(lambda *x, of=function: of(*x, **equation.params))(*avals)
        except Exception:  # the function needs other arguments
            continue
    return None


def _functions(primitive: Any) -> Iterator[Callable]:
    if hasattr(primitive, "is_high"):
        yield primitive.to_lojax
    rule = _lowering(primitive)
    if rule is not None:
        yield rule


def _lowering(primitive: Any) -> Callable | None:
    """The function from which `jax.interpreters.mlir.lower_fun` made the lowering rule."""
    try:
        from jax._src.interpreters.mlir import _lowerings  # JAX has no public function for this

        rule: Any = _lowerings[primitive]
        made = inspect.unwrap(getattr(rule, "rule", rule))
        return inspect.getclosurevars(made).nonlocals.get("fun")
    except (ImportError, AttributeError, KeyError, TypeError):
        return None


def _defines(program: ClosedJaxpr, equation: Any) -> bool:
    """Whether a program can replace the operation: it has the same shapes and dtypes, and does not contain the operation."""
    pairs = [
        *zip(program.in_avals, equation.invars, strict=True),
        *zip(program.out_avals, equation.outvars, strict=True),
    ]
    alike = all((a.shape, a.dtype) == (v.aval.shape, v.aval.dtype) for a, v in pairs)
    return alike and all(e.primitive is not equation.primitive for e in program.jaxpr.eqns)
