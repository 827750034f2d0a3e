"""Multiple shooting: the method for tracking, for which single shooting over the whole time would be unstable."""

import time
from collections.abc import Callable
from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._words import counted
from jaxhamel.control._methods._levenberg_marquardt import (
    Iterate,
    first_iterate,
    stationarity,
    step,
)
from jaxhamel.control._methods._shooting import (
    Grid,
    Model,
    Point,
    Shooting,
    conditions,
    grid_of,
    move,
)
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._progress import Progress
from jaxhamel.control._result import Result, report
from jaxhamel.mechanics import ROUTES
from jaxhamel.mechanics._tangent import tangent_size
from jaxhamel.simulate._solvers._runge_kutta import tableau

NOT_FINITE = "the cost or the motion is not finite where the search starts: look for a NaN in costs and control"


class MultipleShooting(eqx.Module):
    r"""Levenberg–Marquardt on the states at the times `problem.ts` and the curve's parameters together.

    Each interval is integrated separately, so that errors grow over one interval only; continuity between intervals
    (`defect` = 0) is a condition, which the result satisfies to rounding. The Jacobian of an interval
    has columns only for its two nodes and for the parameters that act in it.

    **Arguments:**

    - `steps`: integration steps in each interval, even; costs are integrated on them by a Newton–Cotes rule.
    - `solver`: an explicit diffrax Runge–Kutta method, default `diffrax.Dopri8()`: unstable motion amplifies
      integration errors, and six of its steps are cheaper than 40 steps of a fourth-order method.
    - `max_iterations`, `max_seconds`: limits of the search, after which about six more iterations close the gaps.
    - `cost_tolerance`: stop when ten iterations lower the cost by less than this fraction.
    - `defect_tolerance`: largest gap that counts as closed; at least 1.2e-5 in single precision.
    - `goal`: stop once the tracking RMS is below this; None: as small as possible.
    - `damping`: initial λ; `penalty`: σ, at most 8e3 in single precision; `switch`: see
      `jaxhamel.control._methods._levenberg_marquardt`.
    - `route`: route to the equations of motion, see `jaxhamel.acceleration`.

    Memory and time of the linear algebra grow with the square and cube of the number of unknowns,
    N (dim Q + k) + P; about 1000 are comfortable.
    """

    steps: int = eqx.field(static=True, default=6)
    solver: diffrax.AbstractSolver[Any] = eqx.field(default_factory=diffrax.Dopri8)
    max_iterations: int = 400
    max_seconds: float = 60.0
    cost_tolerance: float = 1e-3
    defect_tolerance: float = 1e-10
    goal: float | None = None
    damping: float = 100.0
    penalty: float = 1e6
    switch: float = 1e-2
    route: str | None = eqx.field(static=True, default=None)

    def __check_init__(self) -> None:
        _checks.check_shooting(self)
        _checks.check_route(self.route, ROUTES)

    def run(self, problem: ControlProblem, progress: Callable[..., Any] | None = None) -> Result:
        """Solves one problem; `progress` gets a `Progress` after each iteration."""
        search = _Search(self, problem, progress)
        search.iterate(_start(problem, self.damping, free_parameters(problem.curve)[0]))
        return search.result()

    def run_many(
        self,
        problem: ControlProblem,
        starts: Float[Array, "S P"],
        progress: Callable[..., Any] | None = None,
    ) -> Result:
        """Solves from many starts in parallel; reports and returns the best one."""
        search = _Search(self, problem, progress)
        search.iterate(jax.vmap(lambda p: _start(problem, self.damping, p))(starts))
        return search.result()

    def shooting(self) -> Shooting:
        """The object that integrates the intervals and assembles their quadratic model."""
        return Shooting(tableau(self.solver), self.steps, self.route)


@eqx.filter_jit
def advance(shooting: Shooting, problem: ControlProblem, grid: Grid, iterate, penalty, switch):
    """One Levenberg–Marquardt step, of one start or of each of many, and the numbers to report."""
    one = lambda iterate: _advance_one(shooting, problem, grid, iterate, penalty, switch)  # noqa: E731
    return one(iterate) if iterate.damping.ndim == 0 else jax.vmap(one)(iterate)


