"""Checks of a Kalman filter: its model, its sensors, its covariances."""

import numpy as np

from jaxhamel._checks._arguments import check_count
from jaxhamel._checks._values import check_real, concrete, inline, type_of
from jaxhamel.control._checks._closed_loop import check_cost
from jaxhamel.mechanics import ROUTES
from jaxhamel.mechanics._checks._system import check_a_system, check_route, check_state
from jaxhamel.mechanics._tangent import tangent_size


def check_kalman(filter) -> None:
    """A system and its state, sensors with noise, covariances of the size of the state."""
    check_a_system(filter.system)
    sensors = filter.sensors
    if isinstance(sensors, type) or not hasattr(sensors, "resolution"):
        raise TypeError(
            f"`sensors` is {type_of(sensors)}; it must be a jaxhamel.control.Sensors(measurements, noise) or "
            "StateSensors(noise)."
        )
    noise = concrete(sensors.noise)
    if noise is not None and not np.all(noise > 0):
        raise ValueError(
            f"`sensors` have the noise {inline(noise)}; a filter divides by it, and all must be positive. Give the standard "
            "deviation of each measured number, for an exact one its resolution."
        )
    check_state(filter.system, filter.q, filter.u)
    size = tangent_size(filter.system)
    check_cost("covariance", filter.covariance, size, positive=False)
    check_real("process_noise", filter.process_noise)
    if np.ndim(filter.process_noise):
        check_cost("process_noise", filter.process_noise, size, positive=False)
    elif (value := concrete(filter.process_noise)) is not None and not 0 <= value < np.inf:
        raise ValueError(f"`process_noise` is {inline(value)}; a covariance must be 0 or more.")
    check_count("iterations", filter.iterations)
    check_count("steps", filter.steps)
    check_route(filter.route, ROUTES)
