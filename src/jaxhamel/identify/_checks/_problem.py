"""Checks of the arguments of identification: parameters, priors, measurements, runs."""

from collections.abc import Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._arguments import (
    check_called_with,
    check_count,
    check_kind,
    check_outside,
    check_positive_number,
)
from jaxhamel._checks._times import check_steps, check_times
from jaxhamel._checks._values import (
    check_finite,
    check_not_negative,
    check_positive,
    concrete,
    described,
    inline,
    path_of,
    type_of,
)
from jaxhamel._words import counted
from jaxhamel.identify._checks._parameters import check_path
from jaxhamel.mechanics import System
from jaxhamel.mechanics._checks._system import check_state


def check_noise(measurement) -> None:
    """Checks the noise: None (it is estimated), or one positive number, or one for each error; the offset is one number."""
    name, noise, offset = measurement.name, measurement.noise, measurement.offset
    check_outside(f"noise of {name}", noise)
    check_outside(f"offset of {name}", offset)
    if noise is not None:
        known = np.asarray(noise)
        check_positive(
            f"noise of {name}", known, "Give the standard deviation, or None: estimate it."
        )
        if known.shape not in ((), (1,), (measurement.error_size,)):
            raise ValueError(
                f"`noise of {name}` has shape {known.shape}; it must be one number, or one for each of the "
                f"{measurement.error_size} errors."
            )
    if offset is not None and not (np.shape(offset) == () and offset > 0):
        raise ValueError(
            f"`offset of {name}` is {offset}; it must be one positive number, the standard deviation of the offset "
            "beforehand (jnp.inf: nothing is known), or None: the sensor has none."
        )


def check_identified(system) -> None:
    """Checks that the argument is a system, and that none of its parameters is traced or NaN."""
    check_kind("system", system, System, "it must be a jaxhamel.System with its values.")
    for keys, leaf in tree_flatten_with_path(system)[0]:
        check_outside(f"system.{path_of(keys)}", leaf)
        values = concrete(leaf)
        if values is not None and values.dtype.kind in "fV" and np.any(np.isnan(values)):
            raise ValueError(
                f"`system.{path_of(keys)}` is {inline(values)}; a NaN there would be one in all of the motion."
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
                f"{', '.join(m.columns)}. Give `columns=` one name for each component, and look whether "
                f"{type(m).__name__} fits the configuration of {type(system).__name__}."
            )


def _shape_shown(measurement, system, t, control) -> tuple:
    dtype = jnp.result_type(float)
    q, u = system.space.identity(dtype), jnp.zeros(system.n_independent, dtype)
    return eqx.filter_eval_shape(measurement, system, jnp.asarray(t, dtype), q, u, control).shape


def check_entries(owner: str, indices, size: int) -> None:
    """Checks indices into a vector."""
    if not all(-size <= i < size for i in indices):
        raise ValueError(
            f"{owner} takes entries {tuple(indices)} of {size}; count from 0 to {size - 1}."
        )


def check_factor(owner: str, q, part) -> None:
    """Checks that a configuration has the factor that a measurement takes; None: the configuration is one array."""
    if not isinstance(q, tuple):
        if part is not None:
            raise ValueError(
                f"{owner} takes part {part!r}; the configuration of this system is one array. Leave `part` out."
            )
        return
    whole = isinstance(part, int) and not isinstance(part, bool)
    if not whole or not -len(q) <= part < len(q):
        raise ValueError(
            f"{owner} takes part {part!r}; the configuration of this system has {len(q)} factors. Give `part` from 0 to "
            f"{len(q) - 1}."
        )


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


def check_values(values, name: str) -> None:
    """Checks that the values are arrays of real numbers, by name of the measurement."""
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{name}: `values` is {type_of(values)}; give arrays by the name of the measurement, such as "
            '{"position": x}.'
        )
    for key, value in values.items():
        check_outside(f"{key}` of `{name}", value)
        if np.asarray(value).dtype.kind not in "iufb":
            raise TypeError(
                f"{name}: `{key}` has dtype {np.asarray(value).dtype}; it must be made of real numbers, NaN where a "
                "value is missing."
            )


