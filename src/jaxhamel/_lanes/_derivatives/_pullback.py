"""A JAX primitive for x̄ = F′(x)ᵀ ȳ, which lanes write out with fewer operations than JAX's transpose of F.

JAX differentiates F in forward mode, by the function's own rules where it has some (`jax.custom_jvp`). F′(x) ẋ is written
out, repeated expressions are merged, and common factors are taken out of sums; then it is transposed scalar by scalar
(`_elimination`). So an expression that occurs twice in F has one cotangent, and factors that all lanes share are multiplied
once, before the lanes. Outside lanes, and for further derivatives, the primitive is JAX's transpose.

Only the reverse mode of equal and adaptive steps uses it: for other functions it saves few operations and takes longer to
write out (docs/performance.md#reverse-mode).
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.core import ShapedArray
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun, jaxprs_in_params
from jax.interpreters import ad

from jaxhamel._lanes._divided._look_ups import divided
from jaxhamel._lanes._graph._elimination import transposed
from jaxhamel._lanes._graph._factoring import factored
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, node_numbers
from jaxhamel._lanes._own_primitive import batch_size, own_primitive


def pullback(function: Callable, x: Any, bars: Any) -> Any:
    """The cotangents of `x`, a pytree of floating-point arrays, from those of `function(x)`."""
    leaves, structure = jax.tree.flatten(x)

    def flat(*leaves):
        return jax.tree.leaves(function(jax.tree.unflatten(structure, leaves)))

    closed = jax.make_jaxpr(flat)(*leaves)
    jaxpr = closed.jaxpr.replace(
        constvars=[],
        invars=[*closed.jaxpr.constvars, *closed.jaxpr.invars],
        debug_info=closed.jaxpr.debug_info._replace(arg_names=None),
    )
    known, closed = _with_look_ups_first(ClosedJaxpr(jaxpr, ()), list(closed.consts))
    given = [*known, *leaves, *jax.tree.leaves(bars)]
    out = _pullback_p.bind(*given, closed=closed, fixed=len(known))
    return jax.tree.unflatten(structure, out)


def _with_look_ups_first(closed: ClosedJaxpr, known: list[Any]) -> tuple[list[Any], ClosedJaxpr]:
    """Runs look-ups in large tables before the primitive, if their positions do not depend on x.

    There the `lanes` around the primitive find these look-ups and take them out of the loop, too (`_divided`). Returns the
    captured values that are still needed, followed by the results of the look-ups, and the function of these values and x.
    """
    first = len(known)
    parts = divided(closed, [i >= first for i in range(len(closed.in_avals))])
    if parts is None or parts.of_lanes:
        return known, closed
    made, kept = parts.looked_up(known, [], 0), [i for i in parts.kept if i < first]

    def rest(*values):
        read = dict(zip(kept, values, strict=False))
        own = values[len(kept) + len(made) :]
        read.update(enumerate(own, first))
        return jaxpr_as_fun(parts.rest)(
            *(read[i] for i in parts.kept), *values[len(kept) :][: len(made)]
        )

    known = [known[i] for i in kept] + made
    return known, jax.make_jaxpr(rest)(*known, *closed.in_avals[first:])


def _plain(*values, closed, fixed):
    known, x, bars = _divided(values, closed, fixed)

    def moving(*x):
        return jaxpr_as_fun(closed)(*known, *x)

    return list(jax.vjp(moving, *x)[1](list(bars)))


def _divided(values, closed, fixed: int):
    """Splits the inputs of the primitive into values that the function captures, x and ȳ."""
    n = len(closed.in_avals)
    return values[:fixed], values[fixed:n], values[n:]


def _abstract(*values, closed, fixed):
    return [ShapedArray(x.shape, x.dtype) for x in values[fixed : len(closed.in_avals)]]


def _jvp(primals, tangents, **params):
    dense = tuple(map(ad.instantiate_zeros, tangents))
    return jax.jvp(lambda *x: _plain(*x, **params), primals, dense)


def _batch(values, axes, **params):
    size = batch_size(values, axes)
    out = jax.vmap(lambda *x: _plain(*x, **params), axes, axis_size=size)(*values)
    return out, [0] * len(out)


_pullback_p = own_primitive("pullback", run=_plain, abstract=_abstract, jvp=_jvp, batch=_batch)


def pullback_rule(graph: Graph, equation, interpret: Callable, *operands: Nodes) -> list[Nodes]:
    """The rule for a pullback: writes it out by elimination.

    If an operation of F′(x) ẋ is not known to be linear, JAX's transpose is written out instead.
    """
    params = equation.params
    try:
        return _by_elimination(graph, interpret, operands, **params)
    except (Unsupported, TypeError):  # TypeError: a `jax.custom_vjp` has no F′ẋ
        avals = [v.aval for v in equation.invars]
        plain = jax.make_jaxpr(lambda *values: _plain(*values, **params))(*avals)
        return interpret(graph, plain, list(operands))


def _by_elimination(graph: Graph, interpret, operands, *, closed, fixed: int) -> list[Nodes]:
    n = len(closed.in_avals)
    rates = _rates(closed, fixed)
    inner = _InnerGraph(graph)
    given = [inner.copies(x) for x in operands]
    along = [inner.tangents(x) for x in operands[fixed:n]]
    out = interpret(inner.graph, rates, [*given[:n], *along])
    return inner.cotangents(along, out, given[n:])


def _rates(closed, fixed: int) -> ClosedJaxpr:
    """The program (captured values, x, ẋ) ↦ F′(x) ẋ of forward mode. **Raises:** `Unsupported` if it contains a branch."""

    def along(*values):
        known, x, tangents = _divided(values, closed, fixed)
        return jax.jvp(lambda *x: jaxpr_as_fun(closed)(*known, *x), x, tangents)[1]

    found = jax.make_jaxpr(along)(*closed.in_avals, *closed.in_avals[fixed:])
    if _has_branches(found.jaxpr):
        # lanes compute all branches: a branch that is not taken may have an infinite factor, and 0 · ∞ is NaN
        raise Unsupported("the derivative of `cond`")
    return found


def _has_branches(jaxpr) -> bool:
    return any(
        equation.primitive.name == "cond"
        or any(map(_has_branches, jaxprs_in_params(equation.params)))
        for equation in jaxpr.eqns
    )


class _InnerGraph:
    """A second graph, whose inputs and constants are copies of nodes of an outer graph."""

    def __init__(self, outer: Graph):
        self.outer, self.graph = outer, Graph(outer.largest)
        self.graph.few = outer.few
        self.graph.axis = outer.axis
        self.given: dict[int, int] = {}  # node of the outer graph: its node in this graph

    def copies(self, nodes: Nodes) -> Nodes:
        return _each(nodes, self._copy_of)

    def _copy_of(self, i: int) -> int:
        if i not in self.given:
            node = self.outer.nodes[i]
            known = node.value is not None
            self.given[i] = (
                self.graph.constant(node.value)
                if known
                else self.graph.input(node.dtype, node.batched)
            )
            if i in self.outer.entries:
                self.graph.entries[self.given[i]] = self.outer.entries[i]
        return self.given[i]

    def tangents(self, nodes: Nodes) -> Nodes:
        """Adds a new input for the tangent of each of the nodes."""
        found = _each(nodes, lambda i: self.graph.input(self.outer.nodes[i].dtype, True))
        self.graph.mark(found, 0)
        return found

    def cotangents(self, along: list[Nodes], out: list[Nodes], bars: list[Nodes]) -> list[Nodes]:
        """The cotangents of the inputs `along`, as nodes of the outer graph.

        They are computed from `bars`, the cotangents of the results `out`.
        """
        starts, ends, known = node_numbers(along), node_numbers(out), node_numbers(bars)
        inputs = [i for i in self.given.values() if self.graph.value(i) is None]
        shorter, place = factored(self.graph, [*inputs, *starts], ends)
        shorter.entries = {place[i]: k for i, k in self.graph.entries.items() if i in place}
        for i in known:
            if i not in place:
                place[i] = shorter.constant(self.graph.value(i))
        pairs = [(place[i], place[bar]) for i, bar in zip(ends, known, strict=True)]
        found = transposed(shorter, [place[i] for i in starts], pairs)
        copies = iter(self._outer_copies(shorter, place, found))
        return [_each(x, lambda _: next(copies)) for x in along]

    def _outer_copies(self, inner: Graph, place: dict[int, int], ends: list[int]) -> list[int]:
        """Copies the nodes `ends` and their dependencies into the outer graph; returns the copies of `ends`."""
        there = {place[here]: i for i, here in self.given.items() if here in place}
        for i in inner.needed(ends):
            if i not in there:
                there[i] = self._copied(inner, i, there)
        return [there[i] for i in ends]

    def _copied(self, inner: Graph, i: int, there: dict[int, int]) -> int:
        node, first = inner.nodes[i], len(self.outer.nodes)
        if node.value is not None:
            return self.outer.constant(node.value)
        operands = [there[j] for j in node.operands]
        copy = self.outer.apply(node.primitive, operands, node.dtype, dict(node.params))
        if i in inner.entries and copy >= first:
            self.outer.entries.setdefault(copy, inner.entries[i])
        return copy


def _each(nodes: Nodes, of: Callable[[int], int]) -> Nodes:
    return np.array([of(i) for i in nodes.ravel().tolist()], dtype=int).reshape(nodes.shape)
