"""The search of multiple shooting: Levenberg–Marquardt steps from one start or from many, whose point can be saved."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._lanes._xla_cpu._jit import MANY_RUNS, compiled_with
from jaxhamel._search._loop import Progress, Verdict
from jaxhamel._search._saved import named_arrays, restored
from jaxhamel.control._checks._collocation import check_fits
from jaxhamel.control._methods._levenberg_marquardt import (
    Iterate,
    first_iterate,
    next_iterate,
    stationarity,
)
from jaxhamel.control._methods._method import AbstractControlSearch
from jaxhamel.control._methods._shooting import (
    Grid,
    Point,
    QuadraticModel,
    Shooting,
    conditions,
    grid_of,
    move,
)
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.mechanics._tangent import tangent_size

NOT_FINITE = "the cost or the motion is not finite where the search starts: look for a NaN in costs and control"
STUCK = 1e14  # a damping above this means that no step is accepted any more


@compiled_with(MANY_RUNS)
def _after_steps(shooting: Shooting, problem: ControlProblem, grid: Grid, iterate, penalty, switch):
    """(the iterate after a Levenberg–Marquardt step, the numbers to report), for one start or for many."""

    def one(iterate):
        return _after_step(shooting, problem, grid, iterate, penalty, switch)

    return one(iterate) if iterate.damping.ndim == 0 else jax.vmap(one)(iterate)


def _after_step(shooting, problem, grid, iterate: Iterate, penalty, switch):
    iterate = next_iterate(
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


def _chosen_of(condition, a, b):
    """For each start, the leaves of `a` where `condition` holds, otherwise those of `b`."""

    def chosen(x, y):
        return jnp.where(
            condition.reshape(condition.shape + (1,) * (x.ndim - condition.ndim)), x, y
        )

    return jax.tree.map(chosen, a, b)


def best_start(costs, defects, switch: float) -> int:
    """Index of the start with the least cost among those whose largest defect is below `switch`; if there is none, of the
    start with the least defect."""
    met = np.isfinite(costs) & (defects < switch)
    ranks = np.where(met, costs, np.inf) if met.any() else defects
    return int(np.argmin(np.where(np.isnan(ranks), np.inf, ranks)))


def _first_iterate(problem: ControlProblem, damping, p) -> Iterate:
    """The iterate before the first evaluation, with the states of the problem's guess and the parameters p."""
    q, u = problem.guess

    def given(rows, first):
        return rows.at[0].set(first)

    point = Point(jax.tree.map(given, q, problem.q0), given(u, problem.u0), p)
    return first_iterate(point, _blank(problem, point), damping)


def _blank(problem, point: Point) -> QuadraticModel:
    """A quadratic model of zeros, with the shapes of the problem's model."""
    n, N = tangent_size(problem.system), point.u.shape[0] - 1
    last = jax.tree.map(lambda a: a[-1], (point.q, point.u))
    ends = eqx.filter_eval_shape(conditions, problem, last, point.p).shape[0]

    def zeros(*shape):
        return jnp.zeros(shape, point.u.dtype)

    z, c = n * N + point.p.shape[0], n * N + ends
    return QuadraticModel(zeros(), zeros(z), zeros(z, z), zeros(c), zeros(c, z), zeros())


def _unmet_conditions(row: dict[str, float]) -> str:
    """A sentence on the conditions that are not met."""
    if row["missed"] < row["defect"]:
        return f"gaps of {row['defect']:.1e} between intervals remain"
    return (
        f"the constraints are missed by {row['missed']:.1e}: they contradict each other, or are out of reach of this "
        "curve in this time"
    )


class SavedPoint(NamedTuple):
    """The saved part of an `Iterate`. The model is evaluated again at the point, and the step from it computed again."""

    point: Point
    y: Float[Array, "*S c"]
    damping: Float[Array, "*S"]
    exact: Bool[Array, "*S"]

    @classmethod
    def of(cls, iterate: Iterate) -> "SavedPoint":
        """The part of `iterate` that is saved."""
        return cls(iterate.point, iterate.y, iterate.damping, iterate.exact)


