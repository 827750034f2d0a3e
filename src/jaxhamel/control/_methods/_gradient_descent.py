"""Gradient descent on one simulation, by any optax optimiser."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float

from jaxhamel import _checks
from jaxhamel._words import counted
from jaxhamel.control._methods._single_shooting import residual
from jaxhamel.control._problem._curves import free_parameters
from jaxhamel.control._problem._problem import ControlProblem
from jaxhamel.control._progress import Progress
from jaxhamel.control._result import Result, report


class Descent(NamedTuple):
    """The state of the optimiser, and the best parameters so far."""

    p: Float[Array, " P"]
    state: optax.OptState
    best: Float[Array, " P"]
    least: Float[Array, ""]


class GradientDescent(eqx.Module):
    """min J(p) by an optax optimiser; gradients through the simulation by `jaxhamel.simulate`'s adjoint.

    **Arguments:**

    - `optimiser`: any `optax.GradientTransformation`, `optax.lbfgs()` with its line search included.
    - `iterations`, `max_seconds`: limits of the search. `gradient_tolerance`: converged when |∇J| is below it.
    - `samples`, `penalty`, `options`: see `jaxhamel.control.residual`; constraints are penalised.

    For long unstable motions gradients of a single simulation are useless; use `MultipleShooting`.
    """

    optimiser: optax.GradientTransformation | optax.GradientTransformationExtraArgs
    iterations: int = 200
    max_seconds: float = 60.0
    gradient_tolerance: float = 1e-6
    samples: int = eqx.field(static=True, default=6)
    penalty: float = 1e4
    options: dict[str, Any] = eqx.field(default_factory=dict)

    def __check_init__(self) -> None:
        _checks.check_descent(self)

    def cost(self, problem: ControlProblem, p: Float[Array, " P"]) -> Float[Array, ""]:
        """J(p), constraints penalised."""
        r = residual(problem, p, samples=self.samples, penalty=self.penalty, options=self.options)
        return jnp.dot(r, r) / 2

    def run(self, problem: ControlProblem, progress: Callable[..., Any] | None = None) -> Result:
        """Solves one problem; `progress` gets a `Progress` after each iteration."""
        return self._run(problem, free_parameters(problem.curve)[0], progress)

    def run_many(
        self,
        problem: ControlProblem,
        starts: Float[Array, "S P"],
        progress: Callable[..., Any] | None = None,
    ) -> Result:
        """Solves from many starts in parallel; returns the best result."""
        return self._run(problem, starts, progress)

    def _run(self, problem, p, progress) -> Result:
        began, rows = time.monotonic(), []
        descent = _begin(self, p)
        status = ""
        try:
            while not status:
                descent, numbers = _descend(self, problem, descent)
                rows.append(_best_of(numbers) | {"seconds": time.monotonic() - began})
                if progress is not None:
                    progress(self._progress(rows))
                status = self._status(rows)
        except KeyboardInterrupt:
            if not rows:  # there is no result yet
                raise
            status = f"interrupted after {counted(len(rows), 'iteration')}: best so far"
        best, least = np.atleast_2d(descent.best), np.atleast_1d(descent.least)
        control = free_parameters(problem.curve)[1](jnp.asarray(best[np.nanargmin(least)]))
        history = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        lowest = int(np.argmin(np.nan_to_num(history["cost"], nan=np.inf)))
        cost, gradient = rows[lowest]["cost"], rows[lowest]["gradient_norm"]
        converged = "gradient" in status
        return report(problem, control, cost, gradient, history, began, converged, status)

    def _status(self, rows) -> str:
        row = rows[-1]
        if not np.isfinite(row["cost"]):
            return _way_out(len(rows))
        if row["gradient_norm"] < self.gradient_tolerance:
            return "the gradient is below its tolerance"
        if row["seconds"] > self.max_seconds:
            return f"out of time ({self.max_seconds:g} s): best so far"
        return (
            ""
            if len(rows) < self.iterations
            else f"{counted(self.iterations, 'iteration')} done: best so far"
        )

    def _progress(self, rows) -> Progress:
        row, n = rows[-1], len(rows)
        pace = (row["seconds"] - rows[0]["seconds"]) / max(n - 1, 1)
        left = min(pace * (self.iterations - n), self.max_seconds - row["seconds"])
        nan = float("nan")
        return Progress(n, row["cost"], nan, nan, nan, True, row["seconds"], max(left, 0.0))


def _way_out(iteration: int) -> str:
    if iteration == 1:
        return "the cost is not finite where the search starts: look for a NaN in costs and control"
    return "the cost is not finite any more: best so far. Try a smaller learning rate"


@eqx.filter_jit
def _begin(method: GradientDescent, p) -> Descent:
    begin = lambda p: Descent(  # noqa: E731
        p, method.optimiser.init(p), p, jnp.full((), jnp.inf, p.dtype)
    )
    return begin(p) if p.ndim == 1 else jax.vmap(begin)(p)


@eqx.filter_jit
def _descend(method: GradientDescent, problem: ControlProblem, descent: Descent):
    """One update of one start or of each of many starts, and the numbers to report."""
    optimiser = optax.with_extra_args_support(method.optimiser)
    cost = lambda p: method.cost(problem, p)  # noqa: E731

    def one(at: Descent):
        value, gradient = jax.value_and_grad(cost)(at.p)
        with jax.numpy_dtype_promotion("standard"):  # optax counts in int32
            update, state = optimiser.update(
                gradient, at.state, at.p, value=value, grad=gradient, value_fn=cost
            )
        better = value < at.least
        best, least = jnp.where(better, at.p, at.best), jnp.where(better, value, at.least)
        p: Any = optax.apply_updates(at.p, update)
        new = Descent(p, state, best, least)
        return new, {"cost": value, "gradient_norm": jnp.linalg.norm(gradient)}

    return one(descent) if descent.p.ndim == 1 else jax.vmap(one)(descent)


def _best_of(numbers) -> dict[str, float]:
    """The numbers of the start with the lowest cost."""
    rows = {name: np.atleast_1d(value) for name, value in numbers.items()}
    finite = np.where(np.isfinite(rows["cost"]), rows["cost"], np.inf)
    return {name: float(row[np.argmin(finite)]) for name, row in rows.items()}
