"""Writes a function out for one lane, to find its number of operations and which results depend on which arguments."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax.extend.core import ClosedJaxpr

from jaxhamel._lanes._divided._array_parts import array_parts
from jaxhamel._lanes._divided._look_ups import divided
from jaxhamel._lanes._graph._nodes import Unsupported, node_numbers
from jaxhamel._lanes._program import Program, scalarise
from jaxhamel._lanes._run_batch import traced
from jaxhamel._lanes._tracing import in_fusions


class Written(NamedTuple):
    """A program with the nodes of its arguments and results, one list for each leaf, one node for each number.

    - `arguments`: the list of a leaf is empty if no scalar operation reads that leaf.
    - `look_ups`: the number of scalars that all look-ups return.
    - `apart`: the operations of look-ups and array parts (`_divided`), which the program does not contain.
    """

    program: Program
    arguments: list[list[int]]
    results: list[list[int]]
    look_ups: int
    apart: "Apart"

    @property
    def length(self) -> int:
        """Estimates the number of operations for one lane, those on arrays included."""
        return self.program.length() + self.apart.operations

    def leaves_read(self, results: Sequence[int]) -> set[int]:
        """The indices of the arguments' leaves that these results depend on."""
        found = set(self.program.graph.needed(results))
        leaves = set()
        if not found.isdisjoint(self.apart.made):
            found |= set(self.program.graph.needed(self.apart.operands))
            leaves |= self.apart.leaves
        return leaves | {i for i, nodes in enumerate(self.arguments) if not found.isdisjoint(nodes)}


class Apart(NamedTuple):
    """Operations outside a scalar program: the nodes of their results `made` and of their scalar `operands`, the indices of
    the leaves that they read themselves, and the number of `operations` on arrays, 0 if there is no array part."""

    made: set[int]
    operands: list[int]
    leaves: set[int]
    operations: int


def written_out(f: Callable, batched: Sequence[bool], *arguments: Any) -> Written | None:
    """Writes f out for one lane; returns None if f contains a primitive without a rule.

    **Arguments:** `batched`: for each argument, whether its arrays have a leading axis of lanes.
    """
    leaves, structure = jax.tree.flatten(arguments)
    pairs = zip(batched, arguments, strict=True)
    varies = [of_lane for of_lane, each in pairs for _ in jax.tree.leaves(each)]
    sizes = [len(x) for x, of_lane in zip(leaves, varies, strict=True) if of_lane]

    def flat(*entries):
        return jax.tree.leaves(f(*jax.tree.unflatten(structure, entries)))

    closed, varies, _ = traced(flat, varies, leaves)
    try:
        return _written(closed, varies, len(leaves), max(sizes, default=1))
    except Unsupported:
        return None


# In place of the index of an input: a result of a look-up, or of an array part.
_LOOKED_UP, _OF_ARRAYS = -1, -2


def _written(closed: ClosedJaxpr, varies: list[bool], arguments: int, size: int) -> Written:
    """Writes a jaxpr out for one lane, as `written_out` does with a function.

    Its last inputs, `arguments` in number, are the leaves of the function's arguments; those before are captured values.
    """
    count, origins, apart = len(closed.out_avals), list(range(len(varies))), set()
    captured, operations = len(varies) - arguments, 0
    look_ups = divided(closed, varies)
    if look_ups is not None:
        apart.update(look_ups.given if look_ups.of_lanes else ())
        closed, varies = look_ups.rest, look_ups.flags(varies)
        origins = look_ups.kept + [_LOOKED_UP] * (len(varies) - len(look_ups.kept))
    arrays = array_parts(closed, varies, size)
    if arrays is not None:
        scalars, operations = arrays.scalars, arrays.operations
        apart.update(origins[i] for i in scalars.read)
        closed = scalars.program
        varies = [varies[i] for i in scalars.kept] + [True] * scalars.made
        origins = [origins[i] for i in scalars.kept] + [_OF_ARRAYS] * scalars.made
    program = scalarise(closed, varies, whole=in_fusions())
    pairs = list(zip(origins, program.inputs, strict=True))
    of_inputs = {i: nodes.ravel().tolist() for i, nodes in pairs if i >= 0}
    made = {
        i: node_numbers(nodes for j, nodes in pairs if j == i) for i in (_LOOKED_UP, _OF_ARRAYS)
    }
    operands = node_numbers(program.outputs[count:])
    leaves = {i - captured for i in apart if i >= captured}
    return Written(
        program._replace(outputs=program.outputs[:count]),
        [of_inputs.get(i, []) for i in range(captured, captured + arguments)],
        _numbers_of_each(program.outputs[:count]),
        len(made[_LOOKED_UP]),
        Apart({*made[_LOOKED_UP], *made[_OF_ARRAYS]}, operands, leaves, operations),
    )


def _numbers_of_each(arrays: Sequence[Any]) -> list[list[int]]:
    return [x.ravel().tolist() for x in arrays]


def estimated_operations(f: Callable, batched: Sequence[bool], *arguments: Any) -> int:
    """An estimate of the number of processor operations of f in one lane; 0 if f cannot be written out."""
    found = written_out(f, batched, *arguments)
    return 0 if found is None else found.length