def _advance_one(shooting, problem, grid, iterate: Iterate, penalty, switch):
    iterate = step(
        iterate,
        evaluate=lambda point: shooting.model(problem, grid, point),
        conditions=lambda point: shooting.defects(problem, grid, point),
        move=lambda point, z: move(problem, point, z),
        penalty=penalty,
        switch=switch,
    )
    span = problem.ts[-1] - problem.ts[0]
    gaps = tangent_size(problem.system) * (problem.ts.shape[0] - 1)
    numbers = {
        "cost": iterate.model.cost,
        "tracking_rms": _tracking_rms(problem, iterate.model.tracking / span),
        "defect": jnp.max(jnp.abs(iterate.model.d)),
        "missed": jnp.max(jnp.abs(iterate.model.d[gaps:]), initial=0.0),
        "gradient_norm": stationarity(iterate.model, iterate.y),
        "damping": iterate.damping,
        "accepted": iterate.accepted,
    }
    return iterate, numbers


def _tracking_rms(problem, mean_square):
    """The tracking error (RMS); NaN without a tracking cost."""
    tracked = problem.tracking is not None
    return jnp.sqrt(mean_square) if tracked else jnp.full_like(mean_square, jnp.nan)


def best_start(costs, defects, switch: float) -> int:
    """Index of the start with the least cost among those whose conditions are nearly met, if any is."""
    met = np.isfinite(costs) & (defects < switch)
    ranks = np.where(met, costs, np.inf) if met.any() else defects
    return int(np.argmin(np.where(np.isnan(ranks), np.inf, ranks)))


def _start(problem: ControlProblem, damping, p) -> Iterate:
    q, u = problem.guess
    given = lambda rows, first: rows.at[0].set(first)  # noqa: E731
    point = Point(jax.tree.map(given, q, problem.q0), given(u, problem.u0), p)
    return first_iterate(point, _blank(problem, point), damping)


def _blank(problem, point: Point) -> Model:
    """A model of the right shapes."""
    n, N = tangent_size(problem.system), point.u.shape[0] - 1
    last = jax.tree.map(lambda a: a[-1], (point.q, point.u))
    ends = eqx.filter_eval_shape(conditions, problem, last, point.p).shape[0]
    zeros = lambda *shape: jnp.zeros(shape, point.u.dtype)  # noqa: E731
    z, c = n * N + point.p.shape[0], n * N + ends
    return Model(zeros(), zeros(z), zeros(z, z), zeros(c), zeros(c, z), zeros())


def _open(row: dict[str, float]) -> str:
    """A description of the conditions that are not met."""
    if row["missed"] < row["defect"]:
        return f"gaps of {row['defect']:.1e} between intervals remain"
    return (
        f"the constraints are missed by {row['missed']:.1e}: they contradict each other, or are out of reach of this "
        "curve in this time"
    )