class MultipleShootingSearch(AbstractControlSearch):
    """Levenberg–Marquardt steps from one start or from many; at the end the gaps are closed."""

    def __init__(self, method: Any, problem: ControlProblem, p: Float[Array, "*S P"]):
        super().__init__(method.max_iterations, method.max_seconds)
        self.method, self.problem = method, problem
        self.shooting, self.grid = method.shooting(), grid_of(problem)

        def number(x):
            return jnp.asarray(x, problem.u0.dtype)

        self.eps = float(jnp.finfo(problem.u0.dtype).eps)
        # In single precision H is lost in the rounding of a large σDᵀD: with 1e6, as in double precision, the cost is eight
        # times the minimum after 100 iterations; with 8e3 the minimum is found in 23.
        self.limits = number(min(method.penalty, 1e-3 / self.eps)), number(method.switch)

        def first(p):
            return _first_iterate(problem, method.damping, p)

        self.iterate = first(p) if p.ndim == 1 else jax.vmap(first)(p)
        self.before_closing: Iterate | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The last point before the gaps are closed, with its multipliers and damping, as named arrays for `resume`."""
        at = self.iterate if self.before_closing is None else self.before_closing
        return named_arrays(SavedPoint.of(at))

    def resume(self, saved: Mapping[str, np.ndarray]) -> None:
        """Continues from the arrays of `to_arrays` of an earlier search on the same problem.

        **Raises:** `ValueError` if the arrays do not fit the problem.
        """
        at = check_fits(restored(saved, SavedPoint.of(self.iterate)))
        begun, first = at.point, self.iterate.point
        many = begun.u.ndim - self.problem.guess[1].ndim
        node = (slice(None),) * many + (0,)  # the first node is the problem's initial state

        def with_first(x, given):
            return x.at[node].set(given[node])

        q = jax.tree.map(with_first, begun.q, first.q)
        point = begun._replace(q=q, u=with_first(begun.u, first.u))
        self.iterate = self.iterate._replace(**at._replace(point=point)._asdict(), candidate=point)

    def run(self, progress: Callable[..., Any] | None = None) -> Verdict:
        ending = super().run(progress)
        return ending if ending.status == NOT_FINITE else self._close_gaps(ending, progress)

    def make_iterations(self) -> None:
        self.iterate, numbers = _after_steps(
            self.shooting, self.problem, self.grid, self.iterate, *self.limits
        )
        rows = {name: np.atleast_1d(value) for name, value in numbers.items()}
        self.best = best_start(rows["cost"], rows["defect"], self.method.switch)
        self.note(**{name: float(values[self.best]) for name, values in rows.items()})

    def report(self) -> Progress:
        row = self.rows[-1]
        return Progress(
            len(self.rows),
            row["cost"],
            row["tracking_rms"],
            row["defect"],
            row["damping"],
            bool(row["accepted"]),
            row["seconds"],
            self.time_left(self._iterations_left()),
            np.atleast_2d(self.iterate.point.p)[self.best],
        )

    def _iterations_left(self) -> float:
        """The number of iterations left: up to the limit or, with a goal, estimated from the pace of the last ten."""
        limit, errors = (
            self.iterations - len(self.rows),
            [r["tracking_rms"] for r in self.rows],
        )
        if self.method.goal is None or len(errors) < 11 or not errors[-11] > errors[-1] > 0:
            return max(limit, 0)
        pace = np.log(errors[-11] / errors[-1]) / 10
        return float(np.clip(np.log(errors[-1] / self.method.goal) / pace, 0, max(limit, 0)))

    def verdict(self) -> Verdict | None:
        method, row = self.method, self.rows[-1]
        met = row["defect"] < method.switch
        if method.goal is not None and met and row["tracking_rms"] < method.goal:
            return Verdict(True, "the goal for the tracking error is reached")
        if met and self._stalled():
            return Verdict(True, "the cost falls no further")
        if not np.isfinite(row["cost"] + row["defect"]):
            return Verdict(False, NOT_FINITE)
        if row["damping"] > STUCK and not self._go_on_with_conditions():
            return Verdict(bool(met), "no step lowers the cost any more")
        return None

    def _go_on_with_conditions(self) -> bool:
        """Lets starts that penalties bring no further satisfy the linearised conditions from now on; whether there are any.

        A penalised minimum misses the conditions by y / σ; where the multipliers y are large, that is more than `switch`.
        """
        it = self.iterate
        stuck = (it.damping > STUCK) & ~it.exact
        if not np.any(stuck):
            return False
        # The candidate is a rejected one; the next step begins at the current point, which is judged anew.
        candidate = _chosen_of(stuck, it.point, it.candidate)
        damping = jnp.where(stuck, jnp.asarray(self.method.damping, it.damping.dtype), it.damping)
        self.iterate = it._replace(
            candidate=candidate,
            damping=damping,
            growth=jnp.where(stuck, 2.0, it.growth),
            exact=it.exact | stuck,
            started=it.started & ~stuck,
        )
        return True

    def _stalled(self, count: int = 10) -> bool:
        """Whether the cost has changed by less than the tolerance over the last `count` accepted steps."""
        met = [r for r in self.rows if r["accepted"] and r["defect"] < self.method.switch]
        if len(met) <= count:
            return False
        costs = [row["cost"] for row in met[-count - 1 :]]
        return max(costs) - min(costs) < self.method.cost_tolerance * abs(costs[-1])

    def _close_gaps(self, ending: Verdict, progress: Callable[..., Any] | None) -> Verdict:
        """Closes the gaps by heavily damped steps, which are Newton steps for the conditions alone."""
        last = self.before_closing = self.iterate
        heavy = jnp.maximum(last.damping, 1e3)
        # The candidate is the end of a long step; the search stays at the current point instead.
        self.iterate = last._replace(candidate=last.point, started=jnp.zeros_like(last.started))
        for _ in range(6):
            self.iterate = self.iterate._replace(damping=heavy)
            self.iterate_and_report(progress)
            if self.rows[-1]["defect"] < self._closed():
                return ending
        return Verdict(False, f"{ending.status}; {_unmet_conditions(self.rows[-1])}")

    def _closed(self) -> float:
        """The largest gap that counts as closed: the method's tolerance, or the limit of single precision."""
        return max(self.method.defect_tolerance, 100 * self.eps)

    def found(self) -> tuple[Float[Array, " P"], float, float]:
        p, row = self.iterate.point.p, self.rows[-1]
        return p if p.ndim == 1 else p[self.best], row["cost"], row["gradient_norm"]

    def nodes(self) -> tuple[Any, float]:
        point = self.iterate.point
        states = point.q, point.u
        if point.p.ndim > 1:
            states = jax.tree.map(lambda x: x[self.best], states)
        return states, self.rows[-1]["defect"]
