"""Compiles zeros and ones among the shared numbers, and shared arrays of integers, into the program.

With an axis along e₁ or the centre of mass on a body axis, a third of the products in a right-hand side are by 0 or 1. So
shared entries that equal 0, 1 or −1 are constants of the program. Changing other values does not recompile; changing which
entries are 0 or ±1 does. It makes an ensemble of balls twice as fast (docs/performance.md#known-numbers). Integers are
positions in other arrays (`_known_positions`).
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import _checks
from jaxhamel._known_positions import array_of, positions_in

# Longer arrays are tables, whose entries are never compiled into the program.
_MOST = 64

_VALUES = np.array([0.0, 1.0, -1.0])
_UNKNOWN = len(_VALUES)


class Known(NamedTuple):
    """For each leaf the codes of its entries, indices into `_VALUES` or `_UNKNOWN`; the bytes of its integers; or None if
    nothing is known."""

    of_leaves: tuple[bytes | None, ...]

    @classmethod
    def of(cls, leaves: Sequence[Any]) -> "Known":
        """Finds known numbers in concrete arrays; inputs that are differentiated, mapped over or traced stay variables."""
        return cls(tuple(positions_in(x) or _codes(x) for x in leaves))

    def with_constants(self, leaves: Sequence[Any]) -> list[Any]:
        """The leaves with their known numbers as constants."""
        return [_with_constants(*each) for each in zip(leaves, self.of_leaves, strict=True)]


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
    codes[(flat == 0) & np.signbit(flat)] = _UNKNOWN  # 1/(−0) differs from 1/0
    return codes.tobytes() if np.any(codes != _UNKNOWN) else None


def _with_constants(leaf, codes: bytes | None):
    if codes is None:
        return leaf
    if np.issubdtype(leaf.dtype, np.integer):
        return array_of(leaf, codes)
    places = np.reshape(np.frombuffer(codes, np.uint8), leaf.shape)
    constants = np.append(_VALUES, 0).astype(leaf.dtype)[places]
    return jnp.where(places == _UNKNOWN, leaf, constants)