class _Search:
    """The host's loop around `advance`: stores the history, reports progress, and decides when to stop."""

    def __init__(self, method: MultipleShooting, problem: ControlProblem, progress):
        self.method, self.problem, self.progress = method, problem, progress
        self.began = time.monotonic()
        self.shooting, self.grid = method.shooting(), grid_of(problem)
        number = lambda x: jnp.asarray(x, problem.u0.dtype)  # noqa: E731
        self.eps = float(jnp.finfo(problem.u0.dtype).eps)
        # In single precision a larger σDᵀD drowns H in rounding: with the value 1e6 of double precision, the cost was eight
        # times the minimum after 100 iterations; with 8e3 the minimum was found in 23.
        self.limits = number(min(method.penalty, 1e-3 / self.eps)), number(method.switch)
        self.rows: list[dict[str, float]] = []
        self.status, self.converged = "", False

    def iterate(self, iterate: Iterate) -> None:
        try:
            while not self.status:
                iterate = self.last = self._advance(iterate)
                self._decide()
        except KeyboardInterrupt:
            if not self.rows:  # there is no result yet
                raise
            n = counted(len(self.rows), "iteration")
            self._stop(f"interrupted after {n}: best so far", False)
        self.last = self._land(self.last)

    def _advance(self, iterate: Iterate) -> Iterate:
        method = self.method
        iterate, numbers = advance(self.shooting, self.problem, self.grid, iterate, *self.limits)
        rows = {name: np.atleast_1d(value) for name, value in numbers.items()}
        self.best = best_start(rows["cost"], rows["defect"], method.switch)
        row = {name: float(values[self.best]) for name, values in rows.items()}
        self.rows.append(row | {"seconds": time.monotonic() - self.began})
        if self.progress is not None:
            self.progress(self._progress())
        return iterate

    def _progress(self) -> Progress:
        row, n = self.rows[-1], len(self.rows)
        first = self.rows[0]["seconds"]  # mostly compilation
        pace = (row["seconds"] - first) / max(n - 1, 1)
        left = min(pace * self._iterations_left(), self.method.max_seconds - row["seconds"])
        return Progress(
            n,
            row["cost"],
            row["tracking_rms"],
            row["defect"],
            row["damping"],
            bool(row["accepted"]),
            row["seconds"],
            max(left, 0.0),
        )

    def _iterations_left(self) -> float:
        """An estimate of the iterations left: to the goal at the pace of the last ten, or to the limit."""
        limit, errors = (
            self.method.max_iterations - len(self.rows),
            [r["tracking_rms"] for r in self.rows],
        )
        if self.method.goal is None or len(errors) < 11 or not errors[-11] > errors[-1] > 0:
            return max(limit, 0)
        pace = np.log(errors[-11] / errors[-1]) / 10
        return float(np.clip(np.log(errors[-1] / self.method.goal) / pace, 0, max(limit, 0)))

    def _decide(self) -> None:
        method, row = self.method, self.rows[-1]
        met = row["defect"] < method.switch
        if method.goal is not None and met and row["tracking_rms"] < method.goal:
            self._stop("the goal for the tracking error is reached", True)
        elif met and self._stalled():
            self._stop("the cost falls no further", True)
        elif not np.isfinite(row["cost"] + row["defect"]):
            self._stop(NOT_FINITE, False)
        elif row["damping"] > 1e14:
            self._stop("no step lowers the cost any more", bool(met))
        elif row["seconds"] > method.max_seconds:
            self._stop(f"out of time ({method.max_seconds:g} s): best so far", False)
        elif len(self.rows) >= method.max_iterations:
            self._stop(f"out of iterations ({method.max_iterations}): best so far", False)

    def _stalled(self, count: int = 10) -> bool:
        """The last `count` accepted steps together changed the cost by less than the tolerance."""
        met = [r for r in self.rows if r["accepted"] and r["defect"] < self.method.switch]
        if len(met) <= count:
            return False
        costs = [row["cost"] for row in met[-count - 1 :]]
        return max(costs) - min(costs) < self.method.cost_tolerance * abs(costs[-1])

    def _stop(self, status: str, converged: bool) -> None:
        self.status, self.converged = status, converged

    def _land(self, iterate: Iterate) -> Iterate:
        """Closes the gaps to rounding: heavily damped steps are Newton steps on the conditions alone."""
        if self.status == NOT_FINITE:
            return iterate
        heavy = jnp.maximum(iterate.damping, 1e3)
        # The present candidate is a long step; stay at the current point instead.
        iterate = iterate._replace(candidate=iterate.point, started=jnp.zeros_like(iterate.started))
        for _ in range(6):
            iterate = self._advance(iterate._replace(damping=heavy))
            if self.rows[-1]["defect"] < self._closed():
                return iterate
        self.converged = False
        self.status += f"; {_open(self.rows[-1])}"
        return iterate

    def _closed(self) -> float:
        """The largest gap that counts as closed: the method's tolerance, or the limit of single precision."""
        return max(self.method.defect_tolerance, 100 * self.eps)

    def result(self) -> Result:
        row = self.rows[-1]
        history = {name: np.array([r[name] for r in self.rows]) for name in row}
        control = free_parameters(self.problem.curve)[1](self._parameters())
        numbers = (row["cost"], row["gradient_norm"], history, self.began)
        return report(self.problem, control, *numbers, self.converged, self.status)

    def _parameters(self):
        p = self.last.point.p
        return p if p.ndim == 1 else p[self.best]
