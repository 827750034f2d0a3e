"""The states of an ensemble at `ts`, computed by the GPU kernel if it is wanted and possible, else in XLA's lanes."""

import math
import warnings

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._described import is_described
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel.ensemble._equal_steps._equal_steps import Plan, SteppedMotion, in_lanes
from jaxhamel.ensemble._gpu_kernel._kernel_paths import KernelPaths
from jaxhamel.ensemble._gpu_kernel._kernel_trial import proves_itself


def paths(motion: SteppedMotion, ts: Float[Array, " T"], plan: Plan) -> list[Float[Array, "T B"]]:
    """The entries of the states at `ts`, as columns."""
    ts = ts.astype(motion.y[0].dtype)
    if plan.kernel is None:
        return _in_lanes(motion, ts, plan)
    try:
        kernel, values = KernelPaths.of(motion, ts, plan, plan.kernel)
    except Unsupported as missing:
        return _fall_back(motion, ts, plan, missing)
    return kernel(values) if proves_itself(kernel, values) else _in_lanes(motion, ts, plan)


def _fall_back(motion: SteppedMotion, ts, plan: Plan, missing: Unsupported):
    warnings.warn(
        f"the kernel of an ensemble cannot take {missing}; the ensemble runs in XLA's lanes instead, or under vmap. Write "
        "the equations with elementwise operations, sums and products, or give kernel=False to be rid of this warning.",
        UserWarning,
        stacklevel=2,
    )
    return _in_lanes(motion, ts, plan)


def _in_lanes(
    motion: SteppedMotion, ts: Float[Array, " T"], plan: Plan
) -> list[Float[Array, "T B"]]:
    size = len(motion.y[0])
    return [x[:, :size] for x in in_lanes(spread(motion), ts, plan)]


# Pads an ensemble with a few lanes, so that its columns do not compete for the same sets of the cache.
#
# The first-level cache of current processors has 64 sets of lines of 64 bytes; an address belongs to set ⌊address / 64⌋ mod
# 64. XLA places the columns of a program one after the other. Columns of 1,024 doubles thus all begin in the same set, which
# holds eight or twelve lines, so that a loop over forty columns misses the cache every time. With an odd number of lines
# in a column they begin in different sets. The padding repeats the last trajectory and is cut off from the results.
# Timings: docs/performance.md#spread-columns.


LINE, SETS = 64, 64

# Columns are padded if they begin in fewer sets than this; ensembles with fewer lanes than this would grow too much.
_FEWEST_SETS, _FEWEST_LANES = 8, 256


def lanes_for(size: int, itemsize: int) -> int:
    """The number of lanes: `size`, or as many as fill the next odd number of cache lines."""
    lines = -(-size * itemsize // LINE)
    if size < _FEWEST_LANES or SETS // math.gcd(lines, SETS) >= _FEWEST_SETS:
        return size
    return (lines + 1) * LINE // itemsize


def spread(motion: SteppedMotion) -> SteppedMotion:
    """Pads a motion; with several devices it stays unchanged, because the axis may be sharded."""
    size = len(motion.y[0])
    more = lanes_for(size, motion.y[0].dtype.itemsize) - size
    if not more or jax.device_count() > 1 or is_described():
        return motion
    y, mine = jax.tree.map(lambda x: _widened(x, more), (motion.y, motion.mine))
    return motion._replace(y=y, mine=mine)


def _widened(x: Float[Array, " B"], more: int) -> Array:
    last = jax.lax.stop_gradient(x[-1:])
    return jnp.concatenate([x, jnp.broadcast_to(last, (more,))])
