"""Rules for primitives that contain functions: branches, loops, calls, and functions with derivative rules of their own.

If the data decide between branches, all branches are computed and one result is selected. A loop is unrolled; one that is
too long for this, or whose number of turns is data, stays a loop between programs of scalar operations
(`_divided/_kept_loops.py`).
"""

from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr

from jaxhamel._lanes._blocks import add_block, run_equation
from jaxhamel._lanes._divided._jaxprs import carried_and_scanned
from jaxhamel._lanes._divided._kept_loops import KeptLoop, kept_loop, run_cond, run_loop
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, constant, each, node_numbers
from jaxhamel._lanes._graph._primitive import Kind, Primitive
from jaxhamel._lanes._xla_cpu._one_loop import MOST_VALUES

# (graph, jaxpr, inputs) -> outputs
Interpret = Callable[[Graph, ClosedJaxpr, list[Nodes]], list[Nodes]]

# The most operations of an unrolled loop; one with 36,000 operations, cut into pieces, compiled for two minutes. Programs
# that are not fusions are cut into pieces; a loop longer than a piece runs as fast kept as unrolled, and compiles in less
# time (docs/performance.md#long-loops).
LONGEST_LOOP, LONGEST_IN_PIECES = 30_000, 4_000
MOST_TURNS = 1_000
# The most operations on arrays (`_blocks`) in all turns of an unrolled loop, since each is compiled. A loop with a kept loop
# in each turn is kept, too.
MOST_BLOCKS = 8


def _call(program: str, **more) -> Primitive:
    """The record of a primitive that only calls a program: `program` names the parameter that holds it."""

    def rule(graph: Graph, equation, interpret: Interpret, *operands: Nodes) -> list[Nodes]:
        return interpret(graph, _closed(equation.params[program]), list(operands))

    return Primitive(Kind.CALL, rule, nested=True, program=program, cpu_kernel=True, **more)


CALLS: dict[str, Primitive] = {
    "jit": _call("jaxpr"),
    "pjit": _call("jaxpr"),
    "closed_call": _call("call_jaxpr"),
    "core_call": _call("call_jaxpr"),
    "remat": _call("jaxpr"),
    "remat2": _call("jaxpr"),
    "checkpoint": _call("jaxpr"),
    "custom_jvp_call": _call("call_jaxpr"),
    "custom_vjp_call": _call("call_jaxpr", one_lane=False),
}


def _closed(jaxpr) -> ClosedJaxpr:
    return jaxpr if hasattr(jaxpr, "consts") else ClosedJaxpr(jaxpr, ())


def linear_solve(graph: Graph, equation, interpret: Interpret, *operands: Nodes) -> list[Nodes]:
    """The rule for `lax.custom_linear_solve`: applies its solver to the solver's constants and the right-hand side."""
    lengths, solver = equation.params["const_lengths"], equation.params["jaxprs"].solve
    first = lengths.matvec + lengths.vecmat
    constants = operands[first : first + lengths.solve]
    right = operands[first + lengths.solve + lengths.transpose_solve :]
    return interpret(graph, _closed(solver), [*constants, *right])


def forward_of_reverse_only(graph: Graph, equation, interpret: Interpret, *operands: Nodes):
    """The rule for a `jax.custom_vjp` function under forward mode, which JAX does not support.

    **Raises:** `TypeError`, as JAX does.
    """
    del graph, equation, interpret, operands
    raise TypeError(
        "can't apply forward-mode differentiation (jvp) to a custom_vjp function: it has a rule for reverse mode only."
    )


class UnknownTurns(Unsupported):
    """A loop cannot be unrolled, since the number of its turns depends on the value of `node`."""

    def __init__(self, node: int):
        super().__init__("the primitive `while` whose number of turns is data")
        self.node = node


class TooLong(Unsupported):
    """A loop is too long to be written out, or its turns contain operations that are not."""


# --- branches -------------------------------------------------------------------------------------


