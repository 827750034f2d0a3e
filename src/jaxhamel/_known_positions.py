"""Compiles the integers of arrays, such as the pairs of masses that springs connect, into the program.

They are positions in other arrays. A known position takes no operation; one that is an input of the program takes a
selection for each place of the array: an ensemble of lattices with 25 masses moves 20 times as fast with known positions
(docs/performance.md#known-positions). Changing them compiles again; single integers, such as a number of turns, stay inputs.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel._lanes._divided._known_integers import MOST_INTEGERS


class KnownPositions(NamedTuple):
    """The integer arrays of a pytree whose values become constants of a compiled program.

    `of_leaves` has one entry for each leaf: the raw bytes of the array, or None for a leaf that stays an input.
    """

    of_leaves: tuple[bytes | None, ...]

    @classmethod
    def of(cls, tree: Any) -> "KnownPositions":
        """Finds arrays of integers that are concrete: those that are traced stay inputs."""
        return cls(tuple(map(positions_in, jax.tree.leaves(tree))))

    def with_constants(self, tree: Any) -> Any:
        """Returns the pytree in which each known array of integers is a constant instead of an input of the program."""
        leaves, structure = jax.tree.flatten(tree)
        pairs = zip(leaves, self.of_leaves, strict=True)
        return jax.tree.unflatten(structure, [x if y is None else array_of(x, y) for x, y in pairs])


def positions_in(leaf: Any) -> bytes | None:
    """The bytes of an array of signed integers with an axis and at most `MOST_INTEGERS` entries; None for any other leaf."""
    if not isinstance(leaf, jax.Array | np.ndarray) or not leaf.ndim or leaf.size > MOST_INTEGERS:
        return None
    if not np.issubdtype(leaf.dtype, np.signedinteger):
        return None
    value = _checks.concrete(leaf)
    return None if value is None else value.tobytes()


def array_of(leaf: Any, positions: bytes) -> jax.Array:
    """Restores an array from its raw bytes, with the shape and dtype of `leaf`.

    The result is a concrete array while a program is traced, too, so that tracing sees its integers.
    """
    with jax.ensure_compile_time_eval():
        return jnp.asarray(np.reshape(np.frombuffer(positions, leaf.dtype), leaf.shape))
