"""Writes the iterations ("turns") of a program's loops as scalar operations, each iteration as one fusion.

A step of diffrax consists of some three hundred small operations around the right-hand side: stages, error estimate, step
size controller, acceptance. In a kernel each of them writes its result to memory, which takes half of the time if the
right-hand side is short. The operations of a turn that can be written out, inner loops with a known number of turns among
them, become one fusion, which stores nothing in between. The others (a loop over the output times, buffers) follow it
unchanged.

A method whose last slope is the first one of its next step evaluates its first slope only if a flag is set, so that the
number of its stages depends on data. If this flag is False before the loop and each turn leaves it False, it is treated as a
constant.

The program is the one that JAX lowers: `vmap` has been applied to it, so that equinox' operations on batches do nothing.
Timings: docs/performance.md#fused-turns.
"""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._rules._primitives import primitive_of
from jaxhamel._lanes._written_turn import WrittenTurn, written_turn
from jaxhamel._lanes._xla_cpu._fusion import fused, fusions_work
from jaxhamel._lanes._xla_cpu._straight_line import computed

# Limits of a turn's scalar operations. Longer turns save a tenth of their time or less, and take longer to compile
# (docs/performance.md#fused-turns).
LONGEST_TURN, SHORTEST_TURN = 2_000, 100


def with_fused_turns(program: ClosedJaxpr) -> Callable[..., list]:
    """`program` as a function in which, where possible, each turn of an outermost loop is one fusion."""
    dtypes = [x.dtype for x in program.out_avals]

    def run(*values: Any) -> list:
        out = _run_jaxpr(program.jaxpr, program.consts, values)
        return [jnp.asarray(x, dtype) for x, dtype in zip(out, dtypes, strict=True)]

    return run


def length_of_lanes(jaxpr: Any) -> int:
    """The number of scalar operations of all functions in a program that `lanes` runs with a single lane."""
    return sum(_length_of_equation(e) for e in jaxpr.eqns)


def _length_of_equation(e: Any) -> int:
    function = e.params.get("function")
    if getattr(function, "size", None) == 1:
        of_one = list(function.batched)
        try:
            written = scalarise(function.closed, of_one, whole=True, blocks=True, few=True)
        except Unsupported:  # it runs as operations on arrays
            return LONGEST_TURN + 1
        return written.length()
    inner = _called(e)
    return 0 if inner is None else length_of_lanes(inner.jaxpr)


def _run_jaxpr(jaxpr: Any, consts: Sequence, values: Sequence) -> list:
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *values), strict=True))
    for e in jaxpr.eqns:
        out = _results_of_equation(e, [_value_of(known, v) for v in e.invars])
        known.update(zip(e.outvars, out, strict=True))
    return [_value_of(known, v) for v in jaxpr.outvars]


def _value_of(known: dict, v: Any) -> Any:
    return v.val if isinstance(v, Literal) else known[v]


def _results_of_equation(e: Any, operands: list) -> Sequence:
    if e.primitive.name == "copy":  # not run, so that a known flag stays known
        return operands
    called = _called(e)
    if called is not None:
        return _run_jaxpr(called.jaxpr, called.consts, operands)
    if e.primitive.name == "while":
        return _loop(e, operands)
    return _bound(e, operands)


def _called(e: Any) -> ClosedJaxpr | None:
    """The program that an equation calls; None if it calls none. Its derivative rules have been applied already."""
    if e.primitive.name == "jaxhamel_own_derivative" and not hasattr(
        e.params["function"], "closed"
    ):
        return jax.make_jaxpr(jax.jit(e.params["function"]))(*(v.aval for v in e.invars))
    name = primitive_of(e).program
    inner = None if name is None else e.params[name]
    return inner if inner is None or hasattr(inner, "consts") else ClosedJaxpr(inner, ())


def _bound(e: Any, operands: list) -> Sequence:
    out = e.primitive.bind(*operands, **e.primitive.get_bind_params(e.params))
    return out if e.primitive.multiple_results else [out]


