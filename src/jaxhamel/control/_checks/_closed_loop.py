"""Checks of digital controllers and of their sensors."""

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with, check_count, check_random_key
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    check_arrays,
    check_finite,
    check_not_negative,
    check_one_time,
    check_positive,
    check_real,
    check_shape,
    check_velocity,
    concrete,
    described,
    inline,
    type_of,
)
from jaxhamel.control._checks._laws import check_law, check_timing_of_law
from jaxhamel.mechanics import ROUTES
from jaxhamel.mechanics._checks._feedback import check_made_for
from jaxhamel.mechanics._checks._system import check_a_system, check_route
from jaxhamel.mechanics._tangent import tangent_size


def check_sampled(controller) -> None:
    """Checks that the law can be called, the period is positive, the delay whole, and the limits in order."""
    _check_sensors_of(controller)
    _check_estimator_of(controller)
    check_law(controller)
    check_shape("period", controller.period, (), "It is the sampling period [s].")
    check_positive("period", controller.period, "It is the sampling period [s], say 0.01.")
    _check_delay(controller.delay)
    check_timing_of_law(controller)
    _check_model_of(controller)
    for name in ("lower", "upper", "rate", "start"):
        _check_entries(name, getattr(controller, name), "one for each entry of the command")
    check_finite("start", controller.start)
    low, high = concrete(controller.lower), concrete(controller.upper)
    if low is not None and high is not None and not np.all(low <= high):  # raises for NaN, too
        raise ValueError(
            f"`lower` is {inline(low)} and `upper` is {inline(high)}; no lower limit may be above its upper one. Swap them?"
        )
    rate = concrete(controller.rate)
    if rate is not None and not np.all(rate > 0):
        raise ValueError(
            f"`rate` is {inline(rate)}; the largest change of the command in one second must be positive, inf for none."
        )


def _check_entries(name: str, value, what: str) -> None:
    """Checks that a value is one real number or a vector that is not empty."""
    check_real(name, value)
    shape = np.shape(value)
    if len(shape) > 1 or shape == (0,):
        raise ValueError(f"`{name}` has shape {shape}; it must be one number or a vector, {what}.")


def _check_delay(delay) -> None:
    if isinstance(delay, bool) or not isinstance(delay, int) or not 0 <= delay <= MOST_DELAY:
        raise ValueError(
            f"`delay` is {described(delay)}; it counts sampling periods and must be a whole number from 0 to {MOST_DELAY}. "
            "For a delay in s choose a `period` of which it is a multiple."
        )


MOST_DELAY = 10_000  # [periods]; the state of a loop keeps every command that is delayed


def _check_sensors_of(controller) -> None:
    sensors = controller.sensors
    if sensors is not None and (isinstance(sensors, type) or not hasattr(sensors, "resolution")):
        raise TypeError(
            f"`sensors` is {type_of(sensors)}; it must be a jaxhamel.control.Sensors(measurements), StateSensors(noise), "
            "or None."
        )


def _check_estimator_of(controller) -> None:
    """Checks that the estimator is a filter, and that the controller has sensors for it."""
    estimator = controller.estimator
    if estimator is None:
        return
    if isinstance(estimator, type) or not hasattr(estimator, "update"):
        raise TypeError(
            f"`estimator` is {type_of(estimator)}; it must be a jaxhamel.control.KalmanFilter(system, sensors, …), a "
            "MovingHorizonEstimator(filter), or None."
        )
    if controller.sensors is None:
        raise ValueError(
            "`estimator` is given without `sensors`; it estimates the state from their observations. Give the `sensors` too."
        )


def _check_model_of(controller) -> None:
    """Checks that the model is a system, and that the law is given a state, which the model can predict."""
    if controller.model is None:
        return
    check_a_system(controller.model, "model")
    gives_state = getattr(controller.sensors, "gives_state", controller.sensors is None)
    if controller.estimator is None and not gives_state:
        raise ValueError(
            "`model` predicts the state over the delay, but the law is given the observation of `sensors`. Give an "
            "`estimator` of the state too, or leave `model` out."
        )
    if hasattr(controller.law, "delay"):
        raise ValueError(
            f"`model` is given, but the {type(controller.law).__name__} predicts the state over its delay by itself. Leave "
            "`model` out."
        )