def cond(graph: Graph, equation, interpret: Interpret, which: Nodes, *operands) -> list[Nodes]:
    """The rule for `lax.cond` and `lax.switch`: writes out the branch `which`.

    If `which` is not known, all branches are written out, and their results are selected by it. Branches with loops that are
    kept, between which all lanes decide alike, stay branches.
    """
    branches, known = equation.params["branches"], graph.value(int(which))
    if known is not None:
        return interpret(graph, _closed(branches[int(known)]), list(operands))
    first = len(graph.blocks)
    results = [interpret(graph, _closed(branch), list(operands)) for branch in branches]
    if any(x.is_loop for x in graph.blocks[first:]) and not graph.nodes[int(which)].batched:
        del graph.blocks[first:]
        run, like = partial(run_cond, [*map(_closed, branches)]), [v.aval for v in equation.outvars]
        return add_block(graph, run, [which, *operands], like, is_loop=True)
    dtypes = [v.aval.dtype for v in equation.outvars]
    chosen = results[-1]
    for i in range(len(branches) - 2, -1, -1):
        other = _differs(graph, int(which), i)
        chosen = [
            each(graph, lax.select_n_p, dtype, other, x, y)
            for dtype, x, y in zip(dtypes, results[i], chosen, strict=True)
        ]
    return chosen


def _differs(graph: Graph, which: int, i: int) -> Nodes:
    """Whether a branch other than the i-th is taken: the condition index ≠ i.

    `lax.cond` converts its Boolean condition to an index; for i = 0 the result is that Boolean.
    """
    node = graph.nodes[which]
    is_flag = node.primitive is not None and node.primitive.name == "convert_element_type"
    if i == 0 and is_flag and graph.nodes[node.operands[0]].dtype == np.bool_:
        return np.array(node.operands[0])
    return each(graph, lax.ne_p, bool, np.array(which), constant(graph, i, node.dtype))


def _all_branches(equation) -> list[tuple[ClosedJaxpr, int]]:
    return [(_closed(branch), 1) for branch in equation.params["branches"]]


def platform_index(graph: Graph, equation, interpret: Interpret) -> list[Nodes]:
    """The rule for `lax.platform_dependent`: the index of its default branch, which is right on every platform."""
    del interpret
    platforms = list(equation.params["platforms"])
    if None not in platforms:
        raise Unsupported("the primitive `platform_index` without a default")
    return [constant(graph, platforms.index(None), np.int32)]


# --- loops ----------------------------------------------------------------------------------------


def scan(graph: Graph, equation, interpret: Interpret, *operands: Nodes) -> list[Nodes]:
    """The rule for `lax.scan`: unrolls the loop, or keeps it."""
    unrolled, keep = partial(_unrolled_scan, interpret=interpret), partial(kept_loop, equation)
    return _unrolled_or_kept(graph, equation, unrolled, keep, operands)


def _unrolled_or_kept(
    graph: Graph, equation, unrolled: Callable, keep: Callable[[list[bool]], KeptLoop], operands
) -> list[Nodes]:
    """The results of a loop, written out if possible, otherwise those of a block (`_divided/_kept_loops`)."""
    first = len(graph.blocks)
    try:
        return unrolled(graph, equation, *operands)
    except (UnknownTurns, TooLong):
        if not graph.keeps_loops:
            raise
    del graph.blocks[first:]
    loop = keep([any(graph.nodes[i].batched for i in x.ravel().tolist()) for x in operands])
    like = [v.aval for v in equation.outvars]
    if loop.numbers() > MOST_VALUES:  # XLA takes no loop over the lanes with more
        return add_block(graph, partial(run_equation, equation), operands, like, is_loop=True)
    return add_block(graph, partial(run_loop, loop), operands, like, loop.results(), is_loop=True)


def _unrolled_scan(graph: Graph, equation, *operands: Nodes, interpret: Interpret) -> list[Nodes]:
    params = equation.params
    length, body = params["length"], _closed(params["jaxpr"])
    fixed, carry, columns = _split_in_three(operands, *carried_and_scanned(equation))
    rows, first, blocks = [], len(graph.nodes), len(graph.blocks)
    turns: Iterable[int] = range(length)
    for i in reversed(range(length)) if params["reverse"] else turns:
        row = [np.asarray(x[i]) for x in columns]
        out = interpret(graph, body, [*fixed, *carry, *row])
        carry, given = out[: len(carry)], out[len(carry) :]
        rows.append(given)
        share, ends = len(rows) / length, [*carry, *(x for row in rows for x in row)]
        _check_short(graph, equation, length, share, first, ends)
        _check_blocks(graph, equation, length, graph.blocks[blocks:], length / len(rows))
    rows = rows[::-1] if params["reverse"] else rows
    shapes = [v.aval.shape for v in equation.outvars[len(carry) :]]
    stacked = [
        np.array([row[k] for row in rows], dtype=int).reshape(shape)
        for k, shape in enumerate(shapes)
    ]
    return [*carry, *stacked]


