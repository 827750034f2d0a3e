"""Builds the state estimator of `[estimator]`, which uses the sensors of `[sensors]` and the planned system as its model."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel.cli._scenario._scenario import Scenario
from jaxhamel.cli._scenario._validate import ScenarioError
from jaxhamel.control import KalmanFilter, MovingHorizonEstimator, Regulator, StateSensors
from jaxhamel.mechanics import System


def check_estimator(scenario: Scenario) -> None:
    """Checks that `sensors.noise` is given if there is an `[estimator]`, which weighs measurements by their noise.

    **Raises:** `ScenarioError` that names the key.
    """
    if scenario["estimator"] is None:
        return
    noise = (scenario["sensors"] or {}).get("noise") or [0.0]
    if min(noise) <= 0:
        raise ScenarioError(
            "`[estimator]` needs `sensors.noise`, a number larger than 0 for each entry of the state: an estimator weighs "
            "measurements by it. Give it, or leave `[estimator]` out."
        )


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
    # the estimator's model of the sensors has their noise, but neither their bias nor their resolution
    sensors = StateSensors(sensors.noise)
    start, drift = squares("start"), squares("drift")
    filter = KalmanFilter(system, sensors, q, u, start, drift, iterations=table["iterations"])
    if table["kind"] == "kalman":
        return filter
    controls = law.gains.shape[1]
    return MovingHorizonEstimator(filter, table["window"], table["iterations"], controls)


def _squares(deviations: list[float], dtype) -> Array:
    return jnp.asarray(deviations, dtype) ** 2
