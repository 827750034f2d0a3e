"""Checks of controllers: Kalman filters, receding horizons and deadlines, and the training of a law."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel._checks._arguments import (
    callable_with,
    check_called_with,
    check_count,
    check_random_key,
)
from jaxhamel._checks._dependence import depends_on
from jaxhamel._checks._traced import called
from jaxhamel._checks._values import (
    check_positive,
    check_real,
    check_shape,
    concrete,
    described,
    inline,
    type_of,
)
from jaxhamel._saved_arrays import saved_arrays
from jaxhamel.control._checks._closed_loop import MOST_DELAY
from jaxhamel.control._checks._collocation import check_limit_shape
from jaxhamel.control._checks._regulator import check_cost
from jaxhamel.mechanics import ROUTES, Constant
from jaxhamel.mechanics._checks._system import check_a_system, check_route, check_state
from jaxhamel.mechanics._tangent import tangent_size


def check_kalman(filter) -> None:
    """Checks that a filter has a system and its state, sensors with noise, and covariances of the size of the state."""
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


def check_moving_horizon(estimator) -> None:
    """Checks that the estimator has a filter, whole numbers of samples, iterations and controls, and limits of states."""
    filter = estimator.filter
    if isinstance(filter, type) or not hasattr(filter, "process_noise"):
        raise TypeError(
            f"`filter` is {type_of(filter)}; it must be a jaxhamel.control.KalmanFilter(system, sensors, …)."
        )
    check_count("window", estimator.window)
    check_count("iterations", estimator.iterations)
    if estimator.n_controls is not None:
        check_count("n_controls", estimator.n_controls, 0)
    if not isinstance(estimator.limits, tuple):
        raise TypeError(
            f"`limits` is {type_of(estimator.limits)}; it must be a tuple of jaxhamel.control.PathLimit(function, lower, "
            "upper)."
        )
    for limit in estimator.limits:
        _check_limit_of_states(limit, filter, estimator._width)


def _check_limit_of_states(limit: Any, filter: Any, width: int) -> None:
    """Checks that a limit is a `PathLimit` that depends on the state, with bounds of its shape that leave room."""
    if not hasattr(limit, "check_function"):
        raise TypeError(
            f"`limits` has an entry {type_of(limit)}; it must have jaxhamel.control.PathLimit(function, lower, upper) alone."
        )
    zero, dtype = jnp.zeros((), filter.u.dtype), filter.u.dtype
    control = Constant(jnp.zeros(width, dtype))
    limit.check_function(zero, filter.q, filter.u, control)

    def value(q, u):
        return limit.residual(filter.system, zero, q, u, control)

    check_limit_shape(limit.label, value(filter.q, filter.u).shape, limit.lower, limit.upper)
    if not any(depends_on(value, filter.q, filter.u)):
        raise ValueError(
            f"the limit `{limit.label}` depends on neither q nor u, so that no estimate can keep it. Leave it out."
        )
    low, high = concrete(limit.lower), concrete(limit.upper)
    if low is not None and high is not None and np.any(low == high):
        raise ValueError(
            f"`lower` and `upper` of `{limit.label}` are equal, {inline(low)}; limits must leave room. Give an equation "
            "as a measurement of little noise."
        )


def check_width(command, width: int) -> None:
    """Checks that a command has `width` entries, as the commands that the estimator's window stores."""
    if command.shape != (width,):
        raise ValueError(
            f"The command has shape {command.shape}, and the window of the MovingHorizonEstimator keeps {width} entries. "
            f"Give it `n_controls`, the number of entries of a command."
        )


OF_LATE_LAWS = "start", "step", "held", "resumed"  # methods that a law with a deadline needs
# Constraints that make a number of the problem unknown; a receding horizon cannot have them.
NO_UNKNOWNS = ("FreeEndTime", "FreeInitialState", "DesignParameter")


def check_state_shapes(made_for: tuple[Any, int], q: Any, u: Any) -> None:
    """Checks the shapes of a state (q, u) that a law is given; their values may be NaN."""
    space, velocities = made_for
    wanted = jax.tree.map(lambda x: x.shape, space.stored), (velocities,)
    got = jax.tree.map(np.shape, q), np.shape(u)
    if got != wanted:
        raise ValueError(f"The state (q, u) has the shapes {got}; the law is made for {wanted}.")


