"""Checks of digital controllers, of their sensors, and of the costs and the plan of a regulator."""

import jax
import numpy as np

from jaxhamel._checks._arguments import callable_with, check_count, check_random_key
from jaxhamel._checks._times import check_control_along, check_time_array, check_times
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    check_arrays,
    check_finite,
    check_not_negative,
    check_one_array,
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
from jaxhamel.mechanics._checks._system import check_a_system, check_route
from jaxhamel.mechanics._tangent import tangent_size


def check_sampled(controller) -> None:
    """A law that can be called, a period, a whole number of periods as delay, limits in order."""
    _check_sensors_of(controller)
    _check_estimator_of(controller)
    check_law(controller)
    check_shape("period", controller.period, (), "It is the sampling period [s].")
    check_positive("period", controller.period, "It is the sampling period [s], say 0.01.")
    _check_delay(controller.delay)
    check_timing_of_law(controller)
    for name in ("lower", "upper", "rate", "start"):
        _check_entries(name, getattr(controller, name), "one for each entry of the command")
    check_finite("start", controller.start)
    low, high = concrete(controller.lower), concrete(controller.upper)
    if low is not None and high is not None and not np.all(low <= high):  # not even with NaN
        raise ValueError(
            f"`lower` is {inline(low)} and `upper` is {inline(high)}; no lower limit may be above its upper one. Swap them?"
        )
    rate = concrete(controller.rate)
    if rate is not None and not np.all(rate > 0):
        raise ValueError(
            f"`rate` is {inline(rate)}; the largest change of the command in one second must be positive, inf for none."
        )


def _check_entries(name: str, value, what: str) -> None:
    """One real number or a vector that is not empty."""
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


MOST_DELAY = 10_000  # commands that wait are part of the state


def _check_sensors_of(controller) -> None:
    sensors = controller.sensors
    if sensors is not None and (isinstance(sensors, type) or not hasattr(sensors, "resolution")):
        raise TypeError(
            f"`sensors` is {type_of(sensors)}; it must be a jaxhamel.control.Sensors(measurements), StateSensors(noise), "
            "or None."
        )


def _check_estimator_of(controller) -> None:
    """A filter, where there are sensors."""
    estimator = controller.estimator
    if estimator is None:
        return
    if isinstance(estimator, type) or not hasattr(estimator, "update"):
        raise TypeError(
            f"`estimator` is {type_of(estimator)}; it must be a jaxhamel.control.KalmanFilter(system, sensors, …), or None."
        )
    if controller.sensors is None:
        raise ValueError(
            "`estimator` is given without `sensors`; it estimates the state from their observations. Give the `sensors` too."
        )


def check_held(held) -> None:
    """A finite time, a period that is positive, at least one command."""
    check_one_time("first", held.first)
    check_shape("period", held.period, (), "It is the sampling period [s].")
    check_positive("period", held.period, "It is the sampling period [s], say 0.01.")
    check_shape("commands", held.commands, ("K", "p"), "One row for each period.")
    if held.commands.shape[0] == 0:
        raise ValueError("`commands` has no row; it must have at least one, for the first period.")
    check_finite("commands", held.commands)


def check_closed_loop(system, start, controller, counts, route) -> None:
    """A system, an initial state and time of numbers, a digital controller, whole numbers of periods and of steps, a JAX
    key, and the name of a route; the values of (q0, u0, t0) = `start` and (samples, steps, key) = `counts`."""
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
    check_count("samples", samples, most=MOST)
    check_count("steps", steps, most=MOST)
    check_is_key(key)
    check_route(route, ROUTES)


MOST = 2**31 - 1  # periods, or steps in a period: they are counted by 32-bit integers


def check_samples(t0, period, samples: int) -> None:
    """The sampling times are finite, and the first and the last two are different numbers in the dtype of t0."""
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
    if key is None:
        return
    check_random_key("key", key)


