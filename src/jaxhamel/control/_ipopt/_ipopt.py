"""The method `Ipopt`: solves the transcription of `Collocation` by the package IPOPT."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxhamel import _checks
from jaxhamel.control._charts._bases import InCharts, rebased
from jaxhamel.control._checks._methods import check_ipopt, imported_ipyopt
from jaxhamel.control._collocation._collocation import Collocation
from jaxhamel.control._collocation._collocation_search import CollocationSearch
from jaxhamel.control._interior_point._derivatives import evaluate
from jaxhamel.control._interior_point._state import first_state
from jaxhamel.control._ipopt._sparse import (
    Numbering,
    derivatives_at,
    duals_of,
    hessian_places,
    iterate_of,
    jacobian_places,
    sizes_of_program,
    values_at,
    vector_of,
)
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._result import Result
from jaxhamel.control._scaling._sizes import of_size, size_of

FINAL_BARRIER = 1e-9  # μ with which the search of `Collocation` continues from IPOPT's point


class Ipopt(eqx.Module):
    """Solves the transcription of `Collocation` by IPOPT, with the same exact derivatives: a second solver to compare with.

    The search of `Collocation` then continues from IPOPT's point and multipliers for a few iterations, so that the result
    has costates and a certificate like any other. `history` has IPOPT's iterations first.

    **Arguments:**

    - `direct`: the `Collocation` with mesh, points, tolerance and limits of the search.
    - `options`: options of IPOPT as pairs, such as `(("mu_strategy", "adaptive"),)`.

    It needs the package ipyopt: `pip install jaxhamel[ipopt]`, and double precision.

    Source: Wächter and Biegler 2006.
    """

    direct: Collocation = Collocation(intervals=20)
    options: tuple[tuple[str, Any], ...] = eqx.field(static=True, default=())

    def __check_init__(self) -> None:
        check_ipopt(self, Collocation)

    def run(self, problem: ControlProblem, progress: Callable[..., Any] | None = None) -> Result:
        """Solves one problem.

        **Arguments:** `problem`; `progress`: called with a `Progress` by the search that continues from IPOPT's point.

        **Returns:** a `Result`. **Raises:** `ImportError` without ipyopt; `TypeError` under jit, vmap or grad, and in
        single precision.
        """
        _checks.check_outside("problem", problem)
        ipyopt = imported_ipyopt(problem.u0.dtype)
        search = CollocationSearch(self.direct, problem)
        _SparseProgram(search).solve(ipyopt, self.direct, dict(self.options))
        return search.result(search.run(progress))


class _SparseProgram:
    """The nonlinear program of a search, with its values and derivatives at the latest point.

    IPOPT has all unknowns and constraints divided by their sizes, `of_z` and `of_g`.
    """

    def __init__(self, search: CollocationSearch):
        self.search, self.transcription = search, search.transcription
        self.like = search.state.w
        rows = search.state.duals.conditions.shape[0]
        self.numbers = Numbering.of(self.transcription, self.like, rows)
        self.of_z, self.of_g = sizes_of_program(self.transcription.sizes, self.like, rows)
        self.jacobian, self.hessian = jacobian_places(self.numbers), hessian_places(self.numbers)
        self.key, self.found = b"", None
        # Seconds until IPOPT's first iteration, most of which XLA takes; the search that continues is compiled in about as
        # many.
        self.compiling = 0.0

    def solve(self, ipyopt: Any, method: Collocation, options: dict[str, Any]) -> None:
        """Runs IPOPT, and sets the search's state to IPOPT's point and multipliers."""
        z = np.asarray(vector_of(self.like)) / self.of_z
        lower, upper = self._bounds(z.size)
        given = {"tol": float(self.search.tolerance), "max_iter": method.max_iterations}
        given |= {
            "print_level": 0,
            "sb": "yes",
            "bound_relax_factor": 0.0,
            **options,
        }
        g_lower, g_upper = self._constraint_bounds()
        problem = ipyopt.Problem(
            z.size, lower, upper, g_lower.size, g_lower, g_upper,
            (self.jacobian.rows, self.jacobian.columns), (self.hessian.rows, self.hessian.columns),
            lambda z: float(self._values(z)[0]),
            lambda z, out: _into(out, self.of_z * np.asarray(self._derivatives(z)[0])),
            lambda z, out: _into(out, np.asarray(self._values(z)[1]) / self.of_g),
            self._jacobian,
            self._hessian,
            self._note,
            ipopt_options=given,
        )  # fmt: skip
        multipliers, low, high = np.zeros(g_lower.size), np.zeros(z.size), np.zeros(z.size)
        z, _, _ = problem.solve(z, mult_g=multipliers, mult_x_L=low, mult_x_U=high)
        self._set_state(*map(jnp.asarray, (z, multipliers, low, high)))

    def _set_state(self, z: Array, multipliers: Array, low: Array, high: Array) -> None:
        """Sets the search's state to IPOPT's point and multipliers, which are moved inside their bounds."""
        t, count = self.transcription, self.like.p.shape[0]
        split = z.shape[0] - count
        of_p = jnp.asarray(self.of_z[split:])
        bounds = t.p_lower, t.p_upper
        p, *of_bounds = _central(of_p, of_p * z[split:], *bounds, low[split:], high[split:])
        w = iterate_of(self.like, t, jnp.concatenate([self.of_z[:split] * z[:split], p]))
        duals = duals_of(self.like, multipliers / self.of_g, (of_bounds[0], of_bounds[1]))
        w, costates, stages = rebased(t, InCharts(w, duals.costates, duals.stages))
        duals = duals._replace(costates=costates, stages=stages)
        size = of_size(jnp.ones_like(w.slack), size_of(t.sizes, "limits"))
        value, low, high = evaluate(t, w)[1].limits, size * duals.low, size * duals.high
        slack, low, high = _central(size, value, t.lower, t.upper, low, high)
        w, duals = w._replace(slack=slack), duals._replace(low=low, high=high)
        self.search.first_call = self.compiling
        begun = first_state(t, w, jnp.asarray(FINAL_BARRIER, z.dtype))
        self.search.state = begun._replace(duals=duals, estimates=jnp.asarray(False))

    def _bounds(self, size: int) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) bounds of the unknowns z."""
        count = self.like.p.shape[0]
        lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
        if count:
            lower[-count:] = np.asarray(self.transcription.p_lower)
            upper[-count:] = np.asarray(self.transcription.p_upper)
        return lower / self.of_z, upper / self.of_z

    def _constraint_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """(lower, upper) bounds of the constraints g: 0 for equations."""
        shape = self.like.slack.shape
        equations = np.zeros(self._rows)
        sides = (self.transcription.lower, self.transcription.upper)
        lower, upper = (np.broadcast_to(np.asarray(x), shape).ravel() for x in sides)
        sides = np.concatenate([equations, lower]), np.concatenate([equations, upper])
        return sides[0] / self.of_g, sides[1] / self.of_g

    @property
    def _rows(self) -> int:
        """The number of equations among the constraints."""
        numbers = self.numbers
        return numbers.stages.size + numbers.gaps.size + numbers.conditions.size

    def _values(self, z: np.ndarray) -> Any:
        return values_at(self.transcription, self.like, jnp.asarray(self.of_z * z))

    def _derivatives(self, z: np.ndarray, multipliers: np.ndarray | None = None) -> Any:
        """(gradient, Jacobian, Hessian) in the units of the problem, computed only if the point or the multipliers have
        changed."""
        known = np.zeros_like(self.of_g) if multipliers is None else multipliers / self.of_g
        key = z.tobytes() + (b"" if multipliers is None else multipliers.tobytes())
        if key != self.key:
            at = self.transcription, self.like, jnp.asarray(self.of_z * z), jnp.asarray(known)
            self.key, self.found = key, derivatives_at(*at)
        return self.found

    def _jacobian(self, z: np.ndarray, out: np.ndarray) -> None:
        """Writes the Jacobian of the constraints to `out`."""
        places = self.jacobian
        sizes = self.of_z[places.columns] / self.of_g[places.rows]
        _into(out, sizes * np.asarray(self._derivatives(z)[1])[places.kept])

    def _hessian(self, z: np.ndarray, multipliers: np.ndarray, factor: float, out: np.ndarray):
        """Writes the Hessian of `factor` · cost + multipliers · constraints to `out`."""
        of_both = np.asarray(self._derivatives(z, multipliers)[2])
        if factor != 1.0:
            of_both = of_both + (factor - 1.0) * np.asarray(self._derivatives(z)[2])
        sizes = self.of_z[self.hessian.rows] * self.of_z[self.hessian.columns]
        _into(out, sizes * of_both[self.hessian.kept])

    def _note(self, mode, k, cost, violation, stationarity, mu, norm, shift, dual, step, trials):
        """Adds an iteration to the history, as a callback of IPOPT; returns whether IPOPT continues: as long as time is left
        to compile the search that follows."""
        self.search.note(
            cost=self.search.cost_unit * cost,
            gradient_norm=stationarity,
            violation=violation,
            barrier=mu,
            step=step,
        )
        now = self.search.elapsed()
        self.compiling = self.compiling or now
        return now + self.compiling + self.search.seconds_of_result() < self.search.seconds


def _central(size: Any, value: Array, lower: Array, upper: Array, low: Array, high: Array):
    """Moves a value inside its bounds, and raises their multipliers: (value − lower) low ≥ μ, (upper − value) high ≥ μ.

    `low`, `high`: multipliers of the bounds divided by `size`. Value and multipliers are returned in the problem's units.
    """
    mu, finite = FINAL_BARRIER, jnp.isfinite
    value = jnp.maximum(value, lower + size * mu / jnp.maximum(low, 1e-4))
    value = jnp.minimum(value, upper - size * mu / jnp.maximum(high, 1e-4))
    low, high = low / size, high / size
    low = jnp.where(finite(lower), jnp.maximum(low, mu / (value - lower)), 0.0)
    high = jnp.where(finite(upper), jnp.maximum(high, mu / (upper - value)), 0.0)
    equal = lower == upper
    return jnp.where(equal, lower, value), *(jnp.where(equal, 0.0, x) for x in (low, high))


def _into(out: np.ndarray, values: Any) -> None:
    out[()] = np.asarray(values)
