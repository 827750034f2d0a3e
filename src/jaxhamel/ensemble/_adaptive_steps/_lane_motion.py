"""The equation of motion of one trajectory as functions of scalars, for both passes of adaptive steps."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._transform import lanes
from jaxhamel.ensemble._adaptive_steps._adaptive_step import (
    AdaptiveLane,
    StepLimits,
    StepSums,
    first_lane,
    judged,
)
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._methods._embedded_pairs import Pair


class LaneMotion(NamedTuple):
    """Functions of the numbers of one trajectory; `shared`: those that all trajectories share, from `as_scalars`.

    - `rate`: (t, y, mine, shared) ↦ ẏ; `unit`: (y, shared) ↦ N(y), which normalises quaternions.
    """

    rate: Callable[..., Columns]
    unit: Callable[..., Columns]

    @classmethod
    def of(cls, motion: SteppedMotion, rebuilt: Callable[[Any], Any]) -> "LaneMotion":
        """Builds `rate` and `unit` from an equation of motion.

        **Arguments:** `rebuilt`: maps the numbers that all lanes share to the arrays that the equation of motion reads.
        """

        def rate(t, y, mine, shared):
            return tuple(motion.rate(t, y, mine, rebuilt(shared)))

        def unit(y, shared):
            return motion.unit(y, rebuilt(shared))

        return cls(jax.jit(rate), unit)

    def own(self, mine, shared) -> Callable[..., Columns]:
        """(t, y) ↦ ẏ of one lane."""
        return lambda t, y: self.rate(t, y, mine, shared)

    def of_lanes(self, mine, shared) -> Callable[..., Columns]:
        """(t, y) ↦ ẏ of all lanes."""
        return lambda t, y: lanes(self.rate, (0, 0, 0, None))(t, y, mine, shared)

    def first(self, pair: Pair) -> Callable[..., AdaptiveLane]:
        """(t, y, mine, shared, limits) ↦ the lanes before their first step."""

        def one(t, y, mine, shared, limits):
            return first_lane(self.own(mine, shared), pair, t, y, limits)

        return lanes(one, (None, 0, 0, None, None))

    def judged(
        self, pair: Pair, lane: AdaptiveLane, step: StepSums, shared, limits: StepLimits
    ) -> AdaptiveLane:
        """The lane after an attempted step."""
        return judged(lambda y: self.unit(y, shared), pair, lane, limits, step)
