"""Checks of identification: systems, predicted measurements, planned experiments, guesses, stages, criteria."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._arguments import (
    check_called_with,
    check_kind,
    check_outside,
)
from jaxhamel._checks._times import check_steps
from jaxhamel._checks._values import (
    check_finite,
    check_positive,
    concrete,
    inline,
    path_of,
    type_of,
)
from jaxhamel._words import counted
from jaxhamel.identify._checks._parameters import check_path
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._system import check_state


def check_identified(system) -> None:
    """Checks that the argument is a system, and that none of its parameters is traced or NaN."""
    check_kind("system", system, System, "it must be a jaxhamel.System with its values.")
    for keys, leaf in tree_flatten_with_path(system)[0]:
        check_outside(f"system.{path_of(keys)}", leaf)
        values = concrete(leaf)
        if values is not None and values.dtype.kind in "fV" and np.any(np.isnan(values)):
            raise ValueError(
                f"`system.{path_of(keys)}` is {inline(values)}; a NaN there would make the whole motion NaN."
            )


def check_shown(system, measurements, run) -> None:
    """Checks that each measurement function returns as many numbers as the measurement has columns.

    Measurements that need accelerations are skipped, because tracing them takes long.
    """
    for m in measurements:
        if m.uses_rates:
            continue
        shape = _shape_shown(m, system, run.ts[0], run.control)
        if shape != (m.size,):
            raise ValueError(
                f"measurement {m.name!r} gives an array of shape {shape} and has {counted(m.size, 'column')}, "
                f"{', '.join(m.columns)}. Give `columns=` one name for each component, and check whether "
                f"{type(m).__name__} fits the configuration of {type(system).__name__}."
            )


def _shape_shown(measurement, system, t, control) -> tuple:
    dtype = jnp.result_type(float)
    q, u = system.space.identity(dtype), jnp.zeros(system.n_independent, dtype)
    return eqx.filter_eval_shape(measurement, system, jnp.asarray(t, dtype), q, u, control).shape


def check_guess(run, space, k: int) -> None:
    """Checks that the guess has finite states at all times of the run, in the system's shapes."""
    if run.guess is None:
        return
    rows = len(run.ts)
    wanted = (jax.tree.map(lambda x: (rows, *np.shape(x)), space.stored), (rows, k))
    got = jax.tree.map(np.shape, run.guess)
    if got != wanted:
        raise ValueError(
            f"{run.name}: `guess` has shapes {got}; it must be (q, u) at each of the {rows} times: {wanted}."
        )
    for leaf in jax.tree.leaves(run.guess):
        check_finite(f"guess of {run.name}", leaf)


def check_spread(quantity, values: np.ndarray) -> np.ndarray:
    """Checks that a quantity differs between the runs; returns its standard deviation."""
    advice = "Give identify.StatePrior(quantity, mean, std) with the mean and the standard deviation that you expect."
    if quantity.error_size != quantity.size:
        raise ValueError(f"`quantity` {quantity.name!r} is a rotation, which has no mean. {advice}")
    if len(values) < 2:
        raise ValueError(
            f"the fit has one run, which shows no spread of {quantity.name!r} between runs. {advice}"
        )
    std = values.std(axis=0, ddof=1)
    if not np.all(std > 0):
        raise ValueError(f"{quantity.name!r} is the same in all {len(values)} runs. {advice}")
    return std


def check_stages(stages) -> None:
    """Checks that the stages are a dictionary of functions by name, with at least one entry."""
    advice = (
        "give a dictionary with a function system -> identify.Problem for the name of each stage."
    )
    if not isinstance(stages, Mapping):
        raise TypeError(f"`stages` is {type_of(stages)}; {advice}")
    if not stages:
        raise ValueError(f"`stages` is empty; {advice}")
    for name, make in stages.items():
        check_called_with(f"stages[{name!r}]", make, 1, "system -> identify.Problem")


def check_stage(name: str, system, paths: list[str]) -> None:
    """Checks that the system given to `fit_stages` has the leaves that a stage estimates."""
    for path in paths:
        try:
            check_path(system, path)
        except ValueError as error:
            raise ValueError(f"stage {name!r}: {error}") from None


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
    """Checks that the criterion of an experiment is one of `criteria`."""
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
            "the initial experiment does not determine all parameters: the eigenvalues of its information go from "
            f"{values[0]:.3g} to {values[-1]:.3g}. Start from a curve that moves everything, freeze parameters that no "
            "motion can show, or measure more."
        )
