"""A program of scalars as a graph: one node for each value, equal nodes merged, constants folded while it is built."""

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from jaxhamel._lanes._graph._complex import in_real_parts
from jaxhamel._lanes._graph._elementwise import SCALARS
from jaxhamel._lanes._graph._primitive import Primitive

# Beyond this many scalars a program takes too long to compile.
MOST_SCALARS = 100_000


class Node(NamedTuple):
    """One scalar: an operation on other nodes, or an input or a constant, which have no `primitive`."""

    primitive: Any
    params: tuple
    operands: tuple[int, ...]
    dtype: np.dtype
    batched: bool
    value: Any = None  # the value of a constant; None for other nodes


@cache
def _usual_params(name: str) -> dict:
    """The parameters that JAX gives an operation by default (`out_dtype` of a product, for example)."""
    record = SCALARS[name]
    function = record.function or getattr(lax, name)
    return dict(jax.make_jaxpr(function)(*record.arguments).eqns[0].params)


class Graph:
    """Nodes in an order in which they can be computed; an operation that the graph has already is not added again.

    Two operations are the same if their primitives, parameters and operands are the same; the operands of a commutative
    operation may come in any order.
    """

    def __init__(self, largest: int = MOST_SCALARS):
        self.largest = largest
        self.nodes: list[Node] = []
        self.axis: int | None = None  # length of the long axis, see `_ranks`
        self.entries: dict[int, int] = {}  # index along that axis, by node
        self.cut: Any = None  # cache of `_pieces`: the program that was cut last, and its pieces
        self.blocks: list[Any] = []  # operations on arrays, see `_blocks`
        self.takes_blocks = False  # whether operations on large arrays may become blocks
        self.keeps_loops = False  # whether loops that are not written out become blocks
        self.fused = False  # whether the program is compiled as fusions over many lanes
        self.few = False  # whether the program runs for a few lanes, in one kernel
        self.alone = False  # whether the program runs for one lane, after `vmap` was applied to it
        self.has_complex = False  # whether a node is complex
        self.numbers: dict[int, Any] = {}  # the values of constants that are not Booleans, by node
        self.factors: dict[Any, Any] = {}  # eliminations, see `_rules/_operator_solve.py`
        self._known: dict[Any, int] = {}

    def mark(self, nodes: np.ndarray, first: int) -> None:
        """Records, for each node of an array from number `first` on, its index along the long axis.

        Nodes with smaller numbers are older and keep the index that they have.
        """
        if not nodes.size or self.axis not in nodes.shape or np.max(nodes) < first:
            return
        place = np.indices(nodes.shape)[nodes.shape.index(self.axis)]
        for node, entry in zip(nodes.ravel().tolist(), place.ravel().tolist(), strict=True):
            if node >= first:
                self.entries.setdefault(node, entry)

    def input(self, dtype, batched: bool) -> int:
        return self._append(Node(None, (), (), np.dtype(dtype), batched))

    def constant(self, value) -> int:
        value = np.asarray(value)[()]
        key = (value.dtype, value.tobytes())  # by bits: 0 and −0 differ
        if key not in self._known:
            self._known[key] = node = self._append(Node(None, (), (), value.dtype, False, value))
            if value.dtype != np.bool_:
                self.numbers[node] = value.item() if isinstance(value, np.generic) else value
        return self._known[key]

    def value(self, node: int):
        """The value of a constant; None for any other node."""
        return self.nodes[node].value

    def negated(self, node: int) -> int | None:
        """x if the node is −x, else None."""
        found = self.nodes[node]
        return found.operands[0] if found.primitive is lax.neg_p else None

    def apply(self, primitive, operands: Iterable[int], dtype, params: dict | None = None) -> int:
        """Returns the node of an elementwise operation: a constant, a simpler node, an existing node, or a new one."""
        record = SCALARS[primitive.name]
        if record.same_as is not None:
            return self.apply(record.same_as, operands, dtype)
        params = _usual_params(primitive.name) if params is None else params
        operands, dtype = tuple(operands), np.dtype(dtype)
        found = self._folded(record, operands, dtype, params)
        if found is None and (self.has_complex or dtype.kind == "c"):
            found = in_real_parts(self, primitive.name, operands, dtype, params)
        if found is None and record.simplify is not None:
            found = record.simplify(self, operands, dtype, params)
        return self.interned(primitive, operands, dtype, params) if found is None else found

    def _folded(self, record: Primitive, operands, dtype, params):
        values = []
        for i in operands:  # for most operations the first operand without a value ends the loop
            value = self.nodes[i].value
            if value is None:
                return None
            values.append(value)
        if record.fold is None:
            return None
        with np.errstate(all="ignore"):
            return self.constant(np.asarray(record.fold(*values, **params), dtype=dtype))

    def interned(self, primitive, operands, dtype, params: dict | None = None) -> int:
        """The node of an operation that is not simplified: one that exists already, or a new one."""
        if SCALARS[primitive.name].commutes and operands[0] > operands[1]:
            operands = operands[::-1]
        given = tuple(sorted(params.items())) if params else ()
        key = (primitive.name, given, operands, dtype)
        found = self._known.get(key)
        if found is None:
            batched = any(self.nodes[i].batched for i in operands)
            found = self._known[key] = self._append(
                Node(primitive, given, operands, dtype, batched)
            )
        return found

    def _append(self, node: Node) -> int:
        self.nodes.append(node)
        self.has_complex = self.has_complex or node.dtype.kind == "c"
        return len(self.nodes) - 1

    def needed(self, outputs: Iterable[int]) -> list[int]:
        """The nodes on which the outputs depend, in order; all others are dead."""
        alive, waiting = set(), list(outputs)
        while waiting:
            node = waiting.pop()
            if node not in alive:
                alive.add(node)
                waiting.extend(self.nodes[node].operands)
        return sorted(alive)

    def operations(self, outputs: Iterable[int]) -> Counter:
        """For each primitive, by name, the number of its operations on which the outputs depend."""
        needed = (self.nodes[i].primitive for i in self.needed(outputs))
        return Counter(primitive.name for primitive in needed if primitive is not None)
