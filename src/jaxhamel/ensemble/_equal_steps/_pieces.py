"""Divides a long interval of equal steps into pieces, so that reverse mode stores √n states instead of n.

The forward pass stores the first state of each piece. The backward pass recomputes one piece at a time, whose states are
in memory only then (checkpointing with two levels: Griewank, Optimization Methods and Software 1, 1992).
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp

# An interval of up to this many steps is not divided: little memory is saved, and nested loops take longer to compile.
UNDIVIDED = 32


def in_pieces(advancing: Callable[[int], Callable], count: int, total: int) -> Callable:
    """A function (y, start, h, …) ↦ y after `count` steps of size h, which runs piece by piece.

    `advancing(n)` is such a function for n steps; `total` is the number of steps in all intervals.
    """
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
    """The number of steps in each piece, and in a shorter last piece (0: there is none).

    A piece has about √total steps, if possible a divisor of `count`. The first state of each interval is stored in any
    case, so that with many intervals none is divided.
    """
    root = math.sqrt(total)
    if count <= max(UNDIVIDED, root):
        return count, 0
    near = [n for n in range(math.ceil(root / 2), int(2 * root) + 1) if count % n == 0]
    best = min(near, key=lambda n: abs(math.log(n / root)), default=round(root))
    return best, count % best
