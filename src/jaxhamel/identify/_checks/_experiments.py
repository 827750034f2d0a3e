"""Checks of the arguments of experiment design and posterior sampling."""

import jax
import numpy as np

from jaxhamel._checks._times import check_steps
from jaxhamel._checks._values import check_finite, check_positive
from jaxhamel.mechanics._checks._system import check_state


def check_noise_given(measurements) -> None:
    """Checks that every measurement has a standard deviation."""
    for measurement in measurements:
        if measurement.noise is None:
            raise ValueError(
                f"measurement {measurement.name!r} has no `noise`; an experiment can only be planned for sensors whose "
                "standard deviation is known. Give it, in the unit of the measurement."
            )


def check_planned(system, q0, u0, state_error, limits, dt) -> None:
    """Checks the initial state, its standard deviation, the limits and the step of a planned experiment."""
    check_state(system, q0, jax.numpy.asarray(u0))
    for leaf in jax.tree.leaves(q0):
        check_finite("q0", np.asarray(leaf))
    check_positive("state_error", np.asarray(state_error))
    size = system.space.dim + system.n_independent
    if np.shape(state_error) not in ((), (size,)):
        raise ValueError(
            f"`state_error` has shape {np.shape(state_error)}; it must be one number, or one for each of the {size} "
            "coordinates of the state."
        )
    for name, limit in zip(("max_rate", "max_acceleration"), limits, strict=True):
        if limit is not None:
            check_positive(name, np.asarray(limit), "It is a limit on the curve, or None.")
    check_steps(None, None, dt)


def check_criterion(criterion, criteria) -> None:
    """Checks that the criterion is a known one."""
    if criterion not in criteria:
        raise ValueError(
            f"`criterion` is {criterion!r}; it must be one of {', '.join(map(repr, criteria))}: volume of the "
            "ellipsoid of confidence, mean variance, worst direction."
        )


def check_informative(information) -> None:
    """Checks that the initial experiment determines all parameters; otherwise the search has no finite starting value."""
    values = np.linalg.eigvalsh(information)
    if not np.all(np.isfinite(values)) or values[0] <= 1e-13 * max(values[-1], 1.0):
        raise ValueError(
            "the experiment to start from does not determine all parameters: the eigenvalues of its information go "
            f"from {values[0]:.3g} to {values[-1]:.3g}. Start from a curve that moves everything, freeze what no motion can "
            "tell, or measure more."
        )
