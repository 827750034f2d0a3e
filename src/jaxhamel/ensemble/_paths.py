"""The states of an ensemble at `ts`: by equal steps, in the GPU kernel or in XLA's lanes, or by adaptive steps."""

import warnings

import diffrax
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PyTree

from jaxhamel import _checks
from jaxhamel._lanes._columns import spare_lanes, widened
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel._lanes._tracing import is_described
from jaxhamel._lanes._written_out import estimated_operations
from jaxhamel._lanes._xla_cpu._jit import jit
from jaxhamel._lanes._xla_cpu._pieces import LONGEST_PIECE
from jaxhamel.ensemble._adaptive_steps._adaptive_paths import (
    AdaptiveOptions,
    Equation,
    adaptive_paths,
)
from jaxhamel.ensemble._checks._members import check_embedded_pair
from jaxhamel.ensemble._equal_steps._equal_steps import Plan, in_lanes
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._gpu_kernel._kernel_paths import KernelPaths
from jaxhamel.ensemble._gpu_kernel._kernel_trial import proves_itself
from jaxhamel.ensemble._members._members import Members
from jaxhamel.ensemble._methods._embedded_pairs import is_embedded_pair
from jaxhamel.simulate._checks import check_options, warn_of_unfinished
from jaxhamel.simulate._simulate import MAX_STEPS, tolerances_of
from jaxhamel.simulate._solvers._runge_kutta import Tableau


def paths(motion: SteppedMotion, ts: Float[Array, " T"], plan: Plan) -> list[Float[Array, "T B"]]:
    """The states of all trajectories at `ts`: one array `(T, B)` for each number of a state."""
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
        "the equations with elementwise operations, sums and products, or give kernel=False to avoid this warning.",
        UserWarning,
        stacklevel=2,
    )
    return _in_lanes(motion, ts, plan)


# An ensemble of at least MANY lanes, whose step is cut into several loops, runs in blocks of about BLOCK lanes: the values
# that these loops pass on stay in the cache (docs/performance.md#blocks-of-an-ensemble).
BLOCK, MANY = 1024, 8192


def _in_lanes(
    motion: SteppedMotion, ts: Float[Array, " T"], plan: Plan
) -> list[Float[Array, "T B"]]:
    """The states at `ts` by XLA's lanes, block by block if the ensemble is large and its step long."""
    size = len(motion.y[0])
    count = _blocks(motion, plan)
    if count == 1:
        return _of_block(motion, ts, plan, size)
    block = -(-size // count)

    def cut(columns):
        return tuple(jnp.reshape(x, (count, block)) for x in widened(columns, count * block - size))

    def of(at):
        return _of_block(motion._replace(y=at[0], mine=at[1]), ts, plan, size)

    rows = jax.lax.map(of, (cut(motion.y), cut(motion.mine)))
    return [jnp.moveaxis(x, 0, 1).reshape(x.shape[1], -1)[:, :size] for x in rows]


def _of_block(motion: SteppedMotion, ts, plan: Plan, whole: int) -> list[Float[Array, "T b"]]:
    """The states of a part of an ensemble of `whole` lanes."""
    size, more = len(motion.y[0]), spare_lanes(motion.y)
    padded = motion._replace(y=widened(motion.y, more), mine=widened(motion.mine, more))
    return [x[:, :size] for x in in_lanes(padded, ts, plan, whole)]


def _blocks(motion: SteppedMotion, plan: Plan) -> int:
    """The number of blocks; 1 with several devices, because the axis may be sharded."""
    size = len(motion.y[0])
    if size < MANY or jax.device_count() > 1 or is_described():
        return 1
    t = jnp.zeros((), motion.y[0].dtype)
    given = t, motion.y, motion.mine, motion.shared
    length = estimated_operations(motion.rate, (False, True, True, False), *given)
    stages = len(plan.method.b) if isinstance(plan.method, Tableau) else 1
    return -(-size // BLOCK) if stages * length > LONGEST_PIECE else 1


def by_tolerance(
    equation: Equation,
    members: Members,
    ts: ArrayLike,
    rtol: ArrayLike | None,
    atol: ArrayLike | None,
    method: object,
    max_steps: int | None,
) -> PyTree[Float[Array, "B T ..."]]:
    """The states at `ts`, NaN from the time on at which a trajectory breaks down; a warning says how many did.

    **Raises:** `ValueError` for invalid times, tolerances or numbers of steps; `TypeError` for a method without an error
    estimate.
    """
    first = jax.tree.leaves(equation.first(members.with_own(members.own)))
    times = jnp.asarray(ts, jnp.result_type(*first))
    _checks.check_times(times)
    _checks.check_steps(rtol, atol, None)
    method = diffrax.Tsit5() if method is None else method
    check_embedded_pair(method, is_embedded_pair(method))
    most = MAX_STEPS if max_steps is None else max_steps
    check_options(None, None, most, None)
    asked = AdaptiveOptions(method, most, *tolerances_of(rtol, atol, None, times.dtype))  # pyright: ignore
    states, unfinished = _states(equation, members, times, asked)
    warn_of_unfinished(unfinished, members.size, most)
    return states


@jit
def _states(equation: Equation, members: Members, ts: Float[Array, " T"], asked: AdaptiveOptions):
    """The states, and the number of trajectories that are not finite at the last time."""
    states = adaptive_paths(equation, members, ts, asked).states
    ends = [x[:, -1].reshape(members.size, -1) for x in jax.tree.leaves(states)]
    return states, jnp.sum(~jnp.all(jnp.isfinite(jnp.concatenate(ends, axis=1)), axis=1))
