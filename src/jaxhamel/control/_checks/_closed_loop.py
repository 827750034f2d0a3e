"""Checks of digital controllers, of their sensors, and of the costs and the plan of a regulator."""

import jax
import numpy as np

from jaxhamel._checks._times import check_control_along, check_times
from jaxhamel._checks._values import (
    check_finite,
    check_not_negative,
    check_positive,
    check_real,
    check_shape,
    concrete,
    inline,
    type_of,
)
from jaxhamel.mechanics._checks._feedback import callable_with


def check_sampled(controller) -> None:
    """A law that can be called, a period, a whole number of periods as delay, limits in order."""
    wanted, words = (
        (3, "(t, q, u) -> command")
        if controller.sensors is None
        else (2, "(t, observation) -> command, because there are `sensors`")
    )
    if not callable(controller.law) or not callable_with(controller.law, wanted):
        raise TypeError(
            f"`law` is {type_of(controller.law)}; it must be a callable pytree {words}."
        )
    check_shape("period", controller.period, (), "It is the sampling period [s].")
    check_positive("period", controller.period, "It is the sampling period [s], say 0.01.")
    _check_delay(controller.delay)
    for name in ("lower", "upper", "rate", "start"):
        check_real(name, getattr(controller, name))
    low, high = concrete(controller.lower), concrete(controller.upper)
    if low is not None and high is not None and not np.all(low <= high):
        raise ValueError(
            f"`lower` is {inline(low)} and `upper` is {inline(high)}; no lower limit may be above its upper one. Swap them?"
        )
    rate = concrete(controller.rate)
    if rate is not None and not np.all(rate > 0):
        raise ValueError(
            f"`rate` is {inline(rate)}; the largest change of the command in one second must be positive, inf for none."
        )


def _check_delay(delay) -> None:
    if isinstance(delay, bool) or not isinstance(delay, int) or delay < 0:
        raise ValueError(
            f"`delay` is {delay!r}; it counts sampling periods and must be a whole number, 0 or more. For a delay in s "
            "choose a `period` of which it is a multiple."
        )


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
    check_not_negative("noise", sensors.noise, "It is a standard deviation.")
    check_finite("bias", sensors.bias)
    check_not_negative(
        "resolution", sensors.resolution, "It is the distance of two values; 0: none."
    )


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
        raise ValueError(
            f"`law` gives {type_of(value)} of shape {np.shape(value)}; a command must be one array (p,)."
        )
    for name in ("lower", "upper", "rate", "start"):
        limit = getattr(controller, name)
        if limit.shape not in ((), value.shape):
            raise ValueError(
                f"`{name}` has shape {limit.shape}; it must be one number or {value.shape}, one for each entry of "
                "the command."
            )
    return value.shape[0]


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
    check_control_along(ts, control)
    shape = jax.eval_shape(control, ts[0]).shape
    if len(shape) != 1:
        raise ValueError(f"`control` has values of shape {shape}; they must be (p,).")
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
