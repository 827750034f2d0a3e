"""Continuation of an optimal control in a parameter, by pseudo-arclength.

With all unknowns z of multiple shooting, F(z, a) = 0 is a curve s ↦ (z, a)(s). The next point solves

    F(z, a) = 0 ,     t·((z, a) − (z, a)_k) = Δs ,

with the unit tangent t at the k-th point. At a fold da/ds = 0: the curve turns back there, and F(z, a) = 0 has no solution
near it for a beyond the fold.

Source: Keller 1977; Allgower and Georg 2003, ch. 6 and 9.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from jaxhamel import _checks
from jaxhamel.control._checks._methods import (
    check_continuation,
    check_has_start,
    check_is_in_the_equations,
)
from jaxhamel.control._collocation._transcription import Transcription
from jaxhamel.control._indirect._indirect import Indirect, first_nodes, why_no_start
from jaxhamel.control._indirect._newton import (
    assembled,
    by_parameter,
    counts_of,
    is_finite,
    least_squares,
    scales_of,
    size_of_costates,
    stepped,
)
from jaxhamel.control._indirect._shooting import (
    Equations,
    ExtremalNodes,
    equations,
    has_free_end_time,
)
from jaxhamel.control._problem._problem import ControlProblem

MOST_CORRECTIONS = 8  # the largest number of Newton iterations for one point
FEW_CORRECTIONS = 3  # after at most this many corrections the next step is longer
LONGER, SHORTEST = 1.5, 1e-6  # the factor by which a step becomes longer, and the shortest step
FOLD_STEPS = 12  # iterations of the secant method for da/ds = 0
TOLERANCE = 1e-10


class ExtremalBranch(NamedTuple):
    """A branch of extremals.

    - `values`: the values of the parameter a, `(K,)`; `costs`: J, `(K,)`; `costates`: λ at the first time, `(K, n+k)`.
    - `slopes`: da/ds by the arclength s, `(K,)`, which changes its sign at folds.
    - `folds`: the values of the parameter at folds, in the order in which they are passed.
    - `ts`, `states`, `controls`: for each point, along a leading axis: times of the nodes, (q, u) at the nodes, and the
      controls at the Gauss points between the nodes.
    - `status`: why the continuation ended.
    """

    values: Float[np.ndarray, " K"]
    costs: Float[np.ndarray, " K"]
    costates: Float[np.ndarray, "K d"]
    slopes: Float[np.ndarray, " K"]
    folds: Float[np.ndarray, " F"]
    ts: Float[np.ndarray, "K N+1"]
    states: Any
    controls: Float[np.ndarray, "K N s m"]
    status: str


def continuation(
    problem: ControlProblem,
    parameter: Callable[..., Any],
    to: float,
    method: Indirect | None = None,
    *,
    step: float = 0.1,
    longest: float = 1.0,
    points: int = 100,
) -> ExtremalBranch:
    """Follows an extremal while a parameter a of the problem changes, past folds, until a reaches `to`.

    **Arguments:**

    - `problem`: the problem, which `method` solves for the first point, at the problem's value of a.
    - `parameter`: selects a number of the problem, as for `equinox.tree_at`: `lambda problem: problem.system.mass`; not one
      of the times or of the initial state, which are fixed.
    - `to`: the last value of a; the first step goes towards it.
    - `step`, `longest`: the first and the longest Δs, in the norm (mean of |Δz|² + Δa²)^½, where z is divided by the
      sizes of the direct method; `points`: the largest number K
      of points.

    **Returns:** an `ExtremalBranch`, also if it ends before `to`. Points beyond a fold satisfy Pontryagin's conditions, but
    need not be minima; for a certificate, solve the problem at such a point with the branch's states as the guess.

    **Raises:** `ValueError` if the first point cannot be found, or if the equations do not depend on the parameter;
    `TypeError` if `parameter` selects no number.
    """
    method = Indirect() if method is None else method
    _checks.check_kind("problem", problem, ControlProblem, "it must be a control.ControlProblem.")
    _checks.check_kind("method", method, Indirect, "it must be a control.Indirect.")
    check_continuation(problem, parameter, to, step, longest, points)
    _checks.check_outside("problem", problem)
    first = method.direct.run(problem)
    check_has_start(why_no_start(first))
    value = jnp.asarray(parameter(problem))
    search = _BranchSearch(problem, parameter, first.optimum[0], first_nodes(first), value)
    status = search.run(to, step, longest, points)
    return search.branch(status)


class _Point(NamedTuple):
    """A point of a branch: the nodes of the extremal, the value of the parameter, the residuals with their derivatives."""

    nodes: ExtremalNodes
    value: float
    found: Equations


class _BranchSearch:
    """Follows a branch of extremals.

    `points`, `slopes`: the points found so far, and da/ds at each; `folds`: the values of the parameter at folds.
    """

    def __init__(
        self, problem: ControlProblem, where: Any, direct: Transcription, nodes: Any, value: Any
    ):
        self.problem, self.where, self.shares = problem, where, direct.shares
        self.counts = counts_of(nodes, has_free_end_time(problem))
        self.scales = scales_of(direct, self.counts)
        self.dtype = value.dtype
        n = self.counts.unknowns
        self.metric = np.append(np.full(n, 1 / n), 1.0)
        self.points: list[_Point] = []
        self.slopes: list[float] = []
        self.folds: list[float] = []
        start = self._at(nodes, float(value))
        check_is_in_the_equations(by_parameter(start.found, self.scales))
        unit = np.append(np.zeros(n), 1.0)
        corrected, _ = self._corrected(start, unit, 0.0)
        check_has_start(None if corrected is not None else "no extremal was found at the start")
        assert corrected is not None
        self.points.append(corrected)

    def run(self, to: float, h: float, longest: float, most: int) -> str:
        """Adds points, up to `most`, until the parameter reaches `to`; returns the reason for the end. `h`: the first Δs."""
        first = self.points[0].value
        sign = 1.0 if to >= first else -1.0
        tangent = self._tangent(self.points[0], np.append(np.zeros(self.counts.unknowns), sign))
        self.slopes.append(float(tangent[-1]))
        while len(self.points) < most:
            new, corrections = self._corrected(self.points[-1], tangent, h)
            if new is None:
                h /= 2
                if h < SHORTEST:
                    return f"no step leads on from {self.points[-1].value:.6g}"
                continue
            if sign * (new.value - to) >= 0:
                return self._finish(to)
            turned = self._tangent(new, tangent)
            if turned[-1] * tangent[-1] < 0:
                self.folds.append(self._fold(self.points[-1], tangent, h))
            self.points.append(new)
            self.slopes.append(float(turned[-1]))
            tangent = turned
            h = min(LONGER * h, longest) if corrections <= FEW_CORRECTIONS else h
        return f"{most} points"

    def _finish(self, to: float) -> str:
        """Adds the last point, at which the parameter is `to`; returns the reason for the end."""
        n = self.counts.unknowns
        last, unit = self.points[-1], np.append(np.zeros(n), 1.0)
        new, _ = self._corrected(last, unit, to - last.value)
        if new is None:
            return f"the point at {to:.6g} was not found; the last one is near it"
        self.points.append(new)
        self.slopes.append(self.slopes[-1])
        return f"reached {to:.6g}"

    def _at(self, nodes: ExtremalNodes, value: float) -> _Point:
        problem = eqx.tree_at(self.where, self.problem, jnp.asarray(value, self.dtype))
        return _Point(nodes, value, equations(problem, self.shares, nodes, self.where))

    def _bordered(self, point: _Point, row: Any) -> tuple[Any, Any]:
        """(F, ∂F/∂(z, a) with one more row: the vector `row` times the metric)."""
        residual, matrix = assembled(point.found, self.counts, self.scales)
        matrix = np.column_stack([matrix, by_parameter(point.found, self.scales)])
        return residual, np.vstack([matrix, self.metric * row])

    def _tangent(self, point: _Point, before: Any) -> Any:
        """The unit tangent of the branch at a point, in the direction of the tangent `before`."""
        _, matrix = self._bordered(point, before)
        found = least_squares(matrix, np.append(np.zeros(matrix.shape[0] - 1), 1.0))
        return found / np.sqrt(np.sum(self.metric * found**2))

    def _corrected(self, start: _Point, tangent: Any, h: float) -> tuple[_Point | None, int]:
        """Returns (the branch's point at the distance h from `start` along the tangent, number of Newton iterations).

        The point is None if it is not found.
        """
        point = self._after_change(start, h * tangent)
        passed = h
        for k in range(MOST_CORRECTIONS):
            if not is_finite(point.found):
                return None, k
            residual, matrix = self._bordered(point, tangent)
            scale = size_of_costates(point.nodes, self.scales)
            if np.max(np.abs(residual)) <= TOLERANCE * scale and abs(passed - h) <= TOLERANCE:
                nodes = point.nodes._replace(c=point.found.c)
                return point._replace(nodes=nodes), k
            change = least_squares(matrix, -np.append(residual, passed - h))
            passed += float(np.sum(self.metric * tangent * change))
            point = self._after_change(point, change)
        return None, MOST_CORRECTIONS

    def _after_change(self, point: _Point, change: Any) -> _Point:
        """The point after a change of (z, a), which need not be on the branch."""
        space = self.problem.system.space
        nodes = stepped(space, point.nodes, change[:-1], self.counts, self.scales)
        return self._at(nodes, point.value + float(change[-1]))

    def _fold(self, start: _Point, tangent: Any, h: float) -> float:
        """The value of the parameter where da/ds = 0, by the secant method on the length of a step from `start`."""
        ends, slopes = [0.0, h], [float(tangent[-1])]
        point, _ = self._corrected(start, tangent, h)
        for _ in range(FOLD_STEPS):
            if point is None:
                break
            slopes.append(float(self._tangent(point, tangent)[-1]))
            if abs(slopes[-1]) < 1e-9 or slopes[-1] == slopes[-2]:
                break
            ends.append(ends[-1] - slopes[-1] * (ends[-1] - ends[-2]) / (slopes[-1] - slopes[-2]))
            point, _ = self._corrected(start, tangent, ends[-1])
        return float("nan") if point is None else point.value

    def branch(self, status: str) -> ExtremalBranch:
        """The branch with the points found so far."""

        def stack(values):
            return jax.tree.map(lambda *x: np.stack(x), *values)

        nodes = [point.nodes for point in self.points]
        t0, shares = float(self.problem.ts[0]), np.asarray(self.shares)
        return ExtremalBranch(
            np.array([point.value for point in self.points]),
            np.array([float(point.found.cost) for point in self.points]),
            np.stack([np.asarray(x.costates[0]) for x in nodes]),
            np.array(self.slopes),
            np.array(self.folds),
            np.stack([t0 + shares * (float(x.end) - t0) for x in nodes]),
            stack([(x.q, x.u) for x in nodes]),
            np.stack([np.asarray(x.c) for x in nodes]),
            status,
        )
