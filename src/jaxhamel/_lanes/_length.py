"""How long a function is, written out for lanes."""

from collections.abc import Callable, Sequence
from typing import Any

import jax

from jaxhamel._lanes._nodes import Unsupported
from jaxhamel._lanes._program import scalarise
from jaxhamel._lanes._transform import traced


def operations(f: Callable, batched: Sequence[bool], *arguments: Any) -> int:
    """About how many operations a processor does for one lane; 0 where the function cannot be written out.

    **Arguments:** `batched`: of which arguments the arrays have an axis of lanes in front.
    """
    leaves, structure = jax.tree.flatten(arguments)
    pairs = zip(batched, arguments, strict=True)
    varies = [of_lane for of_lane, each in pairs for _ in jax.tree.leaves(each)]

    def flat(*entries):
        return jax.tree.leaves(f(*jax.tree.unflatten(structure, entries)))

    closed, varies, _ = traced(flat, varies, leaves)
    try:
        return scalarise(closed, varies).length()
    except Unsupported:
        return 0
