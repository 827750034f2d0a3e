"""Gradient descent on one simulation, by any optax optimiser."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from jaxhamel._compiled import compiled
from jaxhamel._search._loop import Progress, Verdict
from jaxhamel._search._stepwise import strong, updated
from jaxhamel.control._checks._curve_methods import check_descent
from jaxhamel.control._methods._method import AbstractControlSearch, AbstractManyStarts
from jaxhamel.control._methods._single_shooting import residual
from jaxhamel.control._problem._problem import ControlProblem


class Descent(NamedTuple):
    """The state of a descent: parameters `p`, the optimiser's `state`, and the `best` parameters so far with their cost."""

    p: Float[Array, " P"]
    state: optax.OptState
    best: Float[Array, " P"]
    least: Float[Array, ""]


class GradientDescent(AbstractManyStarts):
    """Minimises J(p) by an optax optimiser; its gradients pass through the simulation, by `jaxhamel.simulate`'s adjoint.

    **Arguments:**

    - `optimiser`: any `optax.GradientTransformation`, also `optax.lbfgs()` with its line search.
    - `iterations`, `max_seconds`: limits of the search. `gradient_tolerance`: |∇J| below which the search has converged.
    - `samples`, `penalty`, `options`: see `jaxhamel.control.residual`; constraints enter J as penalties.

    For long unstable motions, gradients through a single simulation are useless; use `MultipleShooting`.
    """

    optimiser: optax.GradientTransformation | optax.GradientTransformationExtraArgs
    iterations: int = 200
    max_seconds: float = 60.0
    gradient_tolerance: float = 1e-6
    samples: int = eqx.field(static=True, default=6)
    penalty: float = 1e4
    options: dict[str, Any] = eqx.field(default_factory=dict)

    def __check_init__(self) -> None:
        check_descent(self)

    def cost(self, problem: ControlProblem, p: Float[Array, " P"]) -> Float[Array, ""]:
        """J(p), with a penalty for violated constraints."""
        r = residual(problem, p, samples=self.samples, penalty=self.penalty, options=self.options)
        return jnp.dot(r, r) / 2

    def search(self, problem: ControlProblem, p: Float[Array, "*S P"]) -> AbstractControlSearch:
        """Sets up the descent from the free parameters p."""
        return _Search(self, problem, p)


class _Search(AbstractControlSearch):
    """A descent from one start, or from many in parallel."""

    out_of_iterations = "{limit} done: best so far"

    def __init__(self, method: GradientDescent, problem: ControlProblem, p: Float[Array, "*S P"]):
        super().__init__(method.iterations, method.max_seconds)
        self.method, self.problem, self.descent = method, problem, _begin(method, p)

    def make_iterations(self) -> None:
        self.descent, numbers = _descend(self.method, self.problem, self.descent)
        self.note(**_best_of(numbers))

    def verdict(self) -> Verdict | None:
        row = self.rows[-1]
        if not np.isfinite(row["cost"]):
            return Verdict(False, _not_finite(len(self.rows)))
        if row["gradient_norm"] < self.method.gradient_tolerance:
            return Verdict(True, "the gradient is below its tolerance")
        return None

    def report(self) -> Progress:
        row = self.rows[-1]
        return Progress.of_cost(len(self.rows), row["cost"], row["seconds"], self.time_left())

    def found(self) -> tuple[Float[Array, " P"], float, float]:
        best, least = np.atleast_2d(self.descent.best), np.atleast_1d(self.descent.least)
        costs = np.nan_to_num(self.history["cost"], nan=np.inf)
        row = self.rows[int(np.argmin(costs))]
        return jnp.asarray(best[np.nanargmin(least)]), row["cost"], row["gradient_norm"]


def _not_finite(iteration: int) -> str:
    """The status of a search whose cost is not finite at this iteration, with advice."""
    if iteration == 1:
        return "the cost is not finite where the search starts: look for a NaN in costs and control"
    return "the cost is not finite any more: best so far. Try a smaller learning rate"


@compiled
def _begin(method: GradientDescent, p) -> Descent:
    """The descent before its first update, from one start or from many."""

    def begin(p):
        return Descent(p, strong(method.optimiser.init(p)), p, jnp.full((), jnp.inf, p.dtype))

    return begin(p) if p.ndim == 1 else jax.vmap(begin)(p)


@compiled
def _descend(method: GradientDescent, problem: ControlProblem, descent: Descent):
    """Returns (the descent after one update, the numbers to report), for one start or for many."""
    optimiser = optax.with_extra_args_support(method.optimiser)

    def cost(p):
        return method.cost(problem, p)

    def one(at: Descent):
        value, gradient = jax.value_and_grad(cost)(at.p)
        known = {"value": value, "grad": gradient, "value_fn": cost}
        p, state = updated(optimiser, gradient, at.state, at.p, **known)
        better = value < at.least
        best, least = jnp.where(better, at.p, at.best), jnp.where(better, value, at.least)
        new = Descent(p, state, best, least)
        return new, {"cost": value, "gradient_norm": jnp.linalg.norm(gradient)}

    return one(descent) if descent.p.ndim == 1 else jax.vmap(one)(descent)


def _best_of(numbers) -> dict[str, float]:
    """The cost and gradient norm of the start with the lowest cost."""
    rows = {name: np.atleast_1d(value) for name, value in numbers.items()}
    finite = np.where(np.isfinite(rows["cost"]), rows["cost"], np.inf)
    return {name: float(row[np.argmin(finite)]) for name, row in rows.items()}
