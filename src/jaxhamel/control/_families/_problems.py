"""The problems of a family: `problem_of` of each value, stacked along a leading axis."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from jaxhamel._checks._arguments import check_kind
from jaxhamel._compiled import walk_of
from jaxhamel.control._checks._families import (
    check_finite_problems,
    check_same_structure,
    of_value,
)
from jaxhamel.control._many_starts._stacked import Stacked
from jaxhamel.control._problem._problem import ControlProblem

# The largest number of values for which `problem_of` is called to find wrong numbers.
MOST_EXAMPLES = 8

ProblemOf = Callable[[Any], ControlProblem]


def problems_of(problem_of: ProblemOf, values: Any, count: int) -> Stacked:
    """The problems of all values, from one call of `problem_of` under `vmap` or, if JAX cannot trace it, from `count` calls.

    **Raises:** `ValueError` or `TypeError` that names the first value whose problem is not valid or has other shapes,
    functions or settings than the first one.
    """
    first = _problem(problem_of, values, 0)
    rows = _traced(problem_of, values, first)
    if rows is None:
        each = [first, *(_problem(problem_of, values, k) for k in range(1, count))]
        rows = _in_rows(each)
    else:
        for k in _examples(values):
            check_same_structure(k, first, _problem(problem_of, values, k))
    problems = Stacked.of_rows(rows)
    check_finite_problems(_with_nan(problems, count))
    return problems


def _problem(problem_of: ProblemOf, values: Any, k: int) -> ControlProblem:
    """Makes the problem for the k-th of the given values."""
    with of_value(k):
        value = jax.tree.map(lambda x: jnp.asarray(x)[k], values)
        found = problem_of(value)
        check_kind(
            "problem_of(value)", found, ControlProblem, "it must be a control.ControlProblem."
        )
    return found


def _traced(problem_of: ProblemOf, values: Any, first: ControlProblem) -> ControlProblem | None:
    """The problems as one with leading axes.

    None if `problem_of` cannot be traced, or gives functions with traced numbers inside, which are no leaves.
    """
    known = []

    def arrays(value):
        found, others = eqx.partition(problem_of(value), eqx.is_array)
        walk = walk_of(others)
        known.append(walk is None or not walk.has_tracer)
        return found

    try:
        rows = jax.vmap(arrays)(values)
    except Exception:  # a function that needs the numbers fails in its own way
        return None
    like, others = eqx.partition(first, eqx.is_array)
    same = jax.tree.structure(rows) == jax.tree.structure(like)
    return eqx.combine(rows, others) if same and all(known) else None


def _in_rows(problems: list[ControlProblem]) -> ControlProblem:
    """The problems as one with leading axes."""
    for k, problem in enumerate(problems[1:], 1):
        check_same_structure(k, problems[0], problem)
    columns = zip(*(jax.tree.leaves(x) for x in problems), strict=True)
    stacked = [np.stack(x) if eqx.is_array(x[0]) else x[0] for x in columns]
    return jax.tree.unflatten(jax.tree.structure(problems[0]), stacked)


def _examples(values: Any) -> list[int]:
    """The indices of values for which `problem_of` is called once more, since checks pass traced numbers.

    They are those with the least entry of each leaf, where this is not positive: most numbers that are checked, such as
    masses, must be positive.
    """
    found: dict[int, None] = {}
    for leaf in jax.tree.leaves(values):
        rows = np.asarray(leaf).reshape(len(leaf), -1)
        if rows.dtype.kind in "fi":
            each = zip(np.argmin(rows, axis=0), np.min(rows, axis=0), strict=True)
            found |= dict.fromkeys(int(k) for k, least in each if least <= 0)
    return list(found)[:MOST_EXAMPLES]


def _with_nan(problems: Stacked, count: int) -> Int[np.ndarray, " K"]:
    """The indices of problems with NaN among their numbers."""
    bad = np.zeros(count, bool)
    for leaf in jax.tree.leaves(problems.own):
        rows = np.asarray(leaf).reshape(count, -1)
        if rows.dtype.kind == "f":
            bad |= np.any(np.isnan(rows), axis=1)
    return np.flatnonzero(bad)
