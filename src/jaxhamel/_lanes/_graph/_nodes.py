"""Arrays whose entries are nodes of a `Graph`, and elementwise operations on them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int

if (
    TYPE_CHECKING
):  # the graph's module imports the elementwise primitives, and these import this module
    from jaxhamel._lanes._graph._graph import Graph

Nodes = Int[np.ndarray, "..."]


class Unsupported(Exception):
    """A primitive, or a use of one, that has no rule; the message names it."""


def each(graph: "Graph", primitive, dtype, *operands: Nodes, params: dict | None = None) -> Nodes:
    """Applies the primitive to each entry of arrays that broadcast."""
    operands = tuple(np.broadcast_arrays(*operands))
    columns = zip(*(x.ravel().tolist() for x in operands), strict=True)
    nodes = [graph.apply(primitive, column, dtype, params) for column in columns]
    return np.array(nodes, dtype=int).reshape(operands[0].shape)


def node_numbers(arrays: Iterable[Nodes]) -> list[int]:
    """The nodes of all arrays in one list."""
    return [i for nodes in arrays for i in nodes.ravel().tolist()]


def along(axis: int, index) -> tuple:
    """The index that selects `index` along one axis."""
    return (slice(None),) * axis + (index,)


def constant(graph: "Graph", value, dtype) -> Nodes:
    """The node of a constant, as an array without axes."""
    return np.array(graph.constant(np.asarray(value, dtype)))
