"""The kernel as a differentiable function; on devices without CUDA the same states are computed in XLA's lanes.

Forward and reverse mode start each interval at the state that the kernel wrote, and recompute the steps in between in XLA's
lanes. So reverse mode stores the result of the kernel and nothing else.
"""

from functools import partial
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from jaxhamel._lanes._columns import Columns
from jaxhamel._lanes._graph._nodes import Unsupported
from jaxhamel.ensemble._equal_steps._equal_steps import (
    Plan,
    advancing,
    in_lanes,
    intervals,
    neighbours,
)
from jaxhamel.ensemble._equal_steps._kernel_options import Kernel
from jaxhamel.ensemble._equal_steps._stepped_motion import SteppedMotion
from jaxhamel.ensemble._gpu_kernel._kernel_call import Intervals, integrated
from jaxhamel.ensemble._gpu_kernel._kernel_lane import KernelLane
from jaxhamel.simulate._solvers._runge_kutta import Tableau


class Values(NamedTuple):
    """The differentiable inputs, per-lane and shared."""

    y: Columns
    mine: Columns
    of_rate: list
    of_unit: list
    ts: Float[Array, " T"]


class KernelPaths(NamedTuple):
    """The functions of one lane, and the plan of their integration.

    It contains no arrays, because JAX caches its derivative rules.
    """

    rate: KernelLane
    unit: KernelLane
    plan: Plan
    how: Kernel

    @classmethod
    def of(
        cls, motion: SteppedMotion, ts: Float[Array, " T"], plan: Plan, how: Kernel
    ) -> "tuple[KernelPaths, Values]":
        """Prepares a motion. **Raises:** `Unsupported`, naming an operation that a kernel cannot do."""
        if motion.step is not None:
            raise Unsupported("Lie-group methods")

        def rate(t, y, mine):
            return motion.rate(t, y, mine, motion.shared)

        def unit(y):
            return motion.unit(y, motion.shared)

        f = KernelLane.of(rate, ts[0], motion.y, motion.mine, varying=(False, True, True))
        N = KernelLane.of(unit, motion.y, varying=(True,))
        values = Values(motion.y, motion.mine, f.shared, N.shared, ts)
        return cls(f._replace(shared=[]), N._replace(shared=[]), plan, how), values

    def __call__(self, values: Values) -> list[Float[Array, "T B"]]:
        """Integrates the motion; returns its states at `ts`, one array `(T, B)` for each number of a state."""
        run = jax.custom_jvp(self._states)
        run.defjvp(self._jvp)
        return list(run(values))

    def _states(self, values: Values) -> tuple:
        if self.how.interpret:
            return self.by_kernel(values)
        return jax.lax.platform_dependent(values, cuda=self.by_kernel, default=self.by_lanes)

    def by_kernel(self, values: Values) -> tuple:
        """The states at `ts` by the kernel."""
        starts, ends = values.ts[:-1], values.ts[1:]
        counts = jnp.asarray(self.plan.counts, jnp.int32)
        times = Intervals(starts, (ends - starts) / counts.astype(starts.dtype), counts)
        method = cast(Tableau, self.plan.method)  # see `of`
        rate, unit = self._lanes(values)
        states = integrated(rate, unit, values.y, values.mine, times, method, self.how)
        return tuple(states[:, i] for i in range(len(values.y)))

    def by_lanes(self, values: Values) -> tuple:
        """The same states as the kernel computes, but by the program that XLA compiles for lanes."""
        return tuple(in_lanes(self._motion(values), values.ts, self.plan))

    def _lanes(self, values: Values) -> tuple[KernelLane, KernelLane]:
        return self.rate._replace(shared=values.of_rate), self.unit._replace(shared=values.of_unit)

    def _motion(self, values: Values) -> SteppedMotion:
        def rate(t, y, mine, shared):
            return self.rate._replace(shared=shared[0])(t, y, mine)

        def unit(y, shared):
            return self.unit._replace(shared=shared[1])(y)

        shared = (values.of_rate, values.of_unit)
        return SteppedMotion(rate, unit, values.y, values.mine, shared)

    def _jvp(self, primals, tangents):
        """Propagates tangents through one interval after the other, from the states that the kernel wrote."""
        (values,), (rates,) = primals, tangents
        states = self._states(values)
        delta, rows = rates.y, [tuple(x[None] for x in rates.y)]
        for count, part in neighbours(self.plan.counts):
            along = partial(self._along, count, values, rates)
            starts = tuple(x[:-1][part] for x in states)
            delta, path = jax.lax.scan(along, delta, (starts, *intervals(values.ts, part, count)))
            rows.append(path)
        return states, tuple(jnp.concatenate(each) for each in zip(*rows, strict=True))

    def _along(self, count: int, values: Values, rates: Values, delta: Columns, at: tuple):
        start, t, h = at

        def end(values):
            motion = self._motion(values)
            return advancing(motion, self.plan, count)(motion.y, t, h)

        _, delta = jax.jvp(end, (values._replace(y=start),), (rates._replace(y=delta),))
        return delta, delta