def _loop(e: Any, operands: list) -> Sequence:
    """Runs a loop: with each turn as one fusion, or unchanged if `_turn` returns None."""
    n, body = e.params["cond_nconsts"], e.params["body_jaxpr"]
    m = n + e.params["body_nconsts"]
    of_test, of_body, start = operands[:n], operands[n:m], operands[m:]
    turn = _turn(body, of_body, start)
    if turn is None:
        return _bound(e, operands)

    def goes_on(x):
        return jaxpr_as_fun(e.params["cond_jaxpr"])(*of_test, *x)[0]

    pairs = zip(start, body.out_avals, strict=True)
    first = [jnp.asarray(x, aval.dtype) for x, aval in pairs]
    return lax.while_loop(goes_on, lambda x: jaxpr_as_fun(turn)(*of_body, *x), first)


def _turn(body: ClosedJaxpr, consts: list, start: list) -> ClosedJaxpr | None:
    """The body of a loop as a program with the same inputs and results, in which one fusion replaces most operations.

    Returns None if the fusion had more than `LONGEST_TURN` or fewer than `SHORTEST_TURN` operations, or if this XLA is not
    known to compile it.
    """
    if not fusions_work():
        return None
    turn = written_turn(body, consts, start, LONGEST_TURN)
    if not SHORTEST_TURN <= turn.program.length() <= LONGEST_TURN:
        return None
    like = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in body.in_avals]
    try:
        return jax.make_jaxpr(lambda *x: _run_turn(turn, list(x)))(*like)
    except NotTaken:
        return None


class NotTaken(Exception):
    """XLA is not known to compile the operations of a turn as one fusion."""


def _run_turn(turn: WrittenTurn, values: list) -> list:
    """Runs one turn: the look-ups, the fusion, and the equations that are not written out."""
    known = turn.variables_before(values)
    _run_each(turn.early, known)
    found = _in_one_fusion(turn.program, [known[v] for v in turn.given])
    known.update(zip(turn.wanted, found, strict=True))
    known.update({v: known[w] for v, w in turn.unchanged.items()})
    _run_each(turn.later, known)
    return [_value_of(known, v) for v in turn.results]


def _run_each(equations: list, known: dict) -> None:
    for e in equations:
        out = _bound(e, [_value_of(known, v) for v in e.invars])
        known.update(zip(e.outvars, out, strict=True))


def _in_one_fusion(program: Any, values: list) -> list:
    """Computes the results of a program of scalar operations in one fusion.

    **Raises:** `NotTaken` if XLA is not known to compile it as one.
    """
    graph, ends = program.graph, program.ends()
    entries = _entries_of_inputs(program, values)
    needed = graph.needed(ends)
    inside = [i for i in needed if graph.nodes[i].primitive is not None]
    given, results = [i for i in needed if i in entries], [i for i in inside if i in set(ends)]

    def of_all(*entries: Any) -> list:
        scalars = [
            jnp.reshape(x, ()) for x in entries
        ]  # XLA would otherwise change the shape of the fusion (`_one_loop`)
        found = dict(zip(given, scalars, strict=True))
        out = computed(graph, inside, results, found)
        floats = [lax.convert_element_type(x, float) for x in scalars]
        return [
            *out,
            sum(floats[1:], floats[0]),
        ]  # the last depends on every input

    out = fused(of_all, [entries[i] for i in given]) if given and results else None
    if out is None:
        raise NotTaken
    entries |= {i: jnp.reshape(x, (1,)) for i, x in zip(results, out[:-1], strict=True)}
    return [_assembled_array(graph, nodes, entries) for nodes in program.outputs]


def _entries_of_inputs(program: Any, values: list) -> dict[int, Any]:
    """The entries of the inputs, each as an array of one number."""
    entries = {}
    for nodes, value in zip(program.inputs, values, strict=True):
        flat = jnp.reshape(value, (nodes.size,))
        entries.update({i: flat[k : k + 1] for k, i in enumerate(nodes.ravel().tolist())})
    return entries


def _assembled_array(graph: Any, nodes: np.ndarray, entries: dict[int, Any]) -> Any:
    def constant(i):
        return jnp.asarray(graph.value(i))[None]

    parts = [entries[i] if i in entries else constant(i) for i in nodes.ravel().tolist()]
    return jnp.reshape(jnp.concatenate(parts), nodes.shape)
