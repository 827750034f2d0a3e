"""A few lanes more, so that the columns of an ensemble do not lie on one another in a processor's cache.

The first-level cache of the processors at hand has 64 sets for lines of 64 bytes, and keeps an address in set
⌊address / 64⌋ mod 64. XLA puts the columns of a program one after the other: of 1,024 doubles each, all of them begin in the
same set, which holds eight or twelve lines, and a loop over forty columns finds none of them there. With an odd number of
lines in a column they begin in sets of their own. The lanes added are the last trajectory again; nobody sees them.

Rolling ball with three masses moving differently in each lane, µs a step of RK4, forward and with the gradient, without
and with them: 1,024 lanes 81 and 360, 60 and 232; 4,096: 321 and 1,557, 190 and 931; 16,384: 1,208 and 5,971, 674 and 3,568
(medians of 9 to 25 runs on two quiet cores, AMD EPYC; a second run of the first: 79 and 358, 55 and 208).

Not taken: blocks of 512, 1,024 or 4,096 lanes one after the other, for the second-level cache: forward no gain (16,384
lanes 679 in blocks of 1,024 beside 674), the gradient 10 %.
"""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._described import is_described
from jaxhamel.ensemble._equal_steps._equal_steps import Motion

LINE, SETS = 64, 64

# Columns that begin in fewer sets than this are spread; fewer lanes than these would grow by too large a part.
_FEWEST_SETS, _FEWEST_LANES = 8, 256


def lanes_for(size: int, itemsize: int) -> int:
    """As many lanes as asked for, or the next odd number of cache lines."""
    lines = -(-size * itemsize // LINE)
    if size < _FEWEST_LANES or SETS // math.gcd(lines, SETS) >= _FEWEST_SETS:
        return size
    return (lines + 1) * LINE // itemsize


def spread(motion: Motion) -> Motion:
    """The motion of an ensemble with so many lanes; on several devices as it is, where the axis may be divided."""
    size = len(motion.y[0])
    more = lanes_for(size, motion.y[0].dtype.itemsize) - size
    if not more or jax.device_count() > 1 or is_described():
        return motion
    y, mine = jax.tree.map(lambda x: _widened(x, more), (motion.y, motion.mine))
    return motion._replace(y=y, mine=mine)


def _widened(x: Float[Array, " B"], more: int) -> Array:
    last = jax.lax.stop_gradient(x[-1:])
    return jnp.concatenate([x, jnp.broadcast_to(last, (more,))])
