"""Checks of families of problems; messages name the index of a wrong value."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxhamel._checks._arguments import check_called_with
from jaxhamel._checks._values import type_of
from jaxhamel._compiled import content_of


def check_solves_families(method) -> None:
    """Checks that a method can solve families of problems."""
    if not callable(getattr(method, "run_family", None)) or isinstance(method, type):
        raise TypeError(
            f"`method` is {type_of(method)}; families are solved by collocation: give control.Collocation()."
        )


def check_family(problem_of, values, error) -> int:
    """Checks the arguments of `solve_family` and the method's `error`; returns the number of values."""
    check_called_with("problem_of", problem_of, 1, "value -> a control.ControlProblem")
    if error is not None:
        raise ValueError(
            "`error` of the method refines each mesh by itself, and all values of a family have the same number of "
            "intervals. Leave it out, and give enough `intervals`: `mesh_errors` of a result shows whether they are enough."
        )
    return _check_values(values)


def _check_values(values) -> int:
    """Checks that all leaves are arrays of finite numbers with leading axes of one length; returns this length."""
    leaves = jax.tree_util.tree_leaves_with_path(values)
    if not leaves:
        raise ValueError("`values` has no arrays; give a pytree of arrays, one row for each value.")
    lengths = {}
    for path, leaf in leaves:
        name = "values" + jax.tree_util.keystr(path)
        lengths[name] = _check_rows(name, leaf)
    if len(set(lengths.values())) > 1:
        some = ", ".join(f"`{name}` {count}" for name, count in lengths.items())
        raise ValueError(
            f"the leading axes of `values` have different lengths: {some}. Give one row for each value in every array; what "
            "all problems share belongs into `problem_of`."
        )
    return next(iter(lengths.values()))


def _check_rows(name: str, leaf) -> int:
    """Checks one leaf of the values; returns its number of rows."""
    if not isinstance(leaf, jax.Array | np.ndarray) or leaf.ndim == 0:
        raise TypeError(
            f"`{name}` is {type_of(leaf)}{' without axes' if eqx.is_array_like(leaf) else ''}; it must be an array with one "
            "row for each value. What all problems share belongs into `problem_of`."
        )
    if not leaf.shape[0]:
        raise ValueError(f"`{name}` is empty; give at least one value.")
    if np.asarray(leaf).dtype.kind in "fc":
        rows = np.asarray(leaf).reshape(len(leaf), -1)
        bad = np.flatnonzero(~np.all(np.isfinite(rows), axis=1))
        if bad.size:
            raise ValueError(
                f"`{name}[{bad[0]}]` is {np.asarray(leaf)[bad[0]]}; all values must be finite."
            )
    return leaf.shape[0]


@contextmanager
def of_value(k: int) -> Iterator[None]:
    """A context in which errors name the index of the value whose problem is made or set up."""
    try:
        yield
    except (TypeError, ValueError) as error:
        kind = ValueError if isinstance(error, ValueError) else TypeError
        raise kind(f"the problem of values[{k}] is not valid: {error}") from error


@contextmanager
def traced_problem_of() -> Iterator[None]:
    """A context in which JAX's errors on code that it cannot trace say that `problem_of` is this code."""
    try:
        yield
    except jax.errors.JAXTypeError as error:
        raise TypeError(
            f"JAX cannot trace `problem_of`, as derivatives by the values need: {error}"
        ) from error


def check_same_structure(k: int, first: Any, other: Any) -> None:
    """Checks that the problem of a value has the arrays of the first one's, with the same shapes, and the same functions and
    settings otherwise.
    """
    shapes = [_shapes(x) for x in (first, other)]
    for name in {**shapes[0], **shapes[1]}:
        a, b = (x.get(name, "absent") for x in shapes)
        if a != b:
            raise ValueError(
                f"`{name}` of the problem is {b} for values[{k}] and {a} for values[0]; the problems of a family differ in "
                "numbers only. Solve problems of other shapes in a family of their own."
            )
    if not _same_others(*(eqx.filter(x, eqx.is_array, inverse=True) for x in (first, other))):
        raise ValueError(
            f"the problems of values[0] and values[{k}] differ in more than their arrays: in a setting, or in a function "
            "with the value inside. Make such a function a pytree that holds the value, such as "
            "jax.tree_util.Partial(function, value) or an equinox.Module, and settings the same for all values."
        )


def _shapes(problem: Any) -> dict[str, str]:
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(problem, eqx.is_array))
    return {
        jax.tree_util.keystr(path).lstrip("."): f"an array of shape {x.shape} and dtype {x.dtype}"
        for path, x in leaves
    }


def _same_others(first: Any, other: Any) -> bool:
    """Whether two trees without arrays are equal, functions by their content."""
    (a, one), (b, two) = (jax.tree.flatten(x) for x in (first, other))
    if one == two and a == b:
        return True
    known = content_of(first)
    return known is not None and known == content_of(other)


def check_finite_problems(bad: Any) -> None:
    """Checks that the problems of all values are free of NaN; `bad`: the indices of those that are not."""
    if len(bad):
        raise ValueError(
            f"`problem_of` gives a problem with NaN for values[{bad[0]}]; give finite numbers."
        )


def check_bounds_of_family(transcriptions: Any) -> None:
    """Checks that the lower bounds of limits, end times and design parameters are below the upper ones for all values.

    `transcriptions`: as rows along a leading axis.
    """
    pairs = (
        (transcriptions.lower, transcriptions.upper, "the path limits"),
        (transcriptions.p_lower, transcriptions.p_upper, "the end time or the design parameters"),
    )
    for lower, upper, name in pairs:
        low, high = np.asarray(lower), np.asarray(upper)
        wrong = np.flatnonzero(np.any(~(low <= high), axis=tuple(range(1, low.ndim))))
        if wrong.size:
            raise ValueError(
                f"for values[{wrong[0]}] a lower bound of {name} is above the upper one; no value lies between them."
            )
    wrong = np.flatnonzero(~(np.asarray(transcriptions.duration) > 0))
    if wrong.size:
        raise ValueError(f"for values[{wrong[0]}] the last of `ts` is not after the first one.")


def check_searched(k: int, search: Any, status: str) -> None:
    """Checks that the problem of a value was searched."""
    if search is None:
        raise ValueError(f"values[{k}] has no result: {status}")
