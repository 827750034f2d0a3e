"""Tracking errors, contact forces, commands and coordinates along the closed-loop motions of many robots, and the units that
the system's class gives them.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.cli._closed_loop._loop import Robots
from jaxhamel.control import ControlProblem, Regulator
from jaxhamel.ensemble import lanes
from jaxhamel.geometry import SE2, SE3, SO2, SO3, AbstractSpace, Helical, Product, Schoenflies
from jaxhamel.mechanics import Constant, MovingParts, System
from jaxhamel.mechanics._description._declarations import state_of
from jaxhamel.simulate import Trajectory
from jaxhamel.systems._rolling import friction_needed
from jaxhamel.viz._motion._charts_of import names_and_units_of_controls
from jaxhamel.viz._motion._many_motions import TracedPoint, coordinates_of, traced_by_all

SAMPLES_PER_FORCE = 10  # contact forces are computed at every tenth sample


class LoopMeasures(NamedTuple):
    """Quantities of the motions of B robots at the times `ts`, `(K,)`; None if the system or task has no such quantity.

    - `error`: the distance from the path of the task [m]; for a task without a path, |log(q*⁻¹ q)|, the distance from the
      planned configuration q*.
    - `position`: the output that follows the path; for a task without a path, the point that the drawing traces [m].
    - `force`: the contact force of the ground at every tenth sample, `(B, F, 3)` [N].
    - `command`: the largest absolute command of each robot.
    """

    ts: np.ndarray
    error: Float[np.ndarray, "B K"]
    position: Float[np.ndarray, "B K d"] | None
    force: Float[np.ndarray, "B F 3"] | None
    command: Float[np.ndarray, " B"]

    @property
    def rms(self) -> Float[np.ndarray, " B"]:
        """The root mean square over time of each robot's tracking error [m, or rad]; infinite for robots that broke down."""
        with np.errstate(all="ignore"):
            found = np.sqrt(np.mean(self.error**2, axis=1))
        return np.where(np.isfinite(found), found, np.inf)

    @property
    def normal(self) -> Float[np.ndarray, " B"] | None:
        """The smallest normal force on each robot [N]; −∞ if its motion broke down."""
        if self.force is None:
            return None
        return np.nan_to_num(np.min(self.force[..., 2], axis=1), nan=-np.inf)

    @property
    def friction(self) -> Float[np.ndarray, " B"] | None:
        """The friction coefficient that each robot needs for rolling at all times; infinite if it loses contact."""
        if self.force is None:
            return None
        needed = np.asarray(friction_needed(jnp.asarray(self.force)))
        return np.nan_to_num(np.max(needed, axis=1), nan=np.inf, posinf=np.inf)

    def followed(self, tolerance: float) -> np.ndarray:
        """For each robot, whether its RMS tracking error is within the tolerance and it stays in contact with the ground."""
        near = self.rms <= tolerance
        return near if self.normal is None else near & (self.normal > 0)


class HeldCoordinates(NamedTuple):
    """The n coordinates of B robots at T times: with feedback (`closed`), without (`open_loop`), and as planned (`plan`)."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    closed: Float[np.ndarray, "B T n"]
    open_loop: Float[np.ndarray, "B T n"]
    plan: Float[np.ndarray, "T n"]


class HeldMotions(NamedTuple):
    """States of B robots at K sampling times, and the commands between these times; the first axis is that of the robots."""

    ts: Float[Array, " K"]
    q: Any
    u: Float[Array, "B K k"]
    commands: Float[Array, "B K-1 p"]


def motions_in(found: Trajectory) -> HeldMotions:
    """The sampled states and commands in the trajectory of a closed loop of many robots."""
    _, sampled = found.given()
    return HeldMotions(found.ts[0], found.q, found.u, sampled.commands)


def measured(
    problem: ControlProblem,
    robots: Robots,
    motions: HeldMotions,
    law: Regulator,
    point: TracedPoint | None = None,
) -> LoopMeasures:
    """The quantities of all motions. `point`: the point whose positions are given for a task without a path."""
    ts, *states = motions
    tracking, position = problem.tracking, None
    if tracking is None:
        error = _from_plan(law, ts, motions.q)
        if point is not None:
            position = traced_by_all(point, problem.system, ts, motions.q)
    else:
        position, error = _from_path(law, tracking, robots.system, ts, motions.q)
    force = None
    if hasattr(_system_inside(robots.system), "contact_force"):
        force = np.swapaxes(_forces(robots, ts, states), 0, 1)
    command = np.max(np.abs(np.asarray(motions.commands)), axis=(1, 2))

    def as_array(x):
        return None if x is None else np.asarray(x)

    return LoopMeasures(np.asarray(ts), np.asarray(error), as_array(position), force, command)


def _system_inside(system: Any) -> Any:
    return system.system if isinstance(system, MovingParts) else system


@compiled
def _from_plan(law: Regulator, ts, q) -> Float[Array, "B K"]:
    """|log(q*⁻¹ q)|, the distance of each robot's configuration q from the planned one q* at all times."""
    planned = jax.vmap(lambda t: law.plan(t)[0])(ts)
    local = jax.vmap(jax.vmap(law.space.local), in_axes=(None, 0))(planned, q)
    return jnp.linalg.norm(local, axis=-1)