def check_run(ts, values: Mapping[str, np.ndarray], name: str) -> None:
    """Checks a run: increasing times, one row of values for each (NaN where missing), and at least one value."""
    try:
        check_times(ts)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not values:
        raise ValueError(
            f"{name}: `values` is empty; give at least one measured quantity by its name."
        )
    for key, array in values.items():
        if array.ndim != 2 or array.shape[0] != len(ts):
            raise ValueError(
                f"{name}: `{key}` has shape {array.shape}; it must be ({len(ts)}, d), one row for each time. "
                "Write NaN where a value is missing."
            )
        if np.any(np.isinf(array)):
            raise ValueError(
                f"{name}: `{key}` is infinite at t = {ts[np.isinf(array).any(axis=1)][0]:.6g} s; it must be "
                "finite, or NaN where a value is missing."
            )
    if not any(np.isfinite(array).any() for array in values.values()):
        raise ValueError(
            f"{name}: every value is NaN; nothing is measured in this run. Leave it out."
        )


def check_weights(weights: np.ndarray, count: int, name: str) -> None:
    """Checks that there is one weight for each time of a run, none negative and at least one positive."""
    if weights.shape != (count,):
        raise ValueError(
            f"{name}: `weights` has shape {weights.shape}; it must be ({count},), one factor for each time."
        )
    check_not_negative(f"weights of {name}", weights, "They are factors of squared residuals.")
    if not np.any(weights > 0):
        raise ValueError(
            f"{name}: all `weights` are zero; give a positive one, or leave the run out."
        )


def check_measured(measurements, runs) -> None:
    """Checks that each run has only known measurements, with matching numbers of columns."""
    names = [m.name for m in measurements]
    if len(set(names)) < len(names):
        raise ValueError(
            f"`measurements` have the names {names}; each must be another one. Give `name=`."
        )
    if not runs:
        raise ValueError("`runs` is empty; give at least one `identify.Run`.")
    for run in runs:
        for key in run.values:
            if key not in names:
                raise ValueError(
                    f"{run.name}: `{key}` is none of the measurements, which are {', '.join(names)}. "
                    "Add it to `measurements`, or leave it out of the run."
                )


def check_width(run_name: str, name: str, got: int, wanted: int) -> None:
    """Checks that a run has as many columns as the measurement has components."""
    if got != wanted:
        raise ValueError(
            f"{run_name}: `{name}` has {counted(got, 'column')}; the measurement of that name has "
            f"{counted(wanted, 'component')}."
        )


def check_segments(counts, runs) -> None:
    """Checks that there is a positive whole number of segments for each run."""
    for count in counts:
        check_count("segments", count)
    if len(counts) != len(runs):
        raise ValueError(
            f"`segments` has {counted(len(counts), 'number')} and `runs` {counted(len(runs), 'run')}; give one number "
            "for each run, or one for all."
        )


def check_spread(quantity, values: np.ndarray) -> np.ndarray:
    """Checks that a quantity has a spread over the runs; returns its standard deviation."""
    advice = "Give identify.StatePrior(quantity, mean, std) with what you know."
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


def check_first_seconds(ts, start: float, seconds: float) -> None:
    """Checks that at least three times lie before the given one, and at least one after it."""
    check_positive_number(
        "seconds", seconds, "Give the time from which the initial state is found, in s."
    )
    before = int(np.sum(np.asarray(ts) <= start + seconds))
    if before < 3 or before == len(ts):
        raise ValueError(
            f"`seconds` is {seconds:g}: {before} of the {len(ts)} times of the run lie in it; at least three are needed "
            f"for the initial state, and at least one to predict. The run lasts {float(ts[-1]) - start:.4g} s."
        )


def check_stages(stages) -> None:
    """Checks that the stages are functions by name, at least one."""
    advice = "give functions that make an identify.Problem of a system, by the name of the stage."
    if not isinstance(stages, Mapping):
        raise TypeError(f"`stages` is {type_of(stages)}; {advice}")
    if not stages:
        raise ValueError(f"`stages` is empty; {advice}")
    for name, make in stages.items():
        check_called_with(f"stages[{name!r}]", make, 1, "system -> identify.Problem")


def check_stage(name: str, system, paths: list[str]) -> None:
    """Checks that the system of all stages has the leaves that a stage finds."""
    for path in paths:
        try:
            check_path(system, path)
        except ValueError as error:
            raise ValueError(f"stage {name!r}: {error}") from None


def check_clock(clock: str) -> None:
    """Checks the name of the clock that gives the times of a run."""
    if not isinstance(clock, str) or clock not in ("stamps", "steady"):
        raise ValueError(f'`clock` is {described(clock)}; it must be "stamps" or "steady".')


# Checks of the arguments of experiment design and posterior sampling.


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
