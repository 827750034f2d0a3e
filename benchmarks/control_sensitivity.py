"""Derivatives of an optimal cost, compared with differences of problems that are solved again.

`benchmarks/control.py --sensitivities` runs it for the built-in problems.
"""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch

STEP = 1e-3  # relative to 1 + |number|, of differences of the fourth order
MOST = 2  # entries of one array


def compared(problem: Any, method: control.Collocation, result: control.Result) -> dict[str, Any]:
    """How many derivatives were compared, and the largest difference, relative to the derivative or to 1e-3 |J|.

    Numbers that constraints do not allow to change alone have the derivative NaN, and are counted apart.
    """
    by, worst, count, none = control.sensitivity(result), (0.0, ""), 0, 0
    near = eqx.tree_at(lambda p: p.guess, problem, _at_times(problem, result))
    method = eqx.tree_at(lambda m: m.tolerance, method, 1e-11)
    for name, of, entry in _numbers(problem):
        slope = float(np.ravel(of(by))[entry])
        if np.isnan(slope):
            none += 1
            continue
        difference = _difference(near, method, of, entry)
        size = max(abs(slope), abs(difference), 1e-3 * abs(result.cost))
        count += 1
        worst = max(worst, (abs(slope - difference) / size, f"{name}[{entry}]"))
    return {
        "derivatives": count,
        "without": none,
        "worst_difference": worst[0],
        "worst_derivative": worst[1],
    }


def _numbers(problem: Any) -> Iterator[tuple[str, Callable[[Any], Any], int]]:
    """(name, the array of a problem, an entry of it) for system, constraints, initial velocity and last time."""
    paths = jax.tree_util.tree_flatten_with_path(problem)[0]
    for path, leaf in paths:
        name = jax.tree_util.keystr(path)
        chosen = name.startswith((".system", ".constraints", ".u0"))
        if not chosen or not eqx.is_inexact_array(leaf):
            continue
        for entry in range(min(MOST, leaf.size)):
            if np.isfinite(np.ravel(leaf)[entry]):
                yield name, lambda tree, path=path: _at(tree, path), entry
    yield ".ts", lambda tree: tree.ts, problem.ts.size - 1


def _at(tree: Any, path: Any) -> Any:
    for key in path:
        tree = getattr(tree, key.name) if hasattr(key, "name") else tree[getattr(key, "idx", None)]
    return tree


def _difference(problem: Any, method: control.Collocation, of: Callable, entry: int) -> float:
    """(8 (J₊ − J₋) − (J₊₊ − J₋₋)) / 12 h."""
    value = np.array(of(problem))
    h = STEP * (1.0 + abs(value.flat[entry]))

    def cost(steps: float) -> float:
        moved = value.copy()
        moved.flat[entry] += steps * h
        search = CollocationSearch(
            method, eqx.tree_at(of, problem, jax.numpy.asarray(moved, value.dtype))
        )
        search.run()
        return float(search.state.cost)

    return (8.0 * (cost(1.0) - cost(-1.0)) - (cost(2.0) - cost(-2.0))) / (12.0 * h)


def _at_times(problem: Any, result: control.Result) -> Any:
    """The optimal states at the times of the problem's guess."""
    at = np.searchsorted(np.asarray(result.trajectory.ts), np.asarray(problem.ts))
    at = np.clip(at, 0, len(result.trajectory.ts) - 1)
    return jax.tree.map(lambda x: x[at], (result.trajectory.q, result.trajectory.u))
