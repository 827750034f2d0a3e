"""The result of a search as a plan that feedback can hold a motion to."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._typing import Configuration, Time
from jaxhamel.control._checks._regulator import check_result
from jaxhamel.control._collocation._from_nodes import from_nodes
from jaxhamel.control._problem._costs import rate, second_rate
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result, replay
from jaxhamel.mechanics import MovingParts, System
from jaxhamel.simulate import Trajectory


class MotionPlan(NamedTuple):
    """The plan along which a feedback stabilises a motion: the first arguments of `regulate`.

    - `system`: a system driven by its control; if parts of it have a prescribed motion, a `jaxhamel.MovingParts`.
    - `ts`: equal steps, `(N+1,)` [s]; `q`, `u`: the states at `ts`; `control`: a callable of t, which gives θ̈ for moving
      parts.
    """

    system: System
    ts: Float[Array, " N+1"]
    q: Configuration
    u: Float[Array, "N+1 k"]
    control: Any


class SecondRate(eqx.Module):
    """θ̈ of a curve θ(t)."""

    curve: Any

    def __call__(self, t: Time) -> Float[Array, " p"]:
        """θ̈(t)."""
        return second_rate(self.curve, t)


def plan_of(result: Result) -> MotionPlan:
    """The plan that a search has found, `Result.trajectory` with its control, for a system driven by feedback:

        regulate(*plan_of(result)) .

    Where the problem's system has a prescribed motion θ(t), the plan's system is `jaxhamel.MovingParts` of it: θ and θ̇
    belong to the state, and the control is θ̈.

    **Arguments:** `result`: of `solve`.

    **Returns:** a `MotionPlan`.

    **Raises:** `TypeError` for an argument of another type; `ValueError` if the motion of the result breaks down.
    """
    check_result(result)
    found = result.trajectory
    if result.states is not None and not _has_equal_steps(found):
        system, nodes = result.problem.system, jnp.asarray(result.ts)
        ts = jnp.linspace(nodes[0], nodes[-1], len(found.ts))
        states = from_nodes(system, nodes, result.states, result.control, ts)
        return MotionPlan(system, ts, *states, result.control)
    return plan_of_motion(result.problem, found, result.control)


def _has_equal_steps(found: Trajectory) -> bool:
    ts = np.asarray(found.ts)
    return bool(np.ptp(np.diff(ts)) <= 1e-6 * (ts[-1] - ts[0]) / len(ts))


def plan_of_motion(problem: ControlProblem, found: Trajectory, control: Any) -> MotionPlan:
    """The motion `found` of a problem under a control, as a plan at equal time steps; it is simulated anew if its own steps
    are unequal."""
    ts = np.asarray(found.ts)
    if not _has_equal_steps(found):
        ts = np.linspace(ts[0], ts[-1], len(ts))
        start = jax.tree.map(lambda x: x[0], (found.q, found.u))
        begun = eqx.tree_at(lambda problem: (problem.q0, problem.u0), problem, start)
        found = replay(begun, control, ts)
    ts = jnp.linspace(ts[0], ts[-1], len(ts), dtype=problem.u0.dtype)
    if not problem.system.prescribed_motion:
        return MotionPlan(problem.system, ts, found.q, found.u, control)
    driven = MovingParts(problem.system)
    return MotionPlan(driven, ts, *_driven(driven, ts, found.q, found.u, control))


@compiled
def _driven(driven: MovingParts, ts, q, u, curve):
    """(q, u) with θ and θ̇ as parts of the state, and the control θ̈, of a motion with a prescribed curve θ(t)."""

    def state(t, q, u):
        return driven.state(q, u, curve(t), rate(curve, t))

    return (*jax.vmap(state)(ts, q, u), SecondRate(curve))
