"""Integrates the motion under a control anew from each node of a mesh.

In open loop, rounding errors alone make an unstable motion depart from its plan: they grow like exp(λ T). A state
integrated from the node before it has only the error of one interval.
"""

import dataclasses
from typing import Any

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel._typing import Configuration
from jaxhamel.control._collocation._transcription import along
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import MOST_DEPARTURE, replay, report_times
from jaxhamel.mechanics import System, VectorField
from jaxhamel.mechanics._tangent import local
from jaxhamel.simulate import RESULTS, Trajectory
from jaxhamel.simulate._solvers._runge_kutta import looped, tableau

STEPS = 4  # number of steps of an eighth-order method, from a node to a time in its interval
States = tuple[Configuration, Float[Array, "T k"]]


@compiled_with(QUICK)
def from_nodes(
    system: System,
    nodes: Float[Array, " N+1"],
    states: States,
    control: Any,
    ts: Float[Array, " T"],
) -> States:
    """(q, u) at the times `ts`, each integrated from the state at the node before it."""
    method, field = tableau(diffrax.Dopri8()), VectorField()

    def rate(t, y):
        return field(t, y, (system, control))

    def one(t, k):
        h = (t - nodes[k]) / STEPS

        def step(y, i):
            q, u = looped(rate, method, nodes[k] + i * h, h, y)[0]
            return (system.space.normalise(q), u), None

        return jax.lax.scan(step, along(states, k), jnp.arange(STEPS).astype(h.dtype))[0]

    before = jnp.searchsorted(nodes, ts, side="right") - 1
    return jax.vmap(one)(ts, jnp.clip(before, 0, len(nodes) - 2))


def replayed(
    problem: ControlProblem, control: Any, nodes: Float[Array, " N+1"], states: States, gap: float
) -> tuple[Trajectory, float]:
    """Returns (the motion under a control, the departure of its open loop from the nodes).

    The motion is the one in open loop or, if this departs although `gap` is small, the motion integrated anew from each
    node. `gap`: the largest distance between a node and the motion integrated from the node before it.
    """
    trajectory = replay(problem, control, report_times(nodes))
    departs = departure(problem.system, states, trajectory)
    if gap <= MOST_DEPARTURE < departs:
        trajectory = moved_from_nodes(trajectory, nodes, states)
    return trajectory, departs


def departure(system: System, states: States, trajectory: Trajectory) -> float:
    """The largest distance of a trajectory from the nodes, whose times are among its own; infinite if it broke down."""
    many = (len(trajectory.ts) - 1) // (len(states[1]) - 1)
    found = jax.tree.map(lambda x: np.asarray(x)[::many], (trajectory.q, trajectory.u))
    errors = np.abs(np.asarray(_distances(system, states, found)))
    return float(np.max(np.where(np.isfinite(errors), errors, np.inf), initial=0.0))


@compiled_with(QUICK)
def _distances(system: System, states: States, found: States) -> Float[Array, "N+1 n+k"]:
    return jax.vmap(lambda x, y: local(system, x, y))(states, found)


def moved_from_nodes(trajectory: Trajectory, nodes: Array, states: States) -> Trajectory:
    """The trajectory with its states integrated anew from each node."""
    ts, system, control = trajectory.ts, trajectory.system, trajectory.control
    q, u = from_nodes(system, nodes, states, control, ts)
    q_end, u_end = along((q, u), -1)
    return dataclasses.replace(
        trajectory, q=q, u=u, valid=jnp.ones(len(ts), bool), t_end=ts[-1], q_end=q_end, u_end=u_end,
        result=RESULTS.successful,
    )  # fmt: skip
