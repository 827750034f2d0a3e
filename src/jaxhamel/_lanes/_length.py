"""A function written out for lanes: how long it is, and on what it depends."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax

from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._program import Program, scalarise
from jaxhamel._lanes._transform import traced


class Written(NamedTuple):
    """A program and the nodes of its arguments and of its results, leaf by leaf and number by number."""

    program: Program
    arguments: list[list[int]]
    results: list[list[int]]

    def needed(self, results: Sequence[int]) -> set[int]:
        """The nodes that these results depend on."""
        return set(self.program.graph.needed(results))


def written(f: Callable, batched: Sequence[bool], *arguments: Any) -> Written | None:
    """f of one lane; nothing where it cannot be written out.

    **Arguments:** `batched`: of which arguments the arrays have an axis of lanes in front.
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
    given = program.inputs[len(varies) - len(leaves) :]  # what it closes over comes first
    return Written(
        program, *([x.ravel().tolist() for x in nodes] for nodes in (given, program.outputs))
    )


def operations(f: Callable, batched: Sequence[bool], *arguments: Any) -> int:
    """About how many operations a processor does for one lane; 0 where the function cannot be written out."""
    found = written(f, batched, *arguments)
    return 0 if found is None else found.program.length()
