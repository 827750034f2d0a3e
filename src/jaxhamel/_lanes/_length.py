"""Length and dependencies of a function that is written out for lanes."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import Program, scalarise
from jaxhamel._lanes._transform import traced


class Written(NamedTuple):
    """A program with the nodes of its arguments and results, one list for each leaf, one node for each number."""

    program: Program
    arguments: list[list[int]]
    results: list[list[int]]

    def needed(self, results: Sequence[int]) -> set[int]:
        """The nodes that these results depend on."""
        return set(self.program.graph.needed(results))


def written(f: Callable, batched: Sequence[bool], *arguments: Any) -> Written | None:
    """Writes f out for one lane; returns None if f contains a primitive without a rule.

    **Arguments:** `batched`: for each argument, whether its arrays have a leading axis of lanes.
    """
    leaves, structure = jax.tree.flatten(arguments)
    pairs = zip(batched, arguments, strict=True)
    varies = [of_lane for of_lane, each in pairs for _ in jax.tree.leaves(each)]

    def flat(*entries):
        return jax.tree.leaves(f(*jax.tree.unflatten(structure, entries)))

    closed, varies, _ = traced(flat, varies, leaves)
    try:
        program = scalarise(closed, varies)
    except Unsupported:
        return None
    given = program.inputs[len(varies) - len(leaves) :]  # captured values come first
    return Written(
        program, *([x.ravel().tolist() for x in nodes] for nodes in (given, program.outputs))
    )


def operations(f: Callable, batched: Sequence[bool], *arguments: Any) -> int:
    """An estimate of the operations that a processor does for one lane; 0 if the function cannot be written out."""
    found = written(f, batched, *arguments)
    return 0 if found is None else found.program.length()
