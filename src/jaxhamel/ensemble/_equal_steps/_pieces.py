"""A long interval of equal steps as pieces, so that reverse mode keeps √n states of n instead of all.

Of the motion forward the first state of each piece is kept; on the way back a piece is done once more, and the states of
its own steps are there only as long as it is gone through (Griewank, Optimization Methods and Software 1, 1992, with two
levels).
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

# Steps up to which an interval stays one: there is little to gain, and a loop in a loop to compile.
UNDIVIDED = 32


def in_pieces(advancing: Callable[[int], Callable], count: int, total: int) -> Callable:
    """(y, start, h, …) ↦ y after `count` steps of size h, from `advancing(n)` for n of them; `total` in all intervals."""
    length, rest = lengths(count, total)
    if length == count:
        return advancing(count)
    piece, last = advancing(length), advancing(rest) if rest else None

    def advance(y, start, h, *more):
        starts = start + h * (length * jnp.arange(count // length)).astype(h.dtype)
        y, _ = jax.lax.scan(lambda y, t: (tuple(piece(y, t, h, *more)), None), tuple(y), starts)
        if last is None:
            return y
        return last(y, start + h * h.dtype.type(count - rest), h, *more)

    return advance


def lengths(count: int, total: int) -> tuple[int, int]:
    """How many steps a piece has, and the last one where it has fewer: about √total, a divisor if there is one nearby.

    Each interval's first state is kept anyway: with many intervals none is divided.
    """
    root = math.sqrt(total)
    if count <= max(UNDIVIDED, root):
        return count, 0
    near = [n for n in range(math.ceil(root / 2), int(2 * root) + 1) if count % n == 0]
    best = min(near, key=lambda n: abs(math.log(n / root)), default=round(root))
    return best, count % best