def check_sensors(sensors) -> None:
    """Callable measurements, sizes that are not negative."""
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
    """Standard deviations and resolutions that are not negative, a bias that is finite."""
    for name in ("noise", "bias", "resolution"):
        if (value := getattr(sensors, name)) is not None:
            _check_entries(name, value, "one for each measured number")
    check_not_negative("noise", sensors.noise, "It is a standard deviation.")
    check_finite("bias", sensors.bias)
    if sensors.resolution is not None:
        check_not_negative(
            "resolution", sensors.resolution, "It is the distance of two values; 0: none."
        )


def check_measured(sensors, at) -> jax.ShapeDtypeStruct:
    """The shape of an observation at (system, t, q, u, control): that of the measurements after one another, or of the
    errors of a measured state."""
    exact = jax.ShapeDtypeStruct((_measured_numbers(sensors, at),), at[1].dtype)
    for name in ("noise", "bias", "resolution"):
        shape = np.shape(getattr(sensors, name))
        if getattr(sensors, name) is not None and shape not in ((), exact.shape):
            raise ValueError(
                f"`{name}` of the sensors has shape {shape}; it must be one number or {exact.shape}, one for each measured "
                "number."
            )
    return exact


def _measured_numbers(sensors, at) -> int:
    if getattr(sensors, "gives_state", False):
        return tangent_size(at[0])
    rows = [
        _check_measurement(i, called(f"`measurements[{i}]`", measurement, *at))
        for i, measurement in enumerate(sensors.measurements)
    ]
    return sum(rows)


def _check_measurement(i: int, value) -> int:
    """The number of entries of one measurement."""
    shape = getattr(value, "shape", () if isinstance(value, int | float) else None)
    if shape is None or len(shape) > 1:
        got = f"{described(value)}" if shape is None else f"an array of shape {shape}"
        raise ValueError(
            f"`measurements[{i}]` gives {got}; it must give one real number or a vector (r,). Make one array of it by "
            "`jnp.stack` or `jnp.concatenate`."
        )
    return shape[0] if shape else 1


def check_key(key, sensors) -> None:
    """Noise needs a random key."""
    noise = concrete(sensors.noise)
    if key is None and (noise is None or np.any(noise > 0)):
        raise ValueError(
            "`key` is missing: the sensors have `noise`. Give a JAX random key, for example jax.random.key(0)."
        )


def check_command(controller, value) -> int:
    """The length of a command, a vector, with limits of its length or of one number."""
    if getattr(value, "ndim", None) != 1:
        shape = getattr(value, "shape", None)
        got = f"an object {type_of(value)}" if shape is None else f"an array of shape {shape}"
        raise ValueError(
            f"`law` gives {'None' if value is None else got}; a command must be one array (p,)."
        )
    for name in ("lower", "upper", "rate", "start"):
        limit = getattr(controller, name)
        if limit.shape not in ((), value.shape):
            raise ValueError(
                f"`{name}` has shape {limit.shape}; it must be one number or {value.shape}, one for each entry of "
                "the command."
            )
    return value.shape[0]


def check_regulated(system, ts, q, u, route) -> None:
    """A system, times and states of numbers, the name of a route."""
    check_a_system(system)
    check_time_array(ts)
    check_arrays(q=q, u=u)
    for part in jax.tree.leaves(q):
        check_finite("q", part)
    check_one_array("u", u, "an array with one row for each time of `ts`")
    check_route(route, ROUTES)


