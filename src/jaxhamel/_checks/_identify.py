"""Checks of what identification takes: parameters, priors, measurements, runs."""

from collections.abc import Mapping

import jax
import numpy as np
from jax.tree_util import tree_flatten_with_path

from jaxhamel._checks._bodies import check_inertia
from jaxhamel._checks._simulation import check_times
from jaxhamel._checks._values import _kind, _short, check_finite, check_positive, concrete
from jaxhamel._words import counted


def check_realisable(name: str, value) -> None:
    """An inertia of a body that fills space: the triangle inequality holds strictly."""
    check_inertia(name, value)
    array = concrete(value)
    if array is None:
        return
    moments = np.sort(array) if array.ndim == 1 else np.linalg.eigvalsh(array)
    if moments[0] + moments[1] - moments[2] <= 1e-9 * moments[2]:
        raise ValueError(
            f"`{name}` has the principal moments {_short(moments)}, of a flat body: the largest is the sum of the "
            "others, where the logarithm of its thickness is infinite. Start with a body of some thickness: "
            "make the largest moment a percent smaller."
        )


def check_prior(mean, std, relative: bool) -> None:
    """Finite mean, positive width; a positive mean where it is relative."""
    check_finite("mean", mean)
    if not np.all(np.asarray(std) > 0):
        raise ValueError(
            f"`std` is {_short(std)}; it must be positive, the standard deviation of what is known. "
            "Take `frozen` for what is known exactly."
        )
    if relative:
        check_positive("mean", mean, "A relative prior is one of log x.")


def check_path(system, path) -> None:
    """A floating-point leaf is there."""
    place = system
    try:
        for part in str(path).split("."):
            place = place[int(part)] if part.isdigit() else getattr(place, part)
    except (AttributeError, IndexError, TypeError):
        place = None
    kind = getattr(place, "dtype", None)
    if kind is None or np.dtype(kind).kind not in "fV":
        raise ValueError(
            f"`{path}` is no parameter of {type(system).__name__}; it has {', '.join(_paths(system))}. "
            "Give one of these paths."
        )


def _paths(system) -> list[str]:
    name = lambda key: str(getattr(key, "name", getattr(key, "idx", key)))  # noqa: E731
    return [".".join(name(k) for k in keys) for keys, _ in tree_flatten_with_path(system)[0]]


def check_frozen(path: str, frozen, shape: tuple[int, ...]) -> tuple[bool, ...]:
    """The mask, flat: one entry for each of the leaf."""
    mask = np.asarray(frozen)
    if mask.dtype != bool or mask.shape not in ((), shape):
        raise ValueError(
            f"`frozen` of `{path}` is {frozen!r}; it must be True, False, or such a value for each entry, "
            f"shape {shape}."
        )
    return tuple(np.broadcast_to(mask, shape).ravel().tolist())


def check_frozen_names(path: str, frozen, names: tuple[str, ...]) -> tuple[str, ...]:
    """Some of the names, none twice."""
    given = (frozen,) if isinstance(frozen, str) else tuple(frozen)
    if not set(given) <= set(names):
        raise ValueError(
            f"`frozen` of `{path}` is {given}; it may name {', '.join(map(repr, names))}, in a tuple."
        )
    return given


def check_inside(path: str, values, lower: float, upper: float) -> None:
    """Bounds in order, the start between them."""
    if not lower < upper:
        raise ValueError(
            f"`lower` of `{path}` is {lower:g} and `upper` {upper:g}; each lower bound must be below its upper one."
        )
    if not np.all((values > lower) & (values < upper)):
        raise ValueError(
            f"`{path}` is {_short(values)}; it must start inside its bounds, {lower:g} to {upper:g}, not on them. "
            "Move the start or the bounds."
        )


def check_noise(name: str, noise) -> None:
    """None (estimate it), or positive."""
    if noise is not None:
        check_positive(
            f"noise of {name}", noise, "Give the standard deviation, or None: estimate it."
        )


def check_run(ts, values: Mapping[str, np.ndarray], name: str) -> None:
    """Increasing times; a row for each, NaN where there is nothing; something measured at all."""
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


def check_measured(measurements, runs) -> None:
    """Each run measures known quantities, of the right width."""
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
    """As many columns as the measurement has components."""
    if got != wanted:
        raise ValueError(
            f"{run_name}: `{name}` has {counted(got, 'column')}; the measurement of that name has "
            f"{counted(wanted, 'component')}."
        )


def check_parameters(parameters) -> None:
    """Objects of this package, no leaf twice."""
    for parameter in parameters:
        if not hasattr(parameter, "coordinates"):
            raise TypeError(
                f"`parameters` holds {_kind(parameter)}; it takes identify.Positive(...), Free, Bounded, "
                "BodyInertia or RotationalInertia, in a tuple."
            )
    paths = [
        getattr(p, key) for p in parameters for key in ("path", "mass", "com") if hasattr(p, key)
    ]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise ValueError(
            f"`parameters` has {', '.join(twice)} more than once; give each leaf once."
        )


def check_segments(segments) -> None:
    """A whole number, one or more."""
    if not isinstance(segments, int) or isinstance(segments, bool) or segments < 1:
        raise ValueError(
            f"`segments` is {segments!r}; it must be a whole number of 1 (single shooting) or more."
        )


def check_same_structure(name: str, got, wanted) -> None:
    """Two pytrees of one structure and shapes."""
    shapes = lambda tree: jax.tree.map(np.shape, tree)  # noqa: E731
    if jax.tree.structure(got) != jax.tree.structure(wanted) or shapes(got) != shapes(wanted):
        raise ValueError(
            f"`{name}` has shapes {shapes(got)}; it must have {shapes(wanted)}, as the others do."
        )


def is_least_squares(solver) -> bool:
    """Whether it is a solver of optimistix, and no optimiser of optax."""
    return hasattr(solver, "step") and hasattr(solver, "terminate")


def check_solver(solver) -> None:
    """An optimistix least-squares solver or an optax optimiser."""
    if isinstance(solver, type) or not (is_least_squares(solver) or hasattr(solver, "update")):
        raise TypeError(
            f"`solver` is {_kind(solver)}; it must be an optimistix least-squares solver such as "
            "optimistix.LevenbergMarquardt(rtol=1e-8, atol=1e-4), or an optax optimiser such as optax.adam(1e-2)."
        )


def check_first_seconds(ts, start: float, seconds: float) -> None:
    """Three times at least before, and one after."""
    check_positive("seconds", seconds, "Give the time from which the initial state is found, in s.")
    before = int(np.sum(np.asarray(ts) <= start + seconds))
    if before < 3 or before == len(ts):
        raise ValueError(
            f"`seconds` is {seconds:g}: {before} of the {len(ts)} times of the run lie in it; at least three are needed "
            f"for the initial state, and at least one to predict. The run lasts {float(ts[-1]) - start:.4g} s."
        )


def check_rolling_runs(runs) -> None:
    """There is a run of the robot with the shell's angle."""
    if not runs:
        raise ValueError(
            "no run has the angle of the shell, column `ball_roll.position`; runs in the stand alone do not tell how the "
            "robot rolls. Give a run with the columns timestamp, ball_roll.position and roll_joint.position."
        )
