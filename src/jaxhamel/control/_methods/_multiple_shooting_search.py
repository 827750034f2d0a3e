"""The search of multiple shooting: Levenberg–Marquardt steps from one start or from many, whose point can be saved."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from jaxhamel._search._loop import Progress, Verdict
from jaxhamel._search._saved import named_arrays, restored
from jaxhamel.control._checks._collocation import check_fits
from jaxhamel.control._methods._levenberg_marquardt import Iterate
from jaxhamel.control._methods._method import AbstractControlSearch
from jaxhamel.control._methods._shooting import Grid, Point, Shooting, grid_of
from jaxhamel.control._methods._shooting_sizes import ShootingSizes, sizes_of_model, unit_sizes
from jaxhamel.control._methods._shooting_steps import after_steps, iterate_of
from jaxhamel.control._problem._problem import ControlProblem

NOT_FINITE = "the cost or the motion is not finite where the search starts: look for a NaN in costs and control"
STUCK = 1e14  # a damping above this means that no step is accepted any more
SAME = 1e-3  # relative change below which the largest residual of the conditions counts as the same


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


def _unmet_conditions(row: dict[str, float]) -> str:
    """A sentence on the conditions that are not met."""
    if row["missed"] < row["defect"]:
        return f"gaps of {row['defect']:.1e} between intervals remain"
    return (
        f"the constraints are missed by {row['missed']:.1e}: they contradict each other, or are out of reach of this "
        "curve in this time"
    )


class SavedPoint(NamedTuple):
    """The saved part of an `Iterate`, and the sizes in which it is.

    The model is evaluated again at the point, and the step from it computed again.
    """

    point: Point
    y: Float[Array, "*S c"]
    damping: Float[Array, "*S"]
    exact: Bool[Array, "*S"]
    sizes: ShootingSizes

    @classmethod
    def of(cls, iterate: Iterate, sizes: ShootingSizes) -> "SavedPoint":
        """The part of `iterate` that is saved."""
        return cls(iterate.point, iterate.y, iterate.damping, iterate.exact, sizes)


class MultipleShootingSearch(AbstractControlSearch):
    """Levenberg–Marquardt steps from one start or from many; at the end the gaps are closed."""

    def __init__(self, method: Any, problem: ControlProblem, p: Float[Array, "*S P"]):
        super().__init__(method.max_iterations, method.max_seconds)
        self.method: Any = method
        self.problem: ControlProblem = problem
        self.shooting: Shooting = method.shooting()
        self.grid: Grid = grid_of(problem)
        self.best: int = 0  # the number of the best start

        def number(x):
            return jnp.asarray(x, problem.u0.dtype)

        self.eps: float = float(jnp.finfo(problem.u0.dtype).eps)
        # In single precision H is lost in the rounding of a large σDᵀD: with 1e6, as in double precision, the cost is eight
        # times the minimum after 100 iterations; with 8e3 the minimum is found in 23.
        strongest = min(method.penalty, 1e-3 / self.eps)
        self.limits: tuple[Array, Array] = number(strongest), number(method.switch)

        def first(p):
            return iterate_of(problem, method.damping, p)

        self.iterate: Iterate = first(p) if p.ndim == 1 else jax.vmap(first)(p)
        self.first: Iterate | None = self.iterate  # until the sizes are known
        ends = self.iterate.model.d.shape[-1]
        unknowns = self.iterate.model.g.shape[-1]
        self.sizes: ShootingSizes = unit_sizes(unknowns, ends, problem.u0.dtype)
        # The iteration from which a start keeps the linearised conditions.
        self.exact_since: int = method.max_iterations
        self.before_closing: Iterate | None = None

    def to_arrays(self) -> dict[str, np.ndarray]:
        """The last point before the gaps are closed, with its multipliers and damping, as named arrays for `resume`."""
        at = self.iterate if self.before_closing is None else self.before_closing
        return named_arrays(SavedPoint.of(at, self.sizes))

    def resume(self, saved: Mapping[str, np.ndarray]) -> None:
        """Continues from the arrays of `to_arrays` of an earlier search on the same problem.

        **Raises:** `ValueError` if the arrays do not fit the problem.
        """
        at = check_fits(restored(saved, SavedPoint.of(self.iterate, self.sizes)))
        begun, first = at.point, self.iterate.point
        many = begun.u.ndim - self.problem.guess[1].ndim
        node = (slice(None),) * many + (0,)  # the first node is the problem's initial state

        def with_first(x, given):
            return x.at[node].set(given[node])

        q = jax.tree.map(with_first, begun.q, first.q)
        point = begun._replace(q=q, u=with_first(begun.u, first.u))
        self.iterate = self.iterate._replace(
            point=point, y=at.y, damping=at.damping, exact=at.exact, candidate=point
        )
        self.sizes, self.first = at.sizes, None

    def run(self, progress: Callable[..., Any] | None = None) -> Verdict:
        ending = super().run(progress)
        return ending if ending.status == NOT_FINITE else self._close_gaps(ending, progress)

    def make_iterations(self) -> None:
        rows = self._step()
        if self._takes_sizes():
            rows = self._step()
        self.note(**{name: float(values[self.best]) for name, values in rows.items()})

    def _step(self) -> dict[str, np.ndarray]:
        """Makes a step of every start; returns the numbers of all starts."""
        given = self.shooting, self.problem, self.grid, self.sizes, self.iterate
        self.iterate, numbers = after_steps(*given, *self.limits)
        rows = {name: np.atleast_1d(value) for name, value in numbers.items()}
        self.best = best_start(rows["cost"], rows["defect"], self.method.switch)
        return rows

    def _takes_sizes(self) -> bool:
        """Whether the model at the guess, after the first step, has other sizes than 1; the search then begins anew."""
        first, self.first = self.first, None
        if first is None:
            return False
        model = self.iterate.model
        if model.cost.ndim:
            model = jax.tree.map(lambda x: x[self.best], model)
        self.sizes = sizes_of_model(self.problem, model)
        scales = any(bool(np.any(np.asarray(x) != 1.0)) for x in self.sizes)
        self.iterate = first if scales else self.iterate
        return scales

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
        if self._stays_apart():
            return Verdict(False, "no step comes closer to meeting the conditions")
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
        self.exact_since = len(self.rows)
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

    def _stays_apart(self, count: int = 10) -> bool:
        """Whether steps that satisfy the linearised conditions have left the largest residual of the conditions as it is,
        over the last `count` accepted ones: then the conditions contradict one another."""
        rows = [row for row in self.rows[self.exact_since :] if row["accepted"]]
        defects = [row["defect"] for row in rows[-count - 1 :]]
        met = min(defects, default=0.0) < self.method.switch
        return len(rows) > count and not met and max(defects) < (1 + SAME) * min(defects)

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
