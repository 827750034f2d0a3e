"""Zeros and ones among the numbers that all trajectories share: part of the program, where they can be folded.

An axis along e₁ or a centre of mass on an axis of the body makes 0·x and 1·x of a third of the products of a right-hand
side. Which numbers are 0, 1 or −1 belongs to the program; their and all other values may change without compiling again, as
long as the same ones stay so.

Rolling ball with three masses, 65,536 lanes, RK4, trajectory-steps/s on one and two threads: 1.4e7 and 2.3e7 with every
shared number unknown, 2.9e7 and 4.5e7 so, 2.8e7 and 4.6e7 with all of them known (hand-written C beside it 2.7e7 and 4.6e7
to 5.2e7; one run each on two quiet cores). The operations of a step in the loop over the lanes go from 2,238 to 1,772, and
what it needs from outside from 64 values to 30.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks

# Longer arrays are tables: of them the program knows nothing.
_MOST = 64

_VALUES = np.array([0.0, 1.0, -1.0])
_UNKNOWN = len(_VALUES)


class Known(NamedTuple):
    """For each leaf which of its numbers are known, as indices into `_VALUES`; None where there is nothing to know."""

    of_leaves: tuple[bytes | None, ...]

    @classmethod
    def of(cls, leaves: Sequence[Any]) -> "Known":
        """Of what is no tracer: whatever is differentiated, mapped over or given to a `jit` stays a variable."""
        return cls(tuple(map(_codes, leaves)))

    def filled(self, leaves: Sequence[Any]) -> list:
        """The leaves with the numbers that are known as constants."""
        return [_filled(*each) for each in zip(leaves, self.of_leaves, strict=True)]


def _codes(leaf) -> bytes | None:
    if not isinstance(leaf, jax.Array | np.ndarray) or not 0 < leaf.size <= _MOST:
        return None
    value = _checks.concrete(leaf)
    if value is None or not np.issubdtype(value.dtype, np.floating):
        return None
    flat = np.ravel(value)
    codes = np.full(flat.shape, _UNKNOWN, np.uint8)
    for code, constant in enumerate(_VALUES):
        codes[flat == constant] = code
    codes[(flat == 0) & np.signbit(flat)] = _UNKNOWN  # 1/(-0.0) is another number
    return codes.tobytes() if np.any(codes != _UNKNOWN) else None


def _filled(leaf, codes: bytes | None):
    if codes is None:
        return leaf
    places = np.reshape(np.frombuffer(codes, np.uint8), leaf.shape)
    constants = np.append(_VALUES, 0).astype(leaf.dtype)[places]
    return jnp.where(places == _UNKNOWN, leaf, constants)
