"""Divides the program of a function into parts: calls inlined, dependencies of equations, parts as programs of their own."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.core
from jax.extend.core import ClosedJaxpr, DropVar, Literal, jaxpr_as_fun
from jax.interpreters import partial_eval

CALLS = {"jit", "pjit", "closed_call"}


def inlined(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The same program with the operations of called functions in place of the calls."""
    return jax.make_jaxpr(lambda *values: evaluated(closed, values))(*closed.in_avals)


def called_program(equation: Any) -> ClosedJaxpr:
    """The program of an equation whose primitive is one of `CALLS`."""
    return equation.params.get("jaxpr") or equation.params["call_jaxpr"]


def evaluated(
    closed: ClosedJaxpr,
    values: Sequence[Any],
    special: Callable[[Any, list[Any]], list[Any] | None] = lambda equation, operands: None,
) -> list[Any]:
    """The results of a program, with the operations of called functions in place of the calls.

    `special`: (equation, operands) ↦ the results of an equation that is computed in another way; None for all others.
    """
    jaxpr = closed.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    known.update(zip(jaxpr.invars, values, strict=True))

    def read(v):
        return v.val if isinstance(v, Literal) else known[v]

    for equation in jaxpr.eqns:
        operands = [read(v) for v in equation.invars]
        if equation.primitive.name in CALLS:
            out = evaluated(called_program(equation), operands, special)
        else:
            out = special(equation, operands)
        if out is None:
            known.update(run_equation(jaxpr, equation, known))
        else:
            known.update(zip(equation.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def run_equation(jaxpr, equation, known: dict[Any, Any]) -> dict[Any, Any]:
    """Runs one equation and returns its results by variable."""
    given = list(dict.fromkeys(v for v in equation.invars if not isinstance(v, Literal)))
    made = [v for v in equation.outvars if not isinstance(v, DropVar)]
    alone = jaxpr.replace(
        constvars=[],
        invars=given,
        outvars=made,
        eqns=[equation],
        effects=equation.effects,
        debug_info=_unnamed(jaxpr),
    )
    out = jaxpr_as_fun(ClosedJaxpr(alone, ()))(*(known[v] for v in given))
    return dict(zip(made, out, strict=True))


def _unnamed(jaxpr):
    """A program's debugging information without the names of inputs and results, which a part of it does not have."""
    return jaxpr.debug_info._replace(arg_names=None, result_paths=None)


def variables(atoms: Iterable[Any]) -> set[Any]:
    return {v for v in atoms if not isinstance(v, Literal)}


def ancestors(equations, wanted: set[int]) -> set[int]:
    """The indices of the `wanted` equations and of all equations on which they depend."""
    found, needed = set(wanted), set()
    for i in range(len(equations) - 1, -1, -1):
        if i in found or not needed.isdisjoint(equations[i].outvars):
            found.add(i)
            needed |= variables(equations[i].invars)
    return found


def read_by(equations, places: Iterable[int]) -> set[Any]:
    return {v for i in places for v in variables(equations[i].invars)}


def part_of(closed: ClosedJaxpr, equations, more: list[Any], out) -> tuple[ClosedJaxpr, list[int]]:
    """A program of these equations with the results `out`, and the positions of the inputs of `closed` that it takes.

    The variables `more` are its last inputs.
    """
    jaxpr, used = closed.jaxpr, read_by(equations, range(len(equations))) | variables(out)
    kept = [i for i, v in enumerate(jaxpr.invars) if v in used]
    known = [(v, x) for v, x in zip(jaxpr.constvars, closed.consts, strict=True) if v in used]
    part = jaxpr.replace(
        constvars=[v for v, _ in known],
        invars=[*(jaxpr.invars[i] for i in kept), *more],
        outvars=list(out),
        eqns=equations,
        debug_info=_unnamed(jaxpr),
    )
    return ClosedJaxpr(part, [x for _, x in known]), kept


def varying_results(closed: ClosedJaxpr, batched: Sequence[bool]) -> list[bool]:
    """Whether each result varies from lane to lane; `batched`: whether each input does."""
    jaxpr = closed.jaxpr
    varying = {v for v, x in zip(jaxpr.invars, batched, strict=True) if x}
    for equation in jaxpr.eqns:
        if not varying.isdisjoint(variables(equation.invars)):
            varying.update(equation.outvars)
    return [not isinstance(v, Literal) and v in varying for v in jaxpr.outvars]


def with_results(closed: ClosedJaxpr, wanted: Sequence[bool]) -> tuple[ClosedJaxpr, list[int]]:
    """The program with only these results, and the positions of the inputs that it takes."""
    jaxpr, used = partial_eval.dce_jaxpr(closed.jaxpr, list(wanted))
    return ClosedJaxpr(jaxpr, closed.consts), [i for i, taken in enumerate(used) if taken]


def traced_constants_first(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[Any]]:
    """Turns the traced constants of a jaxpr into its first inputs; known constants stay, so that they can be folded."""
    is_traced = [isinstance(value, jax.core.Tracer) for value in closed.consts]
    if not any(is_traced):
        return closed, []
    jaxpr = closed.jaxpr
    pairs = list(zip(jaxpr.constvars, closed.consts, is_traced, strict=True))
    traced_inputs = [v for v, _, traced in pairs if traced]
    jaxpr = jaxpr.replace(
        constvars=[v for v, _, traced in pairs if not traced],
        invars=[*traced_inputs, *jaxpr.invars],
        debug_info=jaxpr.debug_info._replace(arg_names=None),
    )
    known = [value for _, value, traced in pairs if not traced]
    return ClosedJaxpr(jaxpr, known), [c for _, c, traced in pairs if traced]


def carried_and_scanned(equation) -> tuple[int, int]:
    """The numbers of two operands of a scan: of the first one in the carry, and of the first one whose axis is scanned.

    They follow from the shapes: scanned operands and stacked results have one axis more outside the loop than in its body.
    (The primitive's parameters with these indices have different names in different versions of JAX.)
    """
    body = equation.params["jaxpr"]

    def pairs(outer, inner):
        return zip(outer, inner, strict=True)

    def more(v, aval):
        return v.aval.ndim > len(aval.shape)

    columns = sum(more(*pair) for pair in pairs(equation.invars, body.in_avals))
    stacked = sum(more(*pair) for pair in pairs(equation.outvars, body.out_avals))
    end = len(equation.invars) - columns
    return end - (len(equation.outvars) - stacked), end