def _every_turn(equation) -> list[tuple[ClosedJaxpr, int]]:
    return [(_closed(equation.params["jaxpr"]), equation.params["length"])]


def _split_in_three(values, first: int, second: int) -> tuple[list, list, list]:
    return list(values[:first]), list(values[first:second]), list(values[second:])


def _check_short(graph: Graph, equation, turns: int, share: float, first: int, ends) -> None:
    """Checks the length of a loop of which a `share` is written out, from node number `first` on, with the results `ends`.

    Nodes on which no result depends count only for a program that will be cut into pieces; to find them takes a while.
    """
    in_pieces = graph.keeps_loops and not (graph.fused or graph.few)
    most = min(LONGEST_LOOP, LONGEST_IN_PIECES if in_pieces else LONGEST_LOOP)
    operations = (len(graph.nodes) - first) / share
    if operations > most and not in_pieces:
        operations = sum(i >= first for i in graph.needed(node_numbers(ends))) / share
    if operations > most:
        raise TooLong(
            f"the primitive `{equation.primitive.name}` of {turns} turns, written out about "
            f"{operations:.0f} operations (at most {LONGEST_LOOP})"
        )


def _check_blocks(graph: Graph, equation, turns: int, blocks: list, times: float) -> None:
    """Whether each turn would be compiled again: `blocks` are those of the turns so far, 1/`times` of all."""
    many = len(blocks) * times > MOST_BLOCKS or any(x.is_loop for x in blocks)
    if graph.keeps_loops and turns > 1 and many:
        raise TooLong(f"the primitive `{equation.primitive.name}` with a loop in each turn")


def while_loop(graph: Graph, equation, interpret: Interpret, *operands: Nodes) -> list[Nodes]:
    """The rule for `lax.while_loop`: unrolls a loop whose number of iterations does not depend on the data.

    Others are kept.
    """
    unrolled, keep = partial(_unrolled_while, interpret=interpret), partial(kept_loop, equation)
    return _unrolled_or_kept(graph, equation, unrolled, keep, operands)


def _unrolled_while(graph: Graph, equation, *operands: Nodes, interpret: Interpret) -> list[Nodes]:
    params = equation.params
    n = params["cond_nconsts"]
    of_test, of_body, carry = _split_in_three(operands, n, n + params["body_nconsts"])
    first, blocks = len(graph.nodes), len(graph.blocks)
    for turn in range(MOST_TURNS):
        (goes_on,) = interpret(graph, _closed(params["cond_jaxpr"]), [*of_test, *carry])
        known = graph.value(int(goes_on))
        if known is None:
            raise UnknownTurns(int(goes_on))
        if not known:
            return carry
        carry = interpret(graph, _closed(params["body_jaxpr"]), [*of_body, *carry])
        _check_short(graph, equation, turn + 1, 1, first, carry)
        _check_blocks(graph, equation, turn + 1, graph.blocks[blocks:], 1)
    raise TooLong(f"the primitive `while` of more than {MOST_TURNS} turns")


_of = partial(Primitive, Kind.CONTROL_FLOW, nested=True)
CONTROL_FLOW: dict[str, Primitive] = {
    **CALLS,
    "custom_lin": _of(forward_of_reverse_only),
    "custom_linear_solve": _of(linear_solve),
    "cond": _of(cond, executed=_all_branches, cpu_kernel=True),
    "platform_index": _of(platform_index),
    "scan": _of(scan, executed=_every_turn, cpu_kernel=True),
    "while": _of(while_loop, one_lane=False, cpu_kernel=True),
}