def check_parts_of(controller, system) -> None:
    """Checks that the law and the model of a controller have states like those that the law is given: those of the system
    or, with an estimator, of the estimator's own model, which has to have the system's if the sensors give the state."""
    filter = getattr(controller.estimator, "filter", controller.estimator)
    if filter is not None and getattr(controller.sensors, "gives_state", False):
        check_made_for("`estimator`", filter.system, system)
    given = system if filter is None else filter.system
    check_made_for("`law`", controller.law, given)
    check_made_for("`model`", controller.model, given)


def check_width_of_model(model, width: int) -> None:
    """Checks that a predicting model takes the commands, of `width` entries."""
    if model.n_controls is not None and model.n_controls != width:
        raise ValueError(
            f"`model` takes {model.n_controls} controls, and a command has {width}; both numbers must be the same."
        )


def check_held(held) -> None:
    """Checks that the time is finite, the period positive, and that there is at least one command."""
    check_one_time("first", held.first)
    check_shape("period", held.period, (), "It is the sampling period [s].")
    check_positive("period", held.period, "It is the sampling period [s], say 0.01.")
    check_shape("commands", held.commands, ("K", "p"), "One row for each period.")
    if held.commands.shape[0] == 0:
        raise ValueError("`commands` has no row; it must have at least one, for the first period.")
    check_finite("commands", held.commands)


def check_closed_loop(system, start, controller, counts, route) -> None:
    """Checks the arguments of `closed_loop`: the system, (q0, u0, t0) = `start`, the digital controller,
    (samples, steps, key) = `counts`, and the name of the route."""
    (q0, u0, t0), (samples, steps, key) = start, counts
    check_a_system(system)
    check_arrays(q0=q0, u0=u0)
    check_velocity("u0", u0)
    check_one_time("t0", t0)
    if isinstance(controller, type) or not hasattr(controller, "command"):
        raise TypeError(
            f"`controller` is {type_of(controller)}; it must be a jaxhamel.control.Sampled(law, period). In continuous time "
            "give jaxhamel.Feedback(law) to jaxhamel.simulate."
        )
    check_count("samples", samples, most=MOST_PERIODS)
    check_count("steps", steps, most=MOST_PERIODS)
    check_is_key(key)
    check_route(route, ROUTES)


MOST_PERIODS = 2**31 - 1  # periods, or steps in a period: they are counted by 32-bit integers


def check_sampling_times(t0, period, samples: int) -> None:
    """Checks that the sampling times are finite, and that the first two and the last two differ in the dtype of t0."""
    first, step = concrete(t0), concrete(period)
    if first is None or step is None:
        return
    counts = np.array([0, 1, samples - 1, samples], first.dtype)
    with np.errstate(over="ignore"):
        times = first + np.multiply.outer(step.astype(first.dtype), counts)
    if (
        not np.all(np.isfinite(times))
        or not np.all(np.diff(times[..., [0, 1]]) > 0)
        or not np.all(np.diff(times[..., [2, 3]]) > 0)
    ):
        raise ValueError(
            f"`period` is {inline(step)} and `t0` is {inline(first)}: the times t0 + k period up to k = {samples} are not "
            f"different finite numbers in {first.dtype}. Give a period of another size, or count the time from 0."
        )


def check_is_key(key) -> None:
    """Checks that `key` is a JAX random key or None."""
    if key is None:
        return
    check_random_key("key", key)


def check_sensors(sensors) -> None:
    """Checks that measurements can be called, and that the sizes of errors are not negative."""
    if not isinstance(sensors.measurements, tuple) or not sensors.measurements:
        raise TypeError(
            f"`measurements` is {type_of(sensors.measurements)}; it must be a tuple of one or more callables "
            "(system, t, q, u, control) -> (r,)."
        )
    for i, measurement in enumerate(sensors.measurements):
        if not callable(measurement) or not callable_with(measurement, 5):
            raise TypeError(
                f"`measurements[{i}]` is {type_of(measurement)}; it must be a callable (system, t, q, u, control) -> (r,), "
                "such as jaxhamel.identify.Gyroscope()."
            )
    check_real("resolution", sensors.resolution)
    check_errors(sensors)


