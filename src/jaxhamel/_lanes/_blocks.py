"""Runs operations on large arrays, which are not written out, between the scalar parts of a program.

A factorisation of a large matrix is a *block*: the part of the program before it computes its operands in lanes, XLA's
batched operation computes its results, and these are inputs of the parts after it. A value that two parts use is computed in
each of them: this takes few operations, whereas passing it on would take a vector in memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, node_numbers
from jaxhamel._lapack import one_by_one


class TooLarge(Unsupported):
    """The arrays of an operation are too large for lanes to write it out as scalar operations."""


# (operands, axis of the lanes in each operand, number of lanes) ↦ the results of all lanes. An axis is 0, or None if all
# lanes share the operand.
OfArrays = Callable[[Sequence[Any], Sequence[int | None], int], list]


class Block(NamedTuple):
    """An operation on arrays with the nodes of its operands and of its results; the results are inputs of the graph."""

    run: OfArrays
    operands: list[Nodes]
    results: list[Nodes]

    def renumbered(self, new_nodes: Callable[[Nodes], Nodes]) -> "Block":
        return Block(self.run, [*map(new_nodes, self.operands)], [*map(new_nodes, self.results)])


def block(graph: Graph, equation, operands: Sequence[Nodes]) -> list[Nodes]:
    """Adds the operation of an equation to the graph as a block, and returns its results."""
    return add_block(
        graph, partial(_run_equation, equation), operands, [v.aval for v in equation.outvars]
    )


def add_block(
    graph: Graph, run: OfArrays, operands: Sequence[Nodes], like: Sequence[Any]
) -> list[Nodes]:
    """Adds a block to the graph and returns its results, which have the shapes and dtypes of `like`."""
    results = [_new_inputs(graph, x) for x in like]
    graph.blocks.append(Block(run, list(operands), results))
    return results


def _new_inputs(graph: Graph, like: Any) -> Nodes:
    inputs = [graph.input(like.dtype, True) for _ in range(like.size)]
    return np.array(inputs, dtype=int).reshape(like.shape)


def _run_equation(equation, operands: Sequence[Any], axes: Sequence[int | None], size: int) -> list:
    primitive, params = equation.primitive, equation.params

    def of_one(*operands):
        out = primitive.bind(*operands, **params)
        return list(out) if primitive.multiple_results else [out]

    return list(jax.vmap(one_by_one(of_one), list(axes), axis_size=size)(*operands))


def needed_blocks(graph: Graph, ends: Sequence[Nodes]) -> list[Block]:
    """The blocks on which the nodes `ends` depend, in the order in which they run."""
    found: list[Block] = []
    needed = set(graph.needed(node_numbers(ends)))
    for each in reversed(graph.blocks):
        if not needed.isdisjoint(node_numbers(each.results)):
            found.append(each)
            needed.update(graph.needed(node_numbers(each.operands)))
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
    like: Callable[[Nodes], jax.ShapeDtypeStruct],
) -> Sequence[Any]:
    """Runs a program with blocks and returns its outputs.

    **Arguments:** `known`: the inputs; `avals`: shapes and dtypes of the outputs in one lane; `run`: computes a part without
    blocks; `like`: returns the shape and dtype of an array of nodes.
    """
    for each in blocks:
        operands = _operands(known, each, run, like)
        results = each.run([x.value for x in operands], [x.axis for x in operands], size)
        pairs = zip(each.results, results, strict=True)
        known = known + [LaneArray(nodes, x, 0) for nodes, x in pairs]
    return run(known, outputs, avals)


def _operands(
    known: list[LaneArray], of: Block, run: RunPart, like: Callable[[Nodes], jax.ShapeDtypeStruct]
) -> list[LaneArray]:
    """The operands of a block: those among the `known` arrays are taken from there, `run` computes the others."""
    found = [_known_array(known, nodes) for nodes in of.operands]
    missing = [i for i, each in enumerate(found) if each is None]
    for group in _grouped(missing, [x.size for x in of.operands]):
        nodes = [of.operands[i] for i in group]
        for i, value in zip(group, run(known, nodes, [*map(like, nodes)]), strict=True):
            found[i] = LaneArray(of.operands[i], value, 0)
    return [each for each in found if each is not None]


# The largest number of results of one loop for several operands of a block. A loop with more than `_one_loop.MOST_VALUES`
# results makes XLA end the process.
MOST_TOGETHER = 800


def _grouped(places: list[int], sizes: list[int]) -> list[list[int]]:
    """Groups consecutive places so that the arrays of a group have at most `MOST_TOGETHER` numbers in all.

    **Arguments:** `sizes`: the number of entries of the array at each place. An array with more than the limit is alone.
    """
    groups: list[list[int]] = []
    room = 0
    for i in places:
        if not groups or sizes[i] > room:
            groups.append([])
            room = MOST_TOGETHER
        groups[-1].append(i)
        room -= sizes[i]
    return groups


def _known_array(known: list[LaneArray], wanted: Nodes) -> LaneArray | None:
    for each in known:
        if np.array_equal(each.nodes.ravel(), wanted.ravel()):
            lanes = each.value.shape[: 0 if each.axis is None else 1]
            return LaneArray(wanted, each.value.reshape(*lanes, *wanted.shape), each.axis)
    return None
