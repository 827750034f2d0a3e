"""Translates a jaxpr into a program of scalar operations, and runs that program in JAX with one vector for each scalar."""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import jax
import numpy as np

from jaxhamel._lanes._blocks import TooLarge, block, needed_blocks
from jaxhamel._lanes._graph._elementwise import broadcast
from jaxhamel._lanes._graph._factoring import factored
from jaxhamel._lanes._graph._graph import MOST_SCALARS, Graph
from jaxhamel._lanes._graph._nodes import Nodes, Unsupported, node_numbers
from jaxhamel._lanes._graph._ranks import entries_axis
from jaxhamel._lanes._rules._own_definition import own_definition
from jaxhamel._lanes._rules._primitives import primitive_of
from jaxhamel._lanes._tracing import in_fusions
from jaxhamel._lanes._xla_cpu._cuts import CUT_ABOVE, one_at_run_time, shared_values
from jaxhamel._lanes._xla_cpu._one_loop import MOST_VALUES, one_loop_works, run_in_one_loop
from jaxhamel._lanes._xla_cpu._parts import length
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PROGRAM, cost, pieces
from jaxhamel._lanes._xla_cpu._prologue import prologue_in_one_kernel, split


class Program(NamedTuple):
    """A function of arrays as scalar operations: `inputs` and `outputs` are arrays of nodes."""

    graph: Graph
    inputs: list[Nodes]
    outputs: list[Nodes]

    def operations(self):
        """The number of scalar operations of each primitive, by its name."""
        return self.graph.operations(self._all_ends())

    def length(self) -> int:
        """An estimate of the number of processor operations in one lane."""
        nodes = (self.graph.nodes[i] for i in self.graph.needed(self._all_ends()))
        return sum(length(node) for node in nodes if node.primitive is not None)

    def ends(self) -> list[int]:
        """The nodes of all results."""
        return node_numbers(self.outputs)

    def _all_ends(self) -> list[int]:
        """The nodes of all results and of the operands of all blocks."""
        return self.ends() + [i for x in self.graph.blocks for i in node_numbers(x.operands)]

    def __call__(self, *inputs: list, inside: bool = False) -> list[list]:
        """Computes the entries of each output from those of each input: (B,) vectors, or scalars if nothing varies.

        `inside`: whether the program is part of a kernel.
        """
        values: dict[int, Any] = {}
        for nodes, entries in zip(self.inputs, inputs, strict=True):
            values.update(zip(nodes.ravel().tolist(), entries, strict=True))
        varies = any(self.graph.nodes[i].batched for i in self.ends())
        if varies and one_loop_works():
            self._in_one_loop(values, inside)
        else:
            self._one_by_one(values)
        return [[values[i] for i in nodes.ravel().tolist()] for nodes in self.outputs]

    def _in_one_loop(self, values: dict[int, Any], inside: bool) -> None:
        size = next(np.shape(x)[0] for i, x in values.items() if self.graph.nodes[i].batched)
        parts = split(self.graph, self.ends())
        if not self._fits(parts):
            return self._one_by_one(values)
        if not prologue_in_one_kernel(self.graph, parts, values):
            self._compute(parts.before, values, set(), None)
        values.update(run_in_one_loop(self.graph, parts, values, size, inside))

    def _fits(self, parts) -> bool:
        """Whether no loop has more inputs or results than XLA takes: one that reads the weights of a network may have."""

        def most(x):
            return max(len(x.given), len(x.results))

        return most(parts) <= MOST_VALUES or all(
            most(piece) <= MOST_VALUES for piece in pieces(self.graph, parts)
        )

    def _one_by_one(self, values: dict[int, Any]) -> None:
        cuts = shared_values(self.graph, self.ends(), CUT_ABOVE)
        # from a vector over the lanes, since XLA may know that a shared number, such as the time, is finite
        columns = (x for x in values.values() if np.ndim(x))
        one = one_at_run_time(next(columns)) if cuts else None
        self._compute(self.graph.needed(self.ends()), values, cuts, one)

    def _compute(self, nodes: list[int], values: dict[int, Any], cuts: set[int], one) -> None:
        for i in nodes:
            node = self.graph.nodes[i]
            if node.primitive is not None:
                operands = broadcast(node, [values[j] for j in node.operands])
                values[i] = node.primitive.bind(*operands, **dict(node.params))
                values[i] = values[i] / one if i in cuts else values[i]
            elif node.value is not None:
                values[i] = node.value


def scalarise(
    closed_jaxpr,
    batched: list[bool],
    largest: int = MOST_SCALARS,
    *,
    whole: bool = False,
    blocks: bool = False,
    few: bool = False,
    loops: bool = False,
) -> Program:
    """Writes a jaxpr out as scalar operations; `batched` marks the inputs that vary from lane to lane.

    `whole`: the program will not be cut into several loops. `blocks`: operations that are too large may stay operations on
    arrays (`_blocks`); the program then has to be run in parts. `few`: it runs for a few lanes, in one kernel.
    `loops`: loops that are not written out may become blocks, too.

    **Raises:** `Unsupported`, naming a primitive without a rule, or if there are more scalars than `largest`.
    """
    fused = in_fusions() and not few
    kept, key = _derived_programs(closed_jaxpr), (tuple(batched), whole, blocks, fused, few, loops)
    if key not in kept:
        graph = Graph(largest)
        graph.axis, graph.takes_blocks = entries_axis(closed_jaxpr), blocks
        graph.fused, graph.few, graph.keeps_loops = fused, few, loops
        pairs = zip(closed_jaxpr.in_avals, batched, strict=True)
        inputs = [new_input(graph, aval, varies) for aval, varies in pairs]
        program = Program(graph, inputs, _interpret(graph, closed_jaxpr, inputs))
        kept[key] = _Kept(_factored(program, whole, few), len(graph.nodes))
    if kept[key].scalars > largest:
        raise Unsupported(f"more than {largest} scalars")
    return kept[key].program


