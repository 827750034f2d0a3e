"""Runs operations that are not written out between the scalar parts of a program.

A factorisation of a large matrix is a *block*: the part of the program before it computes its operands in lanes, XLA's
batched operation computes its results, and these are inputs of the parts after it. A loop that is not written out is a
block, too (`_divided/_kept_loops`). A value that two parts use is computed in each of them: this takes few operations,
whereas passing it on would take a vector in memory.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._lanes._divided._kept_loops import RunInLanes
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, node_numbers
from jaxhamel._lapack import one_by_one


class TooLarge(Unsupported):
    """The arrays of an operation are too large for lanes to write it out as scalar operations."""


# (operands, axis of the lanes in each operand, number of lanes, how to run a program in lanes) ↦ the results of all lanes.
# An axis is 0, or None if all lanes share the operand. A result has an axis of lanes if its nodes vary from lane to lane.
OfArrays = Callable[[Sequence[Any], Sequence[int | None], int, RunInLanes], list]


class Block(NamedTuple):
    """An operation on arrays with the nodes of its operands and of its results; the results are inputs of the graph.

    `is_loop`: whether it is a loop that is not written out.
    """

    run: OfArrays
    operands: list[Nodes]
    results: list[Nodes]
    is_loop: bool = False

    @property
    def is_wide(self) -> bool:
        """Whether it is a loop that runs under `vmap`, since a turn has too many numbers."""
        return self.is_loop and getattr(self.run, "func", None) is run_equation

    def renumbered(self, new_nodes: Callable[[Nodes], Nodes]) -> "Block":
        operands, results = [*map(new_nodes, self.operands)], [*map(new_nodes, self.results)]
        return self._replace(operands=operands, results=results)


def block(graph: Graph, equation, operands: Sequence[Nodes]) -> list[Nodes]:
    """Adds the operation of an equation to the graph as a block, and returns its results."""
    return add_block(
        graph, partial(run_equation, equation), operands, [v.aval for v in equation.outvars]
    )


def add_block(
    graph: Graph,
    run: OfArrays,
    operands: Sequence[Nodes],
    like: Sequence[Any],
    varies: Sequence[bool] | None = None,
    is_loop: bool = False,
) -> list[Nodes]:
    """Adds a block to the graph and returns its results, which have the shapes and dtypes of `like`.

    `varies`: whether each result varies from lane to lane; by default all do.
    """
    flags = [True] * len(like) if varies is None else varies
    results = [_new_inputs(graph, *each) for each in zip(like, flags, strict=True)]
    graph.blocks.append(Block(run, list(operands), results, is_loop))
    return results


def drop_blocks_that_read(nodes: Nodes, graph: Graph, first: int) -> bool:
    """Removes the blocks from number `first` on whose operands depend on `nodes`; returns whether there are any."""
    reached, kept = set(node_numbers([nodes])), []
    for each in graph.blocks[first:]:
        if reached.isdisjoint(graph.needed(node_numbers(each.operands))):
            kept.append(each)
        else:
            reached.update(node_numbers(each.results))
    found = len(kept) < len(graph.blocks) - first
    graph.blocks[first:] = kept
    return found


def _new_inputs(graph: Graph, like: Any, varies: bool) -> Nodes:
    inputs = [graph.input(like.dtype, varies) for _ in range(like.size)]
    return np.array(inputs, dtype=int).reshape(like.shape)


def run_equation(
    equation, operands: Sequence[Any], axes: Sequence[int | None], size: int, in_lanes: RunInLanes
) -> list:
    """Runs an equation under `vmap`; the results have an axis of lanes."""
    del in_lanes
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


class PartRunner(NamedTuple):
    """Runs the parts of a program between and within its operations on arrays, for `size` lanes.

    `run`: computes a part without blocks; `in_lanes`: runs a program in lanes, such as a turn of a loop.
    """

    graph: Graph
    run: RunPart
    in_lanes: RunInLanes
    size: int

    def varies(self, nodes: Nodes) -> bool:
        return any(self.graph.nodes[i].batched for i in nodes.ravel().tolist())

    def like(self, nodes: Nodes) -> jax.ShapeDtypeStruct:
        """The shape and dtype of an array of nodes."""
        return jax.ShapeDtypeStruct(nodes.shape, self.graph.nodes[nodes.flat[0]].dtype)

    def of_all_lanes(self, x: LaneArray) -> Any:
        """The value of an array with an axis of lanes."""
        if x.axis == 0:
            return x.value
        return jnp.broadcast_to(x.value, (self.size, *jnp.shape(x.value)))

    def constant(self, nodes: Nodes) -> np.ndarray | None:
        """The array of these nodes if they are all constants."""
        values = [self.graph.value(i) for i in nodes.ravel().tolist()]
        if any(x is None for x in values):
            return None
        return np.array(values, self.like(nodes).dtype).reshape(nodes.shape)


def run_in_parts(
    known: list[LaneArray],
    blocks: Sequence[Block],
    outputs: list[Nodes],
    avals: list,
    parts: PartRunner,
) -> Sequence[Any]:
    """Runs a program with blocks and returns its outputs.

    **Arguments:** `known`: the inputs; `avals`: shapes and dtypes of the outputs in one lane.
    """
    for each in blocks:
        operands = _operands(known, each, parts)
        values, axes = [x.value for x in operands], [x.axis for x in operands]
        results = each.run(values, axes, parts.size, parts.in_lanes)
        known = known + [
            LaneArray(nodes, x, 0 if nodes.size and parts.varies(nodes) else None)
            for nodes, x in zip(each.results, results, strict=True)
        ]
    if not blocks:
        return parts.run(known, outputs, avals)
    found = [_known_array(known, nodes) for nodes in outputs]
    missing = [i for i, x in enumerate(found) if x is None]
    computed = [outputs[i] for i in missing], [avals[i] for i in missing]
    rest = iter(parts.run(known, *computed) if missing else ())
    return [next(rest) if x is None else parts.of_all_lanes(x) for x in found]


def _operands(known: list[LaneArray], of: Block, parts: PartRunner) -> list[LaneArray]:
    """The operands of a block: those among the `known` arrays, and constants, are taken as they are; others are computed."""
    found = [_known_array(known, nodes) or _constant(parts, nodes) for nodes in of.operands]
    missing = [i for i, each in enumerate(found) if each is None]
    varies = {i: parts.varies(of.operands[i]) for i in missing}
    for own in (True, False):
        places = [i for i in missing if varies[i] is own]
        for group in _grouped(places, [x.size for x in of.operands]):
            nodes = [of.operands[i] for i in group]
            computed = parts.run(known, nodes, [*map(parts.like, nodes)])
            for i, value in zip(group, computed, strict=True):
                shared = LaneArray(of.operands[i], value[0], None)
                found[i] = LaneArray(of.operands[i], value, 0) if own else shared
    return [each for each in found if each is not None]


def _constant(parts: PartRunner, nodes: Nodes) -> LaneArray | None:
    """The array of these nodes if they are all constants. An array without entries may be of any dtype."""
    value = parts.constant(nodes) if nodes.size else np.zeros(nodes.shape)
    return None if value is None else LaneArray(nodes, value, None)


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
    for each in known if wanted.size else ():
        if np.array_equal(each.nodes.ravel(), wanted.ravel()):
            lanes = each.value.shape[: 0 if each.axis is None else 1]
            return LaneArray(wanted, each.value.reshape(*lanes, *wanted.shape), each.axis)
    return None
