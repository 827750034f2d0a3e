"""The rule for the solution of M x = b where M x is given as a program: by the entries of M, or without them."""

from collections.abc import Callable
from typing import Any

import numpy as np

from jaxhamel._lanes._blocks import drop_blocks_that_read
from jaxhamel._lanes._graph._graph import Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, node_numbers
from jaxhamel._lanes._graph._primitive import Kind, Primitive
from jaxhamel._lanes._rules._linear_algebra import array_program, symmetric_solve
from jaxhamel._lanes._rules._sparse_factors import ProductEdges, SparseFactors, sparse_factors
from jaxhamel._lanes._solutions._operator_solve import NAME, matrix_program


def operator_solve(graph: Graph, equation, interpret: Callable, *operands: Nodes) -> list[Nodes]:
    """Solves M X = B by the elimination that takes fewer operations: with the entries of M or without them."""
    *constants, rhs = operands
    operator = equation.params["operator"]
    key = (id(operator), *node_numbers(constants))
    if key not in graph.factors:  # the operator is kept, since its identity is part of the key
        graph.factors[key] = operator, _factors(graph, interpret, operator, constants)
    factors = graph.factors[key][1]
    if factors is None:
        (matrix,) = interpret(graph, matrix_program(operator), constants)
        return symmetric_solve(graph, equation, matrix, rhs)
    columns = [factors.solution(column) for column in rhs.T.tolist()]
    return [np.array(columns, dtype=int).T.reshape(rhs.shape)]


def _factors(graph: Graph, interpret, operator, constants: list[Nodes]) -> SparseFactors | None:
    """The elimination without the entries of M; None if it is longer, or if an operation is not known to be linear.

    A block is one that is not, such as a large triangular solution with a right-hand side that depends on x.
    """
    x = operator.in_avals[-1]
    if not np.issubdtype(x.dtype, np.floating):
        return None
    starts = np.array([graph.input(x.dtype, True) for _ in range(x.size)], dtype=int)
    first = len(graph.blocks)
    (ends,) = interpret(graph, operator, [*constants, starts])
    if drop_blocks_that_read(starts, graph, first):
        return None
    try:
        edges = ProductEdges(graph, starts.tolist(), ends.tolist(), x.dtype)
    except Unsupported:
        return None
    return sparse_factors(edges)


def _executed(equation) -> list[tuple[Any, int]]:
    return [(equation.params["operator"], 1)]


OPERATOR_SOLVE: dict[str, Primitive] = {
    NAME: Primitive(
        Kind.LINEAR_ALGEBRA,
        operator_solve,
        nested=True,
        programs=array_program,
        executed=_executed,
        cpu_kernel=True,
    )
}
