"""Writes a function out for one lane, to find its number of operations and which results depend on which arguments."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._look_ups import divided
from jaxhamel._lanes._program import Program, scalarise
from jaxhamel._lanes._transform import traced


class Written(NamedTuple):
    """A program with the nodes of its arguments and results, one list for each leaf, one node for each number.

    - `arguments`: the list of a leaf is empty if only look-ups in tables read that leaf.
    - `look_ups`: the number of scalars that all look-ups return.
    - `products_stay`: whether f has products with large shared matrices; here they are written out, in many lanes they stay
      products of matrices.
    """

    program: Program
    arguments: list[list[int]]
    results: list[list[int]]
    look_ups: int
    products_stay: bool

    def needed(self, results: Sequence[int]) -> set[int]:
        """The nodes that these results depend on."""
        return set(self.program.graph.needed(results))


def written_out(f: Callable, batched: Sequence[bool], *arguments: Any) -> Written | None:
    """Writes f out for one lane; returns None if f contains a primitive without a rule.

    **Arguments:** `batched`: for each argument, whether its arrays have a leading axis of lanes.
    """
    leaves, structure = jax.tree.flatten(arguments)
    pairs = zip(batched, arguments, strict=True)
    varies = [of_lane for of_lane, each in pairs for _ in jax.tree.leaves(each)]

    def flat(*entries):
        return jax.tree.leaves(f(*jax.tree.unflatten(structure, entries)))

    closed, varies, _ = traced(flat, varies, leaves)
    parts = divided(closed, varies)
    rest, flags = (closed, varies) if parts is None else (parts.rest, parts.flags(varies))
    try:
        program = scalarise(rest, flags)
    except Unsupported:
        return None
    places = list(range(len(varies))) if parts is None else parts.kept
    known = dict(zip(places, program.inputs, strict=False))
    made = sum(x.size for x in program.inputs[len(places) :])
    none = np.zeros(0, int)
    captured = len(varies) - len(leaves)
    given = [known.get(i, none) for i in range(captured, len(varies))]
    stay = program.graph.large_products
    return Written(program, _numbers_of_each(given), _numbers_of_each(program.outputs), made, stay)


def _numbers_of_each(arrays: Sequence[Any]) -> list[list[int]]:
    return [x.ravel().tolist() for x in arrays]


def estimated_operations(f: Callable, batched: Sequence[bool], *arguments: Any) -> int:
    """An estimate of the number of processor operations of f in one lane; 0 if f cannot be written out."""
    found = written_out(f, batched, *arguments)
    return 0 if found is None else found.program.length()