def check_errors(sensors) -> None:
    """Checks that standard deviations and resolutions are not negative, and a bias is finite."""
    for name in ("noise", "bias", "resolution"):
        if (value := getattr(sensors, name)) is not None:
            _check_entries(name, value, "one for each measured number")
    check_not_negative("noise", sensors.noise, "It is a standard deviation.")
    check_finite("bias", sensors.bias)
    if sensors.resolution is not None:
        check_not_negative(
            "resolution", sensors.resolution, "It is the step to which values are rounded; 0: none."
        )


def check_observation(sensors, at) -> jax.ShapeDtypeStruct:
    """Checks the shapes of the sensors' errors; returns the shape of an observation at (system, t, q, u, control) = `at`.

    An observation has the entries of all measurements or, if the state is measured, those of its tangent space.
    """
    exact = jax.ShapeDtypeStruct((_measured_numbers(sensors, at),), at[1].dtype)
    for name in ("noise", "bias", "resolution"):
        shape = np.shape(getattr(sensors, name))
        if getattr(sensors, name) is not None and shape not in ((), exact.shape):
            raise ValueError(
                f"`{name}` of the sensors has shape {shape}; it must be one number or {exact.shape}, one for each measured "
                "number."
            )
    return exact


def check_same_observation(controller, t, control, exact: jax.ShapeDtypeStruct) -> None:
    """Checks that the model of an estimator has observations of the same form as the loop, `exact`."""
    filter = getattr(controller.estimator, "filter", controller.estimator)
    expected = check_observation(filter.sensors, (filter.system, t, filter.q, filter.u, control))
    given = _form(controller.sensors, exact)
    modelled = _form(filter.sensors, expected)
    if given != modelled:
        raise ValueError(
            f"`sensors` give {given}, and those of the `estimator` {modelled}; both must be of one form. Give the estimator "
            "a model of the same sensors."
        )


def _form(sensors, exact: jax.ShapeDtypeStruct) -> str:
    """The form of an observation, for a message."""
    is_state = getattr(sensors, "gives_state", False)
    return f"{'states of ' if is_state else ''}{exact.shape[0]} numbers"


def _measured_numbers(sensors, at) -> int:
    if getattr(sensors, "gives_state", False):
        return tangent_size(at[0])
    rows = [
        _check_measurement(i, called(f"`measurements[{i}]`", measurement, *at))
        for i, measurement in enumerate(sensors.measurements)
    ]
    return sum(rows)


def _check_measurement(i: int, value) -> int:
    """Checks the value of one measurement; returns the number of its entries."""
    shape = getattr(value, "shape", () if isinstance(value, int | float) else None)
    if shape is None or len(shape) > 1:
        got = f"{described(value)}" if shape is None else f"an array of shape {shape}"
        raise ValueError(
            f"`measurements[{i}]` gives {got}; it must give one real number or a vector (r,). Make one array of it by "
            "`jnp.stack` or `jnp.concatenate`."
        )
    return shape[0] if shape else 1


def check_key(key, sensors) -> None:
    """Checks that there is a random key where sensors have noise."""
    noise = concrete(sensors.noise)
    if key is None and (noise is None or np.any(noise > 0)):
        raise ValueError(
            "`key` is missing: the sensors have `noise`. Give a JAX random key, for example jax.random.key(0)."
        )


def check_command(controller, value) -> int:
    """Checks that a command is a vector, and each of its limits a number or of its length; returns this length."""
    if getattr(value, "ndim", None) != 1:
        shape = getattr(value, "shape", None)
        got = f"an object {type_of(value)}" if shape is None else f"an array of shape {shape}"
        raise ValueError(
            f"`law` gives {'None' if value is None else got}; a command must be one array (p,), such as jnp.stack([...])."
        )
    for name in ("lower", "upper", "rate", "start"):
        limit = getattr(controller, name)
        if limit.shape not in ((), value.shape):
            raise ValueError(
                f"`{name}` has shape {limit.shape}; it must be one number or {value.shape}, one for each entry of "
                "the command."
            )
    return value.shape[0]
