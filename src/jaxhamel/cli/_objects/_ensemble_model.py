"""The model of a scenario's ensemble: it maps blocks of samples to quantities of the motions."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel.cli._objects._build import build_times
from jaxhamel.cli._objects._prepared import build_path
from jaxhamel.cli._objects._spread import Nominal, members
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.ensemble import lanes, rollout
from jaxhamel.mechanics._description._declarations import parts_of, state_of
from jaxhamel.systems import RollingBall
from jaxhamel.systems._rolling import friction_needed
from jaxhamel.viz._motion._run import add_columns, along


class Motions(NamedTuple):
    """A block of motions q, u with leading axes (B, T); `axes` marks the leaves of system and control with the axis B."""

    system: Any
    control: Any
    axes: Nominal
    q: Any
    u: Float[Array, "B T k"]


class EnsembleModel:
    """Maps a block of samples to the quantities of each trajectory, computed by `rollout`."""

    def __init__(self, scenario: Scenario, nominal: Nominal):
        table, full, path = scenario["montecarlo"], build_times(scenario), build_path(scenario)
        self.nominal, names = nominal, ("rtol", "atol") if table["rtol"] else ("dt",)
        self.steps: dict[str, Any] = {name: table[name] for name in names}
        self.ts = np.linspace(full[0], full[-1], table["samples"])
        self.asked = None if path is None else along(path, self.ts)

    def __call__(self, samples: Mapping[str, Any]) -> tuple[dict[str, Array], Any]:
        """The quantities of each trajectory; for a ball also its path on the ground, for other systems q at all times."""
        motions = self.motions(samples)
        if isinstance(motions.system, RollingBall):
            return _of_ball(self.ts, self.asked, motions), motions.q[1]
        return _of_any(motions), motions.q

    def motions(self, samples: Mapping[str, Any]) -> Motions:
        """Simulates a block of samples. Values that all trajectories share have no batch axis."""
        (system, q0, u0, control), axes = members(samples, self.nominal)
        q, u = rollout(system, q0, u0, self.ts, control, in_axes=tuple(axes), **self.steps)
        return Motions(system, control, axes, q, u)


def _of_ball(ts, asked, motions: Motions) -> dict[str, Array]:
    """The end point of each ball, its distance from the path of the task, and the extremes of its contact force."""
    force, position = _contact_forces(ts, motions), motions.q[1]
    # friction is undefined without contact; min_normal_force shows whether a ball leaves the ground
    pressed = force[..., 2] > 0
    found = {
        "end_x": position[:, -1, 0],
        "end_y": position[:, -1, 1],
        "min_normal_force": jnp.min(force[..., 2], axis=0),
        "max_friction": jnp.max(jnp.where(pressed, friction_needed(force), 0.0), axis=0),
    }
    if asked is None:
        return found
    away = jnp.sum((position - jnp.asarray(asked)[None]) ** 2, axis=-1)
    return found | {
        "tracking_rms": jnp.sqrt(jnp.mean(away, axis=1)),
        "tracking_max": jnp.sqrt(jnp.max(away, axis=1)),
    }


def _contact_forces(ts: np.ndarray, motions: Motions) -> Float[Array, "T B 3"]:
    """The contact force of the ground on each ball at each time [N], computed by `lanes` for one time after another."""
    axes = (motions.axes.system, motions.axes.control, 0, 0)

    def at(now):
        t, q, u = now
        of_one = lanes(lambda system, control, q, u: system.contact_force(t, q, u, control), axes)
        return of_one(motions.system, motions.control, q, u)

    by_time = jax.tree.map(lambda x: jnp.moveaxis(x, 1, 0), (motions.q, motions.u))
    return jax.lax.map(at, (jnp.asarray(ts), *by_time))


def _of_any(motions: Motions) -> dict[str, Array]:
    """The last state of each trajectory, by the names of the columns of trajectory.csv."""
    found: dict[str, Any] = {}
    ends = jax.tree.map(lambda x: x[:, -1], (motions.q, motions.u))
    for part, values in parts_of(state_of(motions.system), *ends):
        add_columns(found, part.names(values.shape[1]), values)
    return {f"end_{name}": x for name, x in found.items()}
