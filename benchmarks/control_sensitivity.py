"""Derivatives of an optimal cost, compared with differences of problems that are solved again.

`benchmarks/control.py --sensitivities` runs it for the built-in problems.
"""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from jaxhamel import control
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._collocation._tightening import (
    BARRIER_AFTER_TIGHTENING,
    TIGHTENINGS,
    resumed_in_bounds,
)
from jaxhamel.control._derivatives_of_optima._lagrangian import with_initial_state
from jaxhamel.control._interior_point._state import SearchState
from jaxhamel.control._scaling._cost_unit import in_unit

STEPS = (1e-3, 1e-4, 1e-5, 1e-2)  # relative to 1 + |number|, of differences of the fourth order
ENOUGH = 1e-8  # if two steps agree to this relative difference, no further step is tried
MOST = 2  # at most this many entries of an array


class Solved(NamedTuple):
    """The optimum from which problems with changed numbers are solved again, with its mesh, its sizes, its cost unit and the
    amounts by which its bounds are tightened. The method keeps its nodes at the times of a problem."""

    problem: Any
    method: control.Collocation
    shares: Any
    state: SearchState
    tightened: tuple[Any, Any]
    unit: float
    sizes: Any


def compared(problem: Any, method: control.Collocation, result: control.Result) -> dict[str, Any]:
    """The number of derivatives compared, and their largest difference relative to the derivative or to 1e-3 |J|.

    Numbers that constraints do not allow to change alone have the derivative NaN and are counted separately. So are
    those whose differences by two steps disagree by more than a millionth: `unsure`, with the largest disagreement.
    """
    by, worst, count = control.sensitivity(result), (0.0, ""), 0
    none, unsure = 0, (0, 0.0)
    near = _solved(problem, eqx.tree_at(lambda m: m.tolerance, method, 1e-11))
    for name, of, entry in _numbers(problem):
        slope = float(np.ravel(of(by))[entry])
        if np.isnan(slope):
            none += 1
            continue
        difference, doubt = _difference(near, of, entry)
        size = max(abs(slope), abs(difference), 1e-3 * abs(result.cost))
        error = abs(slope - difference) / size
        if not doubt < 1e-6 * size:
            unsure = unsure[0] + 1, max(unsure[1], doubt / size)
            continue
        count += 1
        worst = max(worst, (error, f"{name}[{entry}]"))
    return {
        "derivatives": count,
        "without": none,
        "unsure": unsure[0],
        "largest_doubt": unsure[1],
        "worst_difference": worst[0],
        "worst_derivative": worst[1],
    }


def _solved(problem: Any, method: control.Collocation) -> Solved:
    search = CollocationSearch(method, problem)
    search.run()
    original, tight = search.transcription, search.tight
    ends = (tight.lower, original.lower), (tight.upper, original.upper)
    moved = tuple(jnp.where(jnp.isfinite(a) & jnp.isfinite(b), a - b, 0.0) for a, b in ends)
    kept = dataclasses.replace(method, intervals=None)
    units = search.cost_unit, original.sizes
    return Solved(problem, kept, original.shares, search.state, moved, *units)


def _numbers(problem: Any) -> Iterator[tuple[str, Callable[[Any], Any], int]]:
    """Triples (name, function that selects the array of a problem, entry) for system, constraints, initial velocity and
    last time."""
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


def _difference(near: Solved, of: Callable, entry: int) -> tuple[float, float]:
    """The difference quotient that agrees best with that of the previous step, and their disagreement."""
    found: list[float] = []
    best = float("nan"), float("inf")
    for step in STEPS:
        found.append(_by_step(near, of, entry, step))
        doubt = abs(found[-1] - found[-2]) if len(found) > 1 else np.inf
        best = min(best, (found[-1], doubt), key=lambda pair: pair[1])
        if best[1] <= ENOUGH * abs(best[0]):
            break
    return best


def _by_step(near: Solved, of: Callable, entry: int, step: float) -> float:
    """The difference quotient (8 (J₊ − J₋) − (J₊₊ − J₋₋)) / 12 h."""
    value = np.array(of(near.problem))
    h = step * (1.0 + abs(value.flat[entry]))

    def cost(steps: float) -> float:
        moved = value.copy()
        moved.flat[entry] += steps * h
        return _cost(near, eqx.tree_at(of, near.problem, jnp.asarray(moved, value.dtype)))

    return (8.0 * (cost(1.0) - cost(-1.0)) - (cost(2.0) - cost(-2.0))) / (12.0 * h)


def _cost(near: Solved, problem: Any) -> float:
    """J of a problem solved again from the optimum with the same nodes and tightening; NaN if the search does not end, or if
    the problem is refused, as one whose target is within an obstacle.

    A limit may be violated between the points, since the kinks of a control leave their nodes.
    """
    ts = problem.ts[0] + near.shares * (problem.ts[-1] - problem.ts[0])
    stays = jax.tree.map(
        lambda x: jnp.tile(x[None], (len(ts), *[1] * x.ndim)), (problem.q0, problem.u0)
    )
    problem = eqx.tree_at(lambda p: (p.ts, p.guess), problem, (ts, stays))
    try:
        search = CollocationSearch(near.method, problem)
    except ValueError:
        return float("nan")
    bounds = (
        search.transcription.lower + near.tightened[0],
        search.transcription.upper + near.tightened[1],
    )
    unit = near.unit / search.cost_unit
    same = dataclasses.replace(search.transcription, sizes=near.sizes)
    search.transcription = in_unit(same, unit)
    search.tight = eqx.tree_at(lambda t: (t.lower, t.upper), search.transcription, bounds)
    search.tightening.rounds, search.may_start_anew = TIGHTENINGS, False
    state = near.state._replace(w=with_initial_state(problem, search.transcription, near.state.w))
    least = BARRIER_AFTER_TIGHTENING if search.transcription.limits else 0.0
    search.state = resumed_in_bounds(search.tight, state, least)
    search.run()
    return near.unit * float(search.state.cost) if bool(search.state.done) else float("nan")