def check_plan(system, ts, q, u, control) -> int:
    """A motion of the system at times with equal steps, and its control; the number of its entries."""
    if system.prescribed_motion:
        raise TypeError(
            f"`system` is {type(system).__name__}, whose control prescribes the motion of its parts; regulate "
            "jaxhamel.MovingParts(system), where it is part of the state."
        )
    check_times(ts)
    _check_equal_steps(concrete(ts))
    rows = ts.shape[0]
    wanted = jax.tree.map(lambda x: (rows, *x.shape), system.space.stored)
    got = jax.tree.map(lambda x: tuple(np.shape(x)), q)
    if got != wanted:
        raise ValueError(
            f"`q` has shapes {got}; it must be a configuration at each of the {rows} times of `ts`: {wanted}."
        )
    check_shape("u", u, (rows, system.n_independent), "One row for each time of `ts`.")
    check_finite("u", u)
    if control is None:
        raise ValueError(
            "`control` is missing: a regulator corrects a control. Give the plan's, a callable of t or a constant."
        )
    values = check_control_along(ts, control)
    if getattr(values, "ndim", None) == 2:  # one vector for each time
        value = jax.ShapeDtypeStruct(values.shape[1:], values.dtype, weak_type=values.weak_type)
    else:
        value = called("`control`", control, ts[0])
    if getattr(value, "dtype", u.dtype) != u.dtype and not getattr(value, "weak_type", False):
        raise TypeError(
            f"`control` gives {value.dtype} where the plan is {u.dtype}; both must be of one floating dtype."
        )
    shape = getattr(value, "shape", None)
    if shape is None or len(shape) != 1:
        got = type_of(value) if shape is None else f"of shape {shape}"
        raise ValueError(f"`control` has a value that is {got}; it must be one array (p,).")
    if np.dtype(value.dtype).kind not in "iufV":  # V: bfloat16 and similar types
        raise TypeError(f"`control` has values of {value.dtype}; they must be real numbers.")
    return shape[0]


def _check_equal_steps(times) -> None:
    if times is None:
        return
    if len(times) < 2:
        raise ValueError("`ts` has 1 time; a plan has two or more.")
    steps = np.diff(times)
    if np.max(np.abs(steps - steps.mean())) > 1e-4 * steps.mean():
        raise ValueError(
            f"`ts` has steps from {steps.min():.6g} to {steps.max():.6g} s; they must be equal. Simulate the plan at "
            "jnp.linspace(first, last, count)."
        )


def check_cost(name: str, cost, size: int, positive: bool) -> None:
    """A diagonal or a symmetric matrix of the right size, positive (semi-)definite."""
    check_real(name, cost)
    if cost.shape not in ((size,), (size, size)):
        raise ValueError(
            f"`{name}` has shape {cost.shape}; it must be ({size},), a diagonal, or ({size}, {size})."
        )
    check_finite(name, cost)
    array = concrete(cost)
    if array is None:
        return
    matrix = np.diag(array) if array.ndim == 1 else array
    room = 1e-6 * np.max(np.abs(matrix), initial=0.0)
    if np.max(np.abs(matrix - matrix.T), initial=0.0) > room:
        raise ValueError(f"`{name}` is not symmetric. Take half the sum of it and its transpose.")
    least = np.min(np.linalg.eigvalsh(matrix), initial=np.inf)
    if least < -room or (positive and least <= 0):
        wanted = "positive" if positive else "zero or more"
        raise ValueError(f"`{name}` has the eigenvalue {least:.6g}; all must be {wanted}.")


def check_gains(gains, steps) -> None:
    """Finite gains: RK4 of the Riccati equation is unstable where a step is long for the closed loop."""
    array = concrete(gains)
    if array is not None and not np.all(np.isfinite(array)):
        raise ValueError(
            f"The gains are not finite: with `steps` = {described(steps)} in each interval of `ts` the Riccati equation is "
            f"unstable, because the closed loop is fast. Give more `steps`, for example {2 * int(steps)}, or a larger "
            "`control_cost`; if that does not help, look for NaN in the plan."
        )


def check_result(result) -> None:
    """The result of a search whose motion reaches the end."""
    if not hasattr(result, "trajectory") or not hasattr(result, "problem"):
        raise TypeError(
            f"`result` is {type_of(result)}; it must be the result of jaxhamel.control.solve. For any other motion give its "
            "system, times, states and control to regulate."
        )
    if not bool(result.trajectory.succeeded):
        raise ValueError(
            f"`result` has a motion that breaks down at t = {float(result.trajectory.t_end):.6g} s; there is no plan to "
            "hold to. Search again with more iterations or from another start."
        )
