"""Runs the operations of a program that are not written out as arrays, between its scalar parts.

A factorisation of a large matrix is a *block*: the part of the program ahead of it computes its operands in lanes, XLA's
batched operation computes its results, and they are inputs of the parts after it. A part computes again what it shares with
the parts before it: mostly few operations, where passing all of them on would take a vector for each.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported
from jaxhamel._lapack import one_by_one


class TooLarge(Unsupported):
    """The arrays of an operation are too large for lanes to write it out as scalar operations."""


class Block(NamedTuple):
    """An operation on arrays: its equation and the nodes of its operands and results, which are inputs of the graph."""

    equation: Any
    operands: list[Nodes]
    results: list[Nodes]

    def __call__(self, operands: Sequence[Any], axes: Sequence[int | None], size: int) -> list:
        """The results of all lanes; `axes`: 0 for operands with a leading axis of lanes, None for shared ones."""
        primitive, params = self.equation.primitive, self.equation.params

        def of_one(*operands):
            out = primitive.bind(*operands, **params)
            return list(out) if primitive.multiple_results else [out]

        return list(jax.vmap(one_by_one(of_one), list(axes), axis_size=size)(*operands))

    def moved(self, place: Callable[[Nodes], Nodes]) -> "Block":
        return Block(self.equation, [*map(place, self.operands)], [*map(place, self.results)])


def block(graph: Graph, equation, operands: Sequence[Nodes]) -> list[Nodes]:
    """Adds a block to the graph and returns its results."""
    results = [
        np.array([graph.input(v.aval.dtype, True) for _ in range(v.aval.size)], dtype=int).reshape(
            v.aval.shape
        )
        for v in equation.outvars
    ]
    graph.blocks.append(Block(equation, list(operands), results))
    return results


def needed_blocks(graph: Graph, ends: Sequence[Nodes]) -> list[Block]:
    """The blocks on which the ends depend, in order."""
    found: list[Block] = []
    needed = set(graph.needed(_numbers(ends)))
    for each in reversed(graph.blocks):
        if not needed.isdisjoint(_numbers(each.results)):
            found.append(each)
            needed.update(graph.needed(_numbers(each.operands)))
    return found[::-1]


class LaneArray(NamedTuple):
    """An array with the nodes of its entries; `axis` is 0 if it has a leading axis of lanes, otherwise None."""

    nodes: Nodes
    value: Any
    axis: int | None


# (known arrays, nodes of the wanted arrays, their shapes and dtypes in one lane) -> the wanted arrays, with an axis of lanes
RunPart = Callable[[list[LaneArray], list[Nodes], list[Any]], Sequence[Any]]


def run_in_parts(
    known: list[LaneArray],
    blocks: Sequence[Block],
    outputs: list[Nodes],
    avals: list,
    run: RunPart,
    size: int,
) -> Sequence[Any]:
    """The outputs of a program with blocks; `run` computes a part without blocks."""
    for each in blocks:
        operands = _operands(known, each, run)
        results = each([x.value for x in operands], [x.axis for x in operands], size)
        pairs = zip(each.results, results, strict=True)
        known = known + [LaneArray(nodes, x, 0) for nodes, x in pairs]
    return run(known, outputs, avals)


def _operands(known: list[LaneArray], of: Block, run: RunPart) -> list[LaneArray]:
    """The operands of a block as lane arrays: those in `known` are taken from there, the others are computed."""
    avals = [v.aval for v in of.equation.invars]
    found = [_same(known, nodes) for nodes in of.operands]
    missing = [i for i, each in enumerate(found) if each is None]
    computed = (
        run(known, [of.operands[i] for i in missing], [avals[i] for i in missing])
        if missing
        else ()
    )
    for i, value in zip(missing, computed, strict=True):
        found[i] = LaneArray(of.operands[i], value, 0)
    return [each for each in found if each is not None]


def _same(known: list[LaneArray], wanted: Nodes) -> LaneArray | None:
    for each in known:
        if np.array_equal(each.nodes.ravel(), wanted.ravel()):
            lanes = each.value.shape[: 0 if each.axis is None else 1]
            return LaneArray(wanted, each.value.reshape(*lanes, *wanted.shape), each.axis)
    return None


def _numbers(arrays: Sequence[Nodes]) -> list[int]:
    return [i for nodes in arrays for i in nodes.ravel().tolist()]
