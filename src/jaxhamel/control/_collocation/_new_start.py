"""New starts of a search: on a coarse mesh, with slacks far inside of their bounds, if it makes short steps only; and on the
motion under given controls.

If a guess violates limits, the slacks begin close to their bounds, and Newton's steps on a fine mesh are cut to a
thousandth of their length. On a coarse mesh an iteration takes a fraction of the time, and there are fewer minima in which
the search may end; its solution is the start on the fine mesh (docs/performance.md#new-starts-of-a-search).
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from jaxhamel._lanes._xla_cpu._jit import QUICK, compiled_with
from jaxhamel.control._collocation._elastic import with_slacks_inside
from jaxhamel.control._collocation._points import PiecewisePolynomial
from jaxhamel.control._collocation._start import first_iterate, guessed, on_mesh
from jaxhamel.control._collocation._transcription import CollocationPoint, Transcription
from jaxhamel.control._interior_point._state import SearchState, first_state
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics import VectorField
from jaxhamel.simulate._solvers._runge_kutta import RK4, looped

COARSE = 14  # intervals of the coarse mesh; a mesh with less than twice as many is kept
MARGIN = 1.0  # least distance of a slack from a one-sided bound at the new start
STEPS_OF_MOTION = 4  # steps of the classical Runge–Kutta method per interval
PATIENCE = 200  # iterations after which a search on the coarse mesh is given up
SLOW_ITERATIONS = 40  # iterations in which the violation should halve
# a search starts anew after MANY_SHORT successive steps shorter than SHORT
SHORT, MANY_SHORT = 0.2, 8


def creeps(rows: Sequence[dict[str, float]], tolerance: float) -> bool:
    """Whether the last `MANY_SHORT` steps of a search far from feasible points were all short."""
    last = rows[-MANY_SHORT:]
    short = len(last) == MANY_SHORT and all(row["step"] < SHORT for row in last)
    return short and is_far(rows, tolerance)


def comes_no_closer(rows: Sequence[dict[str, float]], tolerance: float, cost_unit: float) -> bool:
    """Whether a search far from feasible points has not halved the violation in its last `SLOW_ITERATIONS` iterations.

    One whose steps are mostly long and whose cost still changes counts as on its way.
    """
    last = rows[-SLOW_ITERATIONS:]
    if len(last) < SLOW_ITERATIONS or not is_far(rows, tolerance):
        return False
    later = min(row["violation"] for row in last[SLOW_ITERATIONS // 2 :])
    costs = [row["cost"] for row in last]
    stays = max(costs) - min(costs) <= 1e-6 * (cost_unit + abs(costs[-1]))
    long = sum(row["step"] >= 0.5 for row in last)
    return later > 0.5 * last[0]["violation"] and (stays or long < SLOW_ITERATIONS // 2)


def is_far(rows: Sequence[dict[str, float]], tolerance: float) -> bool:
    """Whether the last iterate is far from feasible points."""
    return rows[-1]["violation"] > 100 * tolerance


def coarser(transcription: Transcription) -> Transcription:
    """The problem on a coarse mesh of equal intervals; `transcription` itself if it has less than twice as many."""
    if transcription.shares.shape[0] - 1 < 2 * COARSE:
        return transcription
    shares = jnp.linspace(0.0, 1.0, COARSE + 1, dtype=transcription.shares.dtype)
    return on_mesh(transcription, shares)


def new_start(problem: ControlProblem, transcription: Transcription, barrier: Array) -> SearchState:
    """The state at the problem's guess, with slacks at least `MARGIN` inside one-sided bounds.

    Multipliers are not estimated before the first step: if the guess violates limits by much, such an estimate does not fit
    motions within the limits.
    """
    begin: Any = (problem.q0, problem.u0)
    w = first_iterate(
        transcription, problem.ts, guessed(problem), problem.curve, begin, problem.ts[-1]
    )
    state = first_state(transcription, with_slacks_inside(transcription, w, MARGIN), barrier)
    return state._replace(estimates=jnp.asarray(False))


def started_with(
    transcription: Transcription, problem: ControlProblem, curve: Any
) -> CollocationPoint:
    """The iterate whose states are those of the motion under `curve`."""
    return at_motion(transcription, problem, curve, motion_under(transcription, problem, curve))


def at_motion(
    transcription: Transcription, problem: ControlProblem, curve: Any, motion: tuple[Array, Any]
) -> CollocationPoint:
    """The iterate with the states of a motion, (times, states), and the control `curve`."""
    begin: Any = (problem.q0, problem.u0)
    return first_iterate(transcription, *motion, curve, begin, problem.ts[-1])


@compiled_with(QUICK)
def moved_by_own_control(
    transcription: Transcription, problem: ControlProblem, w: CollocationPoint
) -> CollocationPoint:
    """The iterate with the controls of `w` and the states of the motion under them."""
    ts = problem.ts[0] + transcription.shares * (problem.ts[-1] - problem.ts[0])
    curve = PiecewisePolynomial(ts, w.c, transcription.rule.points)
    return started_with(transcription, problem, curve)


def motion_under(transcription: Transcription, problem: ControlProblem, curve: Any):
    """The times of the mesh, and the states of the motion under `curve` at these times."""
    ts = problem.ts[0] + transcription.shares * (problem.ts[-1] - problem.ts[0])
    field, space = VectorField(), problem.system.space

    def rate(t, y):
        return field(t, y, (problem.system, curve))

    def interval(y, ends):
        h = (ends[1] - ends[0]) / STEPS_OF_MOTION

        def step(y, k):
            q, u = looped(rate, RK4, ends[0] + k * h, h, y)[0]
            return (space.normalise(q), u), None

        return jax.lax.scan(step, y, jnp.arange(STEPS_OF_MOTION).astype(h.dtype))[0], y

    start = problem.q0, problem.u0
    last, before = jax.lax.scan(interval, start, (ts[:-1], ts[1:]))
    return ts, jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), before, last)
