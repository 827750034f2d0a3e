"""Integrates each trajectory with its own step sizes, by an embedded Runge–Kutta pair, and interpolates its states at `ts`.

`_adaptive_step` is one step of one trajectory; `_queue` assigns trajectories to lanes; this module combines them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._derivatives._own_derivative import differentiated_as
from jaxhamel._lanes._divided._array_equations import LEAST_SHARED
from jaxhamel._lanes._tracing import is_described
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._adaptive_steps._adaptive_step import (
    ARRIVED,
    AdaptiveLane,
    Inside,
    StepLimits,
    attempted_step,
    first_lane,
    state_within,
)
from jaxhamel.ensemble._adaptive_steps._queue import Ends, through_lanes
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion, written_rate
from jaxhamel.ensemble._methods._embedded_pairs import Pair

# The most lanes, and the number of lanes for the last slow trajectories. With a power of two as the first, columns would
# compete for the same sets of the cache (docs/performance.md#adaptive-steps).
WIDEST, NARROW = 1920, 64

# Lanes on a GPU, where an iteration costs the same for one lane as for thousands. Not measured.
ON_GPU = 2**17

# The fewest lanes: LLVM unrolls a loop over eight lanes and compiles for 90 s instead of 3. Smaller ensembles are left to
# diffrax under vmap, which is as fast for them.
FEWEST = 32

Widths = tuple[tuple[int, int], ...]


class NextOutput(NamedTuple):
    """Index and value of the next interior output time of each trajectory; +inf when all are written."""

    place: Int[Array, " W"]
    time: Float[Array, " W"]


class StepTaken(NamedTuple):
    """The latest step of each lane.

    - `kept`: whether it was accepted; `start`, `end`: its times; `inside`: its interpolant.
    - `whose`: the index of the trajectory in the lane.
    """

    kept: Bool[Array, " W"]
    start: Float[Array, " W"]
    end: Float[Array, " W"]
    inside: Inside
    whose: Int[Array, " W"]


class Programs(NamedTuple):
    """Functions in lanes: the state of a lane before its first step; one step; and the state of the motion within a step.

    The derivatives of a step are those of a loop over its stages.
    """

    first: Callable[..., AdaptiveLane]
    step: Callable[..., Any]
    point: Callable[..., Columns]

    @classmethod
    def of(cls, motion: SteppedMotion, pair: Pair, rebuilt: Callable, arrays: bool) -> "Programs":
        """Builds the programs of a motion and an embedded Runge–Kutta pair.

        `rebuilt`: assembles the shared inputs from scalars. `arrays`: whether the rate has operations on large shared
        arrays; a step is then computed stage by stage.
        """
        rate = jax.jit(lambda t, y, mine, shared: motion.rate(t, y, mine, rebuilt(shared)))

        def unit(y, shared):
            return motion.unit(y, rebuilt(shared))

        def first(t, y, mine, shared, limits):
            return first_lane(lambda t, y: rate(t, y, mine, shared), pair, t, y, limits)

        def one(lane, mine, shared, limits):
            def own(t, y):
                return rate(t, y, mine, shared)

            return attempted_step(own, lambda y: unit(y, shared), pair, lane, limits)[:2]

        def by_stages(lane, mine, shared, limits):
            def of_lanes(t, y):
                return lanes(rate, (0, 0, 0, None))(t, y, mine, shared)

            def ends(y):
                return lanes(unit, (0, None))(y, shared)

            return attempted_step(of_lanes, ends, pair, lane, limits)[:2]

        def point(inside, theta, shared):
            return unit(state_within(inside, theta), shared)

        return cls(
            lanes(first, (None, 0, 0, None, None)),
            by_stages if arrays else differentiated_as(lanes(one, (0, 0, None, None)), by_stages),
            lanes(point, (0, 0, None)),
        )


def widths_for(size: int) -> Widths:
    """Chooses numbers of lanes, in pairs (lanes, busy): when at most `busy` lanes are busy, the next pair takes over."""
    if jax.default_backend() != "cpu" and not is_described():
        return ((min(size, ON_GPU), 0),)
    width = max(-(-min(size, WIDEST) // 8) * 8, FEWEST)  # a multiple of the vector length
    width += 8 * (width % 512 == 0)
    if width < 2 * NARROW:
        return ((width, 0),)
    return (width, max(width // 4, NARROW)), (NARROW, 0)


def adaptive(
    motion: SteppedMotion, ts: Float[Array, " T"], pair: Pair, limits: StepLimits, widths: Widths
) -> tuple[list[Float[Array, "B T"]], Ends]:
    """Integrates all trajectories; returns their states at the times `ts` (two or more), and the end of each trajectory.

    The states after an early end are NaN.
    """
    whole = whole_arrays(motion)
    shared, rebuilt = as_scalars(motion.shared, whole)
    programs = Programs.of(motion, pair, rebuilt, any(whole))
    inner = jnp.concatenate([ts[1:-1], jnp.full(1, jnp.inf, ts.dtype)])
    size, many = len(motion.y[0]), len(ts) - 2
    written = tuple(jnp.full((size, many), jnp.nan, ts.dtype) for _ in motion.y) if many else ()

    def one(lane: AdaptiveLane, mine, whose, written):
        new, inside = programs.step(lane._replace(next_output=()), mine, shared, limits)
        if not many:
            return new, written
        just = StepTaken(new.kept > lane.kept, lane.t, lane.end, inside, whose)

        def point(theta):
            return programs.point(inside, theta, shared)

        next_output, written = _written(point, just, inner, lane.next_output, written)
        return new._replace(next_output=next_output), written

    first = programs.first(ts[0], motion.y, motion.mine, shared, limits)
    if many:
        next_output = NextOutput(jnp.zeros(size, jnp.int32), jnp.broadcast_to(inner[0], (size,)))
        first = first._replace(next_output=next_output)
    ends, written = through_lanes(one, first, motion.mine, written, widths)
    return joined(motion, motion.y, written, ends.y, ends.stands), ends


def joined(
    motion: SteppedMotion, y: Columns, written, end: Columns, stands
) -> list[Float[Array, "B T"]]:
    """Joins the states at the first, the interior and the last time; the last is NaN if it was not reached."""
    start = lanes(motion.unit, (0, None))(y, motion.shared)
    between = written or ((),) * len(y)
    last = (jnp.where(stands == ARRIVED, x, jnp.nan) for x in end)
    return [_states_at_all_times(*each) for each in zip(start, between, last, strict=True)]


def _states_at_all_times(first, written, last) -> Float[Array, "B T"]:
    between = [written] if len(written) else []
    return jnp.concatenate([first[:, None], *between, last[:, None]], axis=1)


def whole_arrays(motion: SteppedMotion) -> list[bool]:
    """For each shared array, whether it stays an array: one that only operations on large arrays read, as of a network."""
    leaves = jax.tree.leaves(motion.shared)
    found = None
    if any(jnp.size(x) >= LEAST_SHARED for x in leaves):
        found = written_rate(motion, jnp.zeros_like(motion.y[0]))
    if found is None or not found.apart.operations:
        return [False] * len(leaves)
    return [not nodes for nodes in found.arguments[-len(leaves) :]]


def as_scalars(tree, whole: list[bool]) -> tuple[Any, Callable]:
    """Splits arrays into scalars before the loop over the steps; returns these and a function that rebuilds the arrays.

    `whole`: the arrays that stay as they are.
    """
    leaves, structure = jax.tree.flatten(tree)
    scalars = [
        x if kept else [jnp.ravel(x)[i] for i in range(jnp.size(x))]
        for x, kept in zip(leaves, whole, strict=True)
    ]
    like = [(jnp.shape(x), jnp.result_type(x)) for x in leaves]

    def array(each, shape, dtype):
        if not isinstance(each, list):
            return each
        return jnp.stack(each).reshape(shape) if each else jnp.zeros(shape, dtype)

    def rebuilt(scalars):
        pairs = zip(scalars, like, strict=True)
        return jax.tree.unflatten(structure, [array(each, *x) for each, x in pairs])

    return scalars, rebuilt


def _written(
    point: Callable, just: StepTaken, inner: Float[Array, " m"], next_output: NextOutput, written
):
    """Writes the states at all output times that the accepted steps have passed."""

    def due(next_output: NextOutput):
        return just.kept & (next_output.time <= just.end)

    def one(now):
        next_output, written = now
        here = due(next_output)
        time = jnp.where(here, next_output.time, just.end)
        values = point((time - just.start) / (just.end - just.start))
        whose = jnp.where(here, just.whose, len(written[0]))
        written = tuple(
            all_.at[whose, next_output.place].set(x, mode="drop")
            for all_, x in zip(written, values, strict=True)
        )
        place = next_output.place + here.astype(next_output.place.dtype)
        return NextOutput(place, inner[place]), written

    return jax.lax.while_loop(lambda now: jnp.any(due(now[0])), one, (next_output, written))