def plan_size(law: Regulator) -> float:
    """The size of a plan: the largest |log(q(0)⁻¹ q(t))| along it."""
    start = jax.tree.map(lambda x: x[0], law.q)
    return float(jnp.max(_distances(law.space, start, law.q)))


@compiled
def _distances(space, start, q) -> Float[Array, " K"]:
    return jnp.linalg.norm(jax.vmap(partial(space.local, start))(q), axis=-1)


@compiled
def _from_path(law: Regulator, tracking, system, ts, q):
    """The outputs that should follow the path, and how far they are from it."""
    own = q
    if isinstance(system, MovingParts):
        own = q[:-1] if len(q) > 2 else q[0]
    position = jax.vmap(jax.vmap(tracking.output))(own)
    path = jax.vmap(tracking.path)(ts)
    return position, jnp.linalg.norm(position - path[None], axis=-1)


def _forces(robots: Robots, ts, states) -> Float[np.ndarray, "F B 3"]:
    """The force of the ground on every robot, at every tenth sample."""
    q, u, commands = jax.tree.map(
        lambda x: jnp.moveaxis(x[:, :-1:SAMPLES_PER_FORCE], 1, 0), _padded(states)
    )
    return np.asarray(
        _contact(robots.system, robots.axes[0], (ts[:-1:SAMPLES_PER_FORCE], q, u, commands))
    )


def _padded(states):
    """States and commands of equal length: the last command is repeated, since none begins at the last sample."""
    q, u, commands = states
    return q, u, jnp.concatenate([commands, commands[:, -1:]], axis=1)


@compiled_with(QUICK)
def _contact(system, axes, states):
    def force(system, t, q, u, command):
        if not isinstance(system, MovingParts):
            return system.contact_force(t, q, u, Constant(command))
        return _system_inside(system).contact_force(t, *system.inside(t, q, u, Constant(command)))

    of_all = lanes(force, (axes, None, 0, 0, 0))
    return jax.lax.map(lambda now: of_all(system, *now), states)


def planned_coordinates(law: Regulator, system: System, ts: np.ndarray) -> np.ndarray:
    """The coordinates of the plan at the times `ts`, `(T, n)`."""
    return coordinates_of(system, _planned(law, jnp.asarray(ts)))[-1]


@compiled
def _planned(law: Regulator, ts: jax.Array) -> Any:
    return jax.vmap(lambda t: law.plan(t)[0])(ts)


# Units of exponential coordinates. Those of other spaces are the units that the class gives to its coordinates.
OF_GROUPS: dict[type[AbstractSpace], str] = {
    SO2: "rad",
    SO3: "rad",
    Helical: "rad",
    SE2: "m, rad",
    SE3: "m, rad",
    Schoenflies: "m, rad",
}


def unit_of_distance(system: System) -> str:
    """The units of |log(q*⁻¹ q)|, with ", " between them; empty if the class gives a coordinate no unit."""
    spaces, parts = list(_factors(system.space)), state_of(system).q
    if len(spaces) != len(parts):
        return ""
    found = [OF_GROUPS.get(type(x), part.unit) for x, part in zip(spaces, parts, strict=True)]
    return _together(found)


def unit_of_commands(system: System, m: int) -> str:
    """The units of the m controls, with ", " between them; empty if the class gives one of them no unit."""
    return _together(names_and_units_of_controls(system, m)[1])


def _factors(space: AbstractSpace) -> Iterator[AbstractSpace]:
    """The factors of a space, those of products inside of it too."""
    if not isinstance(space, Product):
        yield space
        return
    for factor in space.spaces:
        yield from _factors(factor)


def _together(units: Sequence[str]) -> str:
    """The different units, sorted; an empty text if there is none, or one is empty."""
    if not units or not all(units):
        return ""
    return ", ".join(sorted({unit for many in units for unit in many.split(", ")}))