class _Kept(NamedTuple):
    """A program, and its number of scalars before common factors were taken out."""

    program: Program
    scalars: int


# The latest programs, by their jaxpr. Each is needed twice: for its number of operations, and when it is compiled.
_KEPT: WeakKeyDictionary[Any, dict[Any, _Kept]] = WeakKeyDictionary()
_MOST_KEPT = 16


def _derived_programs(closed_jaxpr) -> dict[Any, _Kept]:
    if len(_KEPT) >= _MOST_KEPT and closed_jaxpr not in _KEPT:
        _KEPT.clear()
    return _KEPT.setdefault(closed_jaxpr, {})


def with_common_factors(program: Program) -> Program:
    """A program with common factors taken out of sums (`_factoring`); it is not to be cut into several loops."""
    return _with_factors(program, collect=True)


def _factored(program: Program, whole: bool, few: bool) -> Program:
    shorter = _with_factors(program, collect=True)
    if few and any(not program.graph.nodes[i].batched for i in node_numbers(program.inputs)):
        # products of parameters, which many lanes compute once, are operations as all others for one lane
        return min(shorter, _with_factors(program, collect=False), key=Program.length)
    if whole or shorter.graph.blocks or shorter.length() <= LONGEST_PROGRAM:
        return shorter
    # This program is cut into loops, which with `collect` would have to pass lane-independent sums on to one another.
    return min(_with_factors(program, collect=False), program, key=_cost_of_program)


def _with_factors(program: Program, collect: bool) -> Program:
    """The program with common factors taken out of sums (`_factoring`)."""
    blocks = needed_blocks(program.graph, program.outputs)
    results = [nodes for each in blocks for nodes in each.results]
    operands = [nodes for each in blocks for nodes in each.operands]
    starts, ends = (
        node_numbers([*program.inputs, *results]),
        node_numbers([*program.outputs, *operands]),
    )
    graph, place = factored(program.graph, starts, ends, collect)

    def new_nodes(nodes):
        return np.array([place[i] for i in nodes.ravel().tolist()], dtype=int).reshape(nodes.shape)

    graph.entries = {place[i]: k for i, k in program.graph.entries.items() if i in place}
    graph.blocks = [each.renumbered(new_nodes) for each in blocks]
    return Program(graph, [*map(new_nodes, program.inputs)], [*map(new_nodes, program.outputs)])


def _cost_of_program(program: Program) -> float:
    graph, ends = program.graph, program.ends()
    return cost(graph, pieces(graph, split(graph, ends)))


def new_input(graph: Graph, aval, varies) -> Nodes:
    """Adds an input to the graph and returns its nodes; `varies`: whether it varies from lane to lane."""
    _check_array(aval)
    nodes = [graph.input(aval.dtype, varies) for _ in range(int(np.prod(aval.shape, dtype=int)))]
    return np.array(nodes, dtype=int).reshape(aval.shape)


def _check_array(aval) -> None:
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended):
        raise Unsupported(f"values of dtype {aval.dtype}")


def as_constants(graph: Graph, value) -> Nodes:
    """Adds the entries of a known array to the graph and returns their nodes."""
    _check_array(jax.typeof(value))
    value = np.asarray(value)
    nodes = [graph.constant(entry) for entry in value.ravel()]
    return np.array(nodes, dtype=int).reshape(value.shape)


def _interpret(graph: Graph, closed_jaxpr, inputs: list[Nodes]) -> list[Nodes]:
    """Writes out all equations of a jaxpr and returns the nodes of its results; `inputs`: the nodes of its inputs."""
    jaxpr = closed_jaxpr.jaxpr
    nodes = dict(zip(jaxpr.invars, inputs, strict=True))
    constants = (as_constants(graph, value) for value in closed_jaxpr.consts)
    nodes.update(zip(jaxpr.constvars, constants, strict=True))

    def read(v):
        return as_constants(graph, v.val) if hasattr(v, "val") else nodes[v]

    for equation in jaxpr.eqns:
        operands, first = [read(v) for v in equation.invars], len(graph.nodes)
        # a rule may return a single node in place of an array of nodes
        out = [*map(np.asarray, write_equation(graph, equation, operands))]
        for each in out:
            graph.mark(each, first)
        nodes.update(zip(equation.outvars, out, strict=True))
    return [read(v) for v in jaxpr.outvars]


def write_equation(graph: Graph, equation, operands) -> list[Nodes]:
    """Writes out an equation and returns the nodes of its results.

    **Raises:** `Unsupported`, naming a primitive without a rule, or if there are too many scalars.
    """
    record = primitive_of(equation)
    if graph.alone and record.of_one is not None:
        return record.of_one(graph, equation, _interpret, *operands)
    if record.rule is None:
        definition = own_definition(equation)
        if definition is None:
            raise Unsupported(f"the primitive `{equation.primitive.name}`")
        return _interpret(graph, definition, list(operands))
    if record.nested:
        return record.rule(graph, equation, _interpret, *operands)
    if any(
        size > graph.largest
        for size in (len(graph.nodes), *(v.aval.size for v in equation.outvars))
    ):
        raise Unsupported(f"more than {graph.largest} scalars")
    try:
        return record.rule(graph, equation, *operands)
    except TooLarge:
        if not graph.takes_blocks:
            raise
        return block(graph, equation, operands)
