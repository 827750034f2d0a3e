"""Arrays whose entries are nodes of a `Graph`, and one operation on each of their entries."""

import numpy as np
from jaxtyping import Int

from jaxhamel._lanes._graph._graph import Graph

Nodes = Int[np.ndarray, "..."]


class Unsupported(Exception):
    """A primitive, or a use of one, that has no rule; the message names it."""


def each(graph: Graph, primitive, dtype, *operands: Nodes, params: dict | None = None) -> Nodes:
    """The primitive on each entry of arrays that broadcast."""
    operands = tuple(np.broadcast_arrays(*operands))
    columns = zip(*(x.ravel().tolist() for x in operands), strict=True)
    nodes = [graph.apply(primitive, column, dtype, params) for column in columns]
    return np.array(nodes, dtype=int).reshape(operands[0].shape)


def along(axis: int, index) -> tuple:
    """What indexes one axis."""
    return (slice(None),) * axis + (index,)


def constant(graph: Graph, value, dtype) -> Nodes:
    """A number as an array without axes."""
    return np.array(graph.constant(np.asarray(value, dtype)))
