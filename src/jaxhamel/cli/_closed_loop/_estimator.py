"""Builds the state estimator of `[estimator]`, which uses the sensors of `[sensors]` and the planned system as its model."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel._typing import Configuration, Control, QuasiVelocity, Time
from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import (
    KalmanFilter,
    MovingHorizonEstimator,
    PathLimit,
    Regulator,
    StateSensors,
)
from jaxhamel.mechanics import System
from jaxhamel.mechanics._tangent import local

BEYOND = 1e-3  # a plan may exceed a limit by this much, relative to 1 + |limit|, as it does between the nodes of its mesh
BOUNDS = {
    "lower": -np.inf,
    "upper": np.inf,
}  # the keys of limits, and the values that stand for no limit


class StateCoordinates(eqx.Module):
    """The state (q, u) as numbers: exponential coordinates of q from the identity, then u, `(n+k,)`."""

    system: System

    def __call__(
        self, t: Time, q: Configuration, u: QuasiVelocity, control: Control
    ) -> Float[Array, " n+k"]:
        first = jax.tree.map(lambda x, like: x.astype(like.dtype), self.system.space.identity(), q)
        return local(self.system, (first, jnp.zeros_like(u)), (q, u))


def check_estimator(scenario: Scenario, size: int) -> None:
    """Checks `[estimator]`, if there is one: it needs `sensors.noise`, by which it weighs measurements, and limits
    `estimator.lower` and `upper` of `size` entries with lower < upper.

    **Raises:** `ScenarioError` that names the key.
    """
    if scenario["estimator"] is None:
        return
    _check_limits(scenario["estimator"], size)
    noise = (scenario["sensors"] or {}).get("noise") or [0.0]
    if min(noise) <= 0:
        raise ScenarioError(
            "`[estimator]` needs `sensors.noise`, a number larger than 0 for each entry of the state: an estimator weighs "
            "measurements by it. Give it, or leave `[estimator]` out."
        )


def _check_limits(table: Mapping[str, Any], size: int) -> None:
    for key in ("lower", "upper"):
        if len(found := table.get(key, [])) not in (0, size):
            raise ScenarioError(
                f"`estimator.{key}` has {len(found)} entries; it must have {size}, with -inf or inf for no limit, or none "
                "at all."
            )
    low, high = _bounds(table, size)
    if crossed := np.flatnonzero(low >= high).tolist():
        i = crossed[0]
        raise ScenarioError(
            f"`estimator.lower` is {low[i]:g} and `estimator.upper` is {high[i]:g} in entry {i}; the lower limit must be "
            "below the upper one."
        )


def _bounds(table: Mapping[str, Any], size: int) -> tuple[np.ndarray, np.ndarray]:
    """The limits of the estimated states, each `(size,)`, infinite where there is none."""
    low, high = (table.get(key) or [bound] * size for key, bound in BOUNDS.items())
    return np.asarray(low), np.asarray(high)


def estimator_of(
    scenario: Scenario, sensors: StateSensors | None, law: Regulator, system: System
) -> KalmanFilter | MovingHorizonEstimator | None:
    """The estimator of `[estimator]`, whose first estimate is the start of the plan; None without this table or sensors."""
    table = scenario["estimator"]
    if table is None or sensors is None:
        return None
    noise, dtype = scenario["sensors"]["noise"], law.u.dtype

    def squares(key):
        return _squares(table[key] or noise, dtype)

    q, u = jax.tree.map(lambda x: x[0], (law.q, law.u))
    # The estimator's model of the sensors has their noise, but neither their bias nor their resolution.
    sensors = StateSensors(sensors.noise)
    start, drift = squares("start"), squares("drift")
    filter = KalmanFilter(system, sensors, q, u, start, drift, iterations=table["iterations"])
    if table["kind"] == "kalman":
        return filter
    controls, limits = law.gains.shape[1], _limits(table, law, system)
    return MovingHorizonEstimator(filter, table["window"], table["iterations"], controls, limits)


def _limits(table: Mapping[str, Any], law: Regulator, system: System) -> tuple[PathLimit, ...]:
    """The limits of the estimated states.

    **Raises:** `ScenarioError` if the plan itself is beyond them.
    """
    low, high = _bounds(table, law.gains.shape[2])
    if not np.any(np.isfinite([low, high])):
        return ()
    coordinates = StateCoordinates(system)
    _check_plan(coordinates, law, low, high)
    low, high = (jnp.asarray(x, law.u.dtype) for x in (low, high))
    return (PathLimit(coordinates, low, high, "state"),)


def _check_plan(
    coordinates: StateCoordinates, law: Regulator, low: np.ndarray, high: np.ndarray
) -> None:
    states = jax.vmap(lambda q, u: coordinates(law.ts[0], q, u, None))(law.q, law.u)
    states = np.asarray(states)
    for key, bound, excess in (("lower", low, low - states), ("upper", high, states - high)):
        beyond = excess > BEYOND * (1 + np.abs(bound))
        for row, entry in np.argwhere(beyond).tolist()[:1]:
            raise ScenarioError(
                f"`estimator.{key}` is {bound[entry]:g} in entry {entry}, and the plan has {states[row, entry]:.4g} there "
                f"at t = {float(law.ts[row]):.4g} s. An estimate within the limits could not follow it; give wider ones."
            )


def _squares(deviations: list[float], dtype) -> Array:
    return jnp.asarray(deviations, dtype) ** 2
