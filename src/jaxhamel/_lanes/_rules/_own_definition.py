"""An operation without a rule here, in terms of other operations: by the definition that JAX has of it.

A new version of JAX brings new operations. Those that hold a program are that program; operations on types of a higher
level (`jax.experimental.hijax`) say how they are expanded; the rest JAX computes by a function of other operations where it
is compiled.
"""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Jaxpr


def own_definition(equation: Any) -> ClosedJaxpr | None:
    """What an operation does, as a program without it; None where JAX has it in no such form."""
    for definition in (_held, _traced):
        found = definition(equation)
        if found is not None and _is_of(found, equation):
            return found
    return None


def _held(equation: Any) -> ClosedJaxpr | None:
    """The only program among the parameters."""
    held = [x for x in equation.params.values() if isinstance(x, Jaxpr | ClosedJaxpr)]
    if len(held) != 1:
        return None
    return held[0] if isinstance(held[0], ClosedJaxpr) else ClosedJaxpr(held[0], ())


def _traced(equation: Any) -> ClosedJaxpr | None:
    """The operation's expansion, or the function by which it is compiled, traced."""
    avals = [v.aval for v in equation.invars]
    for function in _functions(equation.primitive):
        try:
            return jax.make_jaxpr(lambda *x, of=function: of(*x, **equation.params))(*avals)
        except Exception:  # not a function of such arguments alone
            continue
    return None


def _functions(primitive: Any) -> Iterator[Callable]:
    if hasattr(primitive, "is_high"):
        yield primitive.to_lojax
    rule = _lowering(primitive)
    if rule is not None:
        yield rule


def _lowering(primitive: Any) -> Callable | None:
    """The function that `jax.interpreters.mlir.lower_fun` made the rule of."""
    try:
        from jax._src.interpreters.mlir import _lowerings  # JAX has no other way to ask

        rule: Any = _lowerings[primitive]
        return inspect.getclosurevars(getattr(rule, "rule", rule)).nonlocals.get("fun")
    except (ImportError, AttributeError, KeyError, TypeError):
        return None


def _is_of(program: ClosedJaxpr, equation: Any) -> bool:
    """The same shapes and dtypes in and out, and not the operation itself."""
    pairs = [
        *zip(program.in_avals, equation.invars, strict=True),
        *zip(program.out_avals, equation.outvars, strict=True),
    ]
    alike = all((a.shape, a.dtype) == (v.aval.shape, v.aval.dtype) for a, v in pairs)
    return alike and all(e.primitive is not equation.primitive for e in program.jaxpr.eqns)
