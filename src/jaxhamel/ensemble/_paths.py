"""The states of an ensemble at `ts`, computed by the GPU kernel if it is wanted and possible, else in XLA's lanes."""

import warnings

from jaxtyping import Array, Float

from jaxhamel._lanes._columns import spare_lanes, widened
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
    return [x[:, :size] for x in in_lanes(_spread(motion), ts, plan)]


def _spread(motion: SteppedMotion) -> SteppedMotion:
    """The motion with a few lanes more, so that its columns do not compete for the same sets of the cache."""
    more = spare_lanes(motion.y)
    return (
        motion._replace(y=widened(motion.y, more), mine=widened(motion.mine, more))
        if more
        else motion
    )