def check_receding(problem: Any, period: Any, late: Any, counts: dict[str, Any]) -> None:
    """Checks that the horizon is fixed, the period within it, and that iterations and periods of delay are whole numbers."""
    if not hasattr(problem, "constraints"):
        raise TypeError(
            f"`problem` is {type_of(problem)}; it must be a jaxhamel.control.ControlProblem."
        )
    for constraint in problem.constraints:
        if (name := type(constraint).__name__) in NO_UNKNOWNS:
            raise ValueError(
                f"`problem` has a {name}; horizon, initial state and system of a RecedingHorizon are given. Leave it out."
            )
    check_shape("period", period, (), "It is the sampling period [s].")
    check_positive("period", period, "It is the sampling period [s], say 0.02.")
    step, ts = concrete(period), concrete(problem.ts)
    if step is not None and ts is not None and step > ts[-1] - ts[0]:
        raise ValueError(
            f"`period` is {inline(step)} s, longer than the horizon of the problem, {ts[-1] - ts[0]:.6g} s. Give a shorter "
            "one, or a problem with a longer horizon."
        )
    for name, value in counts.items():
        check_count(name, value, 0 if name == "delay" else 1, MOST_DELAY)
    if late is not None and (not callable(late) or not callable_with(late, 1)):
        raise TypeError(f"`late` is {type_of(late)}; it must be a callable t -> bool, or None.")


def check_start(not_finite: list[str]) -> None:
    """Checks that nothing is NaN or infinite where the search for the first plan starts; `not_finite`: the names."""
    if not_finite:
        raise ValueError(
            f"`problem` is not finite where the search for the first plan starts: {', '.join(not_finite)}. Look for a NaN "
            "there, and in the curve and the guess of the problem."
        )


def check_deadline(law: Any, deadline: Any) -> None:
    """Checks that the law can continue with its last plan when it is late, and that the deadline is positive."""
    if isinstance(law, type) or not all(hasattr(law, name) for name in OF_LATE_LAWS):
        raise TypeError(
            f"`law` is {type_of(law)}; it must have the methods {', '.join(OF_LATE_LAWS)}, as a "
            "jaxhamel.control.RecedingHorizon has."
        )
    check_shape("deadline", deadline, (), "It is the time for one step [s].")
    check_positive("deadline", deadline, "It is the time for one step [s], say 0.01.")


def check_training(loss, policy, updates, key, optimiser) -> None:
    """Checks that the policy has numbers to learn, the optimiser is one of optax, and the loss is one real number."""
    check_called_with("loss", loss, 2, "of (policy, key)")
    check_count("updates", updates)
    check_random_key("key", key)
    if not hasattr(optimiser, "init") or not hasattr(optimiser, "update"):
        raise TypeError(
            f"`optimiser` is {type_of(optimiser)}; it must be one of optax, such as optax.adam(1e-2)."
        )
    if not jax.tree.leaves(eqx.filter(policy, eqx.is_inexact_array)):
        raise ValueError(
            "`policy` has no floating array to learn. Give a pytree with some, such as an equinox.nn.MLP."
        )
    value = called("`loss`", loss, policy, key)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape != () or dtype is None or not np.issubdtype(dtype, np.floating):
        got = type_of(value) if shape is None else f"an array of shape {shape} and {dtype}"
        raise ValueError(f"`loss` gives {got}; it must give one real number, such as a mean.")


def check_checkpoint(checkpoint: Any) -> Path | None:
    """Checks the path of a checkpoint, if one is given."""
    if checkpoint is None:
        return None
    if not isinstance(checkpoint, str | Path):
        raise TypeError(
            f"`checkpoint` is {described(checkpoint)}; it must be the name of a file, or None."
        )
    path = Path(checkpoint)
    if path.is_dir() or not path.parent.is_dir():
        reason = "a folder" if path.is_dir() else "in a folder that does not exist"
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, {reason}; it must be the name of a file in a folder that exists."
        )
    return path


def check_losses_file(path: Path, leaves: list[Any]) -> dict[str, np.ndarray]:
    """Checks that a checkpoint fits policy and optimiser, whose arrays are `leaves`; returns its arrays by name."""
    try:
        with saved_arrays(path) as file:
            found = {name: file.read(name) for name in file.names}
    except ValueError as error:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which is no checkpoint of a training ({error}). Give another name."
        ) from None
    wanted = {f"state {i}": (x.shape, x.dtype) for i, x in enumerate(leaves)}
    got = {name: (x.shape, x.dtype) for name, x in found.items() if name != "losses"}
    losses = found.get("losses")
    if got != wanted or losses is None or losses.dtype != float or losses.ndim != 1:
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, of another policy or optimiser: other shapes. Give another name."
        )
    if not all(np.all(np.isfinite(x)) for x in found.values()):
        raise ValueError(
            f"`checkpoint` is {str(path)!r}, which has numbers that are not finite. Give another name."
        )
    return found
