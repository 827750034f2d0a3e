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
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._adaptive_steps._adaptive_step import (
    ARRIVED,
    AdaptiveLane,
    Inside,
    StepLimits,
    looped_sums,
    state_within,
    step_sums,
)
from jaxhamel.ensemble._adaptive_steps._lane_motion import LaneMotion
from jaxhamel.ensemble._adaptive_steps._queue import Ends, through_lanes
from jaxhamel.ensemble._adaptive_steps._step_form import StepForm, as_scalars
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._methods._embedded_pairs import Pair


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
    """Functions in lanes: the state of a lane before its first step; one step, which returns the lane after it and the
    powers of its interpolant; and the state of the motion within a step.

    The derivatives of a step are those of a loop over its stages.
    """

    first: Callable[..., AdaptiveLane]
    step: Callable[..., Any]
    point: Callable[..., Columns]

    @classmethod
    def of(cls, motion: LaneMotion, pair: Pair, form: StepForm, inside: bool) -> "Programs":
        """Builds the programs of a motion and an embedded Runge–Kutta pair.

        `inside`: whether states within a step are asked for.
        """

        def one(lane, mine, shared, limits):
            step = step_sums(motion.own(mine, shared), pair, lane, inside)[0]
            return after(lane, step, shared, limits)

        def after(lane, step, shared, limits):
            return motion.judged(pair, lane, step, shared, limits), step.powers

        def by_stages(lane, mine, shared, limits):
            step = looped_sums(motion.of_lanes(mine, shared), pair, lane, inside)[0]
            return lanes(after, (0, 0, None, None))(lane, step, shared, limits)

        def point(inside, theta, shared):
            return motion.unit(state_within(inside, theta), shared)

        return cls(
            motion.first(pair),
            by_stages
            if form.looped
            else differentiated_as(lanes(one, (0, 0, None, None)), by_stages),
            lanes(point, (0, 0, None)),
        )


def adaptive(
    motion: SteppedMotion, ts: Float[Array, " T"], pair: Pair, limits: StepLimits
) -> tuple[list[Float[Array, "B T"]], Ends]:
    """Integrates all trajectories; returns their states at the times `ts` (two or more), and the end of each trajectory.

    The states after an early end are NaN.
    """
    form = StepForm.of(motion, pair)
    shared, rebuilt = as_scalars(motion.shared, form.whole)
    programs = Programs.of(LaneMotion.of(motion, rebuilt), pair, form, len(ts) > 2)
    inner = jnp.concatenate([ts[1:-1], jnp.full(1, jnp.inf, ts.dtype)])
    size, many = len(motion.y[0]), len(ts) - 2
    written = tuple(jnp.full((size, many), jnp.nan, ts.dtype) for _ in motion.y) if many else ()

    def one(lane: AdaptiveLane, mine, whose, written):
        new, powers = programs.step(lane._replace(next_output=()), mine, shared, limits)
        if not many:
            return new, written
        inside = Inside(lane.y, powers)
        just = StepTaken(new.kept > lane.kept, lane.t, lane.end, inside, whose)

        def point(theta):
            return programs.point(inside, theta, shared)

        next_output, written = _written(point, just, inner, lane.next_output, written)
        return new._replace(next_output=next_output), written

    first = programs.first(ts[0], motion.y, motion.mine, shared, limits)
    if many:
        next_output = NextOutput(jnp.zeros(size, jnp.int32), jnp.broadcast_to(inner[0], (size,)))
        first = first._replace(next_output=next_output)
    ends, written = through_lanes(one, first, motion.mine, written, form.widths_for(size))
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
